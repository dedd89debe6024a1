"""Both apps in one process: what travels, what is written, and that it is what the file path writes."""

from __future__ import annotations

import csv
import os
import signal
import time

import numpy as np
import pytest
from inprocess import HOUR, MIXING, LocalGrid, client_data, request_for
from typer.testing import CliRunner

from fedica import read_aggregate, read_contribution
from fedica.cli import app as program
from fedica.errors import FedicaError, InputError
from fedica.exchange import keygen, read_folder, write_study
from fedica.flower.envelope import open_envelope
from fedica.flower.messages import REFUSAL, REQUEST, pack_fields, unpack_fields, unpack_file
from fedica.matching import match
from fedica.records import Study


def rejected(folder):
    with open(folder / "result" / "rejected.csv", newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def same_files(one, other):
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in other.iterdir())
    return [name for name in names if (one / name).read_bytes() != (other / name).read_bytes()]


def test_the_result_folder_is_byte_by_byte_that_of_the_file_path(three, tmp_path):
    """``fedica aggregate`` on the inbox writes the same seven files."""
    folder = three.run()
    arguments = ["aggregate", str(folder / "inbox"), "--components", "3", "-o", str(tmp_path / "again")]
    outcome = CliRunner().invoke(program, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert same_files(folder / "result", tmp_path / "again") == []
    result = read_folder(folder / "result").aggregate
    assert sorted(result.clients) == ["a", "b", "c"]
    assert np.abs(result.mixing.T @ (MIXING / np.linalg.norm(MIXING, axis=0))).max(axis=0).min() > 0.99


def test_a_contribution_travels_as_the_bytes_that_fedica_local_writes(three, tmp_path):
    """The message holds the file, nothing more."""
    folder = three.run()
    arguments = ["local", str(three.home(1000) / "data.npy"), "--client", "a", "--components", "3"]
    outcome = CliRunner().invoke(program, [*arguments, "-o", str(tmp_path / "a.safetensors")])
    assert outcome.exit_code == 0, outcome.output
    assert (folder / "inbox" / "a.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()


def test_clients_keep_the_public_aggregate_and_their_sources_and_say_only_that_they_did(three):
    """The second message: what ``fedica apply`` writes, where the client's own configuration says."""
    replies = []

    def listening(node):
        def answer(message):
            reply = node(message)
            replies.append(reply)
            return reply

        return answer

    folder = three.run(LocalGrid({number: listening(node) for number, node in three.clients.items()}))
    for number in three.clients:
        output = three.home(number) / "output" / "run-77"
        assert (output / "aggregate.safetensors").read_bytes() == (
            folder / "result" / "aggregate.safetensors"
        ).read_bytes()
        assert np.load(output / "sources.npy").shape == (600, 3)
        assert read_aggregate(output / "aggregate.safetensors").n_clients == 3
    second = [reply.content for reply in replies if reply.metadata.message_type == "query.aggregate"]
    assert [dict(content["applied"]) for content in second] == [{"done": True}] * 3
    assert (folder / "not-applied.csv").read_text().splitlines() == ["client,reason,source,kind"]


def test_the_result_does_not_depend_on_numbers_and_order_of_nodes(three):
    """Node ids are drawn anew in each run; clients are known by their names."""
    first = three.run()
    nodes = {5000 - number: node for number, node in reversed(three.clients.items())}
    second = three.run(LocalGrid(nodes))
    assert same_files(first / "inbox", second / "inbox") == []
    names = ("aggregate.safetensors", "mixing.csv", "components.csv", "rejected.csv")
    assert all((first / "result" / x).read_bytes() == (second / "result" / x).read_bytes() for x in names)


def test_a_study_binds_clients_and_server(federation):
    """The study's id travels; a client that agreed to another study refuses."""
    study = Study("tremor", [f"f{i}" for i in range(6)], n_components=3)
    other = Study("sleep", [f"f{i}" for i in range(6)], n_components=3)
    write_study(study, federation.folder / "study.json")
    write_study(other, federation.folder / "other.json")
    federation.coordinator(study="study.json")
    for name in "ab":
        federation.add(name, policy="max-components = 3\nmin-samples = 2\nstudy = '../../study.json'\n")
    federation.add("c", policy="max-components = 3\nmin-samples = 2\nstudy = '../../other.json'\n")
    folder = federation.run(components=0)
    assert read_contribution(folder / "inbox" / "a.safetensors").study == "tremor"
    (row,) = rejected(folder)
    assert row["client"] == "c"
    assert "its policy does not allow it" in row["reason"]


def test_a_spatial_study_with_strengths_is_pooled_by_the_default_settings(federation):
    """Clients send the maps and strengths that the study asks for; method "auto" of the run takes group."""
    rng = np.random.default_rng(0)
    maps = rng.standard_normal((200, 2)) * (rng.random((200, 2)) < 0.1)
    study = Study("rest", [f"v{i}" for i in range(200)], n_components=5, independence="features", strengths="yes")
    write_study(study, federation.folder / "study.json")
    federation.coordinator(study="study.json")
    for name in "abc":
        scans = rng.standard_normal((12, 2)) @ maps.T + 0.1 * rng.standard_normal((12, 200))
        federation.add(name, data=scans, policy="max-components = 5\nmin-samples = 2\nstudy = '../../study.json'\n")
    result = read_folder(federation.run(components=0) / "result").aggregate
    assert (result.method, result.options["n_with_strengths"]) == ("group", 3)
    assert "3 of 3 clients sent strengths" in result.options["method_because"]
    assert match(result.mixing, maps / np.linalg.norm(maps, axis=0)).cosines[:2].min() > 0.9


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("max-components = 2\nmin-samples = 2\n", "its policy does not allow it"),
        ("max-components = 3\nmin-samples = 601\n", "its data cannot be used"),
        ("max-components = 3\n", "its files or settings cannot be used"),
        ("max-components = 3\nmin-samples = 2\nmax-atoms = 3\n", "its files or settings cannot be used"),
        ("max-components = 3\nmin-samples = 2\nsigning-key = 'absent.key'\n", "its files or settings cannot be used"),
    ],
)
def test_a_policy_decides_what_may_leave_whatever_the_server_asks_for(three, policy, reason):
    """Nothing leaves but that it does not, and which kind of reason: no path, no number."""
    number = three.add("d", policy=policy)
    folder = three.run()
    (row,) = rejected(folder)
    assert row["client"] == "d"
    assert reason in row["reason"]
    assert str(three.folder) not in row["reason"]
    assert "600" not in row["reason"]
    assert sorted(path.stem for path in (folder / "inbox").iterdir()) == ["a", "b", "c"]
    assert row["source"] == f"node {number}"


def test_a_client_that_takes_too_long_ends_by_itself_and_says_so(three, monkeypatch):
    """A handler that hangs would keep its node from every later run: max-seconds of the policy ends it."""
    number = three.add("d", policy="max-components = 3\nmin-samples = 2\nmax-seconds = 0.3\n")
    monkeypatch.setattr("fedica.flower.client_app.contribute", lambda *_a, **_k: time.sleep(30))
    content = pack_fields(REQUEST, {"components": 3, "study": ""})
    reply = three.clients[number](request_for(content, number))
    assert unpack_fields(open_envelope(reply.content)[1], REFUSAL) == {
        "client": "d",
        "reason": "it did not finish within its own time limit",
    }
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_policy_holds_where_the_rank_of_the_data_decides(federation):
    """The server names no number and the data has six directions: more than the policy allows never leave."""
    for name, most in zip("abc", (6, 6, 5), strict=True):
        federation.add(name, policy=f"max-components = {most}\nmin-samples = 2\n")
    folder = federation.run(components=0)
    (row,) = rejected(folder)
    assert row["client"] == "c"
    assert "its policy does not allow it" in row["reason"]


def test_signed_contributions_are_checked_against_trusted_keys(federation):
    """What the file path does: an unsigned one is refused by the very same code."""
    for name in "abc":
        keygen(name, federation.folder / "keys")
        federation.add(name, policy=f"max-components = 3\nmin-samples = 2\nsigning-key = '../../keys/{name}.key'\n")
    federation.add("d")
    federation.coordinator(trust_keys="keys")
    folder = federation.run()
    result = read_folder(folder / "result")
    assert [(x.client, x.verified) for x in result.provenance] == [("a", True), ("b", True), ("c", True)]
    (row,) = rejected(folder)
    assert "unsigned" in row["reason"]


def test_errors_of_a_client_stay_with_the_client(three, caplog):
    """The sentence with the path is in the client's log; what leaves names a kind of failure."""
    number = three.add("d")
    (three.home(number) / "data.npy").write_bytes(b"no array")
    sent = []

    def listening(message):
        sent.append(three.clients[number](message))
        return sent[-1]

    three.run(LocalGrid(three.clients | {number: listening}))
    refusal = unpack_fields(open_envelope(sent[0].content)[1], REFUSAL)
    assert refusal == {"client": "d", "reason": "its files or settings cannot be used"}
    assert "data.npy" in caplog.text


def test_a_run_may_ask_for_more_clients_than_the_coordinator_never_for_fewer(three):
    """min-clients of the coordinator's file is a floor."""
    three.coordinator(min_clients=4)
    with pytest.raises(InputError, match="at least 4 clients"):
        three.run(min_clients=1)
    assert not (three.newest / "result").exists()


def test_what_is_withheld_is_not_sent_back(three, caplog):
    """min-support of the coordinator's file decides: the result stays with the coordinator, and the log says so."""
    three.coordinator(min_support=4)
    folder = three.run()
    assert read_folder(folder / "result").public is None
    assert "nothing goes back to the clients" in caplog.text
    assert not (folder / "not-applied.csv").exists()


def test_without_its_settings_the_server_says_what_to_set(three, monkeypatch):
    """The result's place is never guessed."""
    monkeypatch.delenv("FEDICA_COORDINATOR")
    with pytest.raises(FedicaError, match="FEDICA_COORDINATOR"):
        three.run()


def test_an_unknown_run_setting_is_refused(three):
    """A typing error is not ignored."""
    with pytest.raises(FedicaError, match="min-client'"):
        three.run(min_client=3)


def test_a_thousand_clients_in_one_process(federation, monkeypatch):
    """Real fits, real messages, one result. All share one disk, which need not outlive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    for k in range(1000):
        federation.add(f"client-{k:04}", data=client_data(k, 300))
    folder = federation.run(deadline_seconds=HOUR, return_seconds=HOUR)
    result = read_folder(folder / "result").aggregate
    assert len(result.clients) == 1000
    assert result.rejected == ()
    assert (folder / "not-applied.csv").read_text().splitlines() == ["client,reason,source,kind"]


def test_what_a_message_holds_is_exactly_one_file(three):
    """No other record travels with a contribution but its envelope, which repeats the nonce of the request."""
    contents = []

    def listening(message):
        reply = three.clients[1000](message)
        contents.append(reply.content)
        return reply

    folder = three.run(LocalGrid(three.clients | {1000: listening}))
    fields, content = open_envelope(contents[0])
    assert (list(content), list(fields)) == (["contribution"], ["nonce"])
    assert unpack_file(content, "contribution") == (folder / "inbox" / "a.safetensors").read_bytes()

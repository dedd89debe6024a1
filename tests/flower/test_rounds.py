"""Rounds after the first, in one process: what they refine, and that what goes wrong in one costs that one alone."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from inprocess import LocalGrid, answer, client_data
from typer.testing import CliRunner

from fedica import read_aggregate
from fedica.cli import app as program
from fedica.errors import FedicaError
from fedica.exchange import read_folder, read_scores, write_study
from fedica.flower.messages import pack_file
from fedica.records import Study

POLICY = "max-components = 3\nmin-samples = 2\nmax-rounds = 3\n"
SCORES = "train.scores"


@pytest.fixture
def eight(federation):
    """Eight clients of 60 samples each: far fewer than a fit of three components wants."""
    for k in range(8):
        federation.add(f"c{k}", data=client_data(k, 60), policy=POLICY)
    return federation


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def in_second_round(node, answer):
    """A node that answers the request of a further round in another way."""
    return lambda message: answer(message) if message.metadata.message_type == SCORES else node(message)


def test_a_second_round_is_byte_by_byte_that_of_the_file_path(eight, tmp_path):
    """``fedica aggregate --refine`` on the inbox of the round writes the same files; clients get the result."""
    folder = eight.run(rounds=2)
    second = folder / "round-2"
    arguments = ["aggregate", str(second / "inbox"), "--refine", str(folder / "result"), "-o", str(tmp_path / "again")]
    outcome = CliRunner().invoke(program, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert files_of(second / "result") == files_of(tmp_path / "again")
    refinement = read_folder(second / "result").aggregate.refinement
    assert (refinement.round, refinement.taken) == (2, True)
    assert refinement.turned.max() > 0.1
    for number in eight.clients:
        kept = eight.home(number) / "output" / "run-77"
        refined = (second / "result" / "aggregate.safetensors").read_bytes()
        assert (kept / "aggregate.safetensors").read_bytes() == refined
        assert (kept / "sources.npy").is_file()
    assert not (folder / "round-3").exists()


def test_a_second_message_travels_as_the_bytes_that_fedica_refine_writes(eight, tmp_path):
    """The message holds the file, nothing more."""
    folder = eight.run(rounds=2)
    arguments = ["refine", str(folder / "result"), str(eight.home(1000) / "data.npy"), "--client", "c0"]
    outcome = CliRunner().invoke(program, [*arguments, "-o", str(tmp_path / "c0.safetensors")])
    assert outcome.exit_code == 0, outcome.output
    assert (folder / "round-2" / "inbox" / "c0.safetensors").read_bytes() == (tmp_path / "c0.safetensors").read_bytes()


def test_a_third_round_refines_the_result_of_the_second(eight):
    """Its scores are those at the refined matrix."""
    folder = eight.run(rounds=3)
    second, third = (read_folder(folder / name / "result").aggregate for name in ("round-2", "round-3"))
    assert (second.refinement.round, third.refinement.round) == (2, 3)
    scores = read_scores(folder / "round-3" / "inbox" / "c0.safetensors")
    assert scores.refines == third.refinement.refines
    assert scores.refines != second.refinement.refines


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (lambda message: answer(pack_file("scores", b"garbage"), message), "safetensors"),
        (lambda message: answer(pack_file("contribution", b"garbage"), message), "'scores' alone"),
        (lambda _message: 1 / 0, "its app raised an error"),
    ],
)
def test_a_client_that_fails_in_the_second_round_keeps_its_part_in_the_first(eight, second, reason):
    """The others refine; it is listed with the reason."""
    nodes = eight.clients | {1003: in_second_round(eight.clients[1003], second)}
    folder = eight.run(LocalGrid(nodes), rounds=2)
    result = read_folder(folder / "round-2" / "result").aggregate
    assert "c3" in result.clients
    assert sorted(result.refinement.counted + result.refinement.left_out) == [f"c{k}" for k in range(8) if k != 3]
    (row,) = rows_of(folder / "round-2" / "result" / "rejected.csv")
    assert reason in row["reason"]
    assert rows_of(folder / "result" / "rejected.csv") == []


def test_a_second_round_in_which_all_fail_leaves_the_first_result(eight, caplog):
    """The run ends well, the clients get the first aggregate, and a table says who failed."""
    alone = read_folder(eight.run() / "result").aggregate
    nodes = {number: in_second_round(node, lambda _message: 1 / 0) for number, node in eight.clients.items()}
    folder = eight.run(LocalGrid(nodes), rounds=3)
    assert np.array_equal(read_folder(folder / "result").aggregate.mixing, alone.mixing)
    assert "round 2 failed, and the result before it stands: no client sent a second message" in caplog.text
    assert len(rows_of(folder / "round-2" / "rejected.csv")) == 8
    assert sorted(path.name for path in (folder / "round-2").iterdir()) == ["failed", "inbox", "rejected.csv"]
    kept = eight.home(1000) / "output" / "run-78" / "aggregate.safetensors"
    assert kept.read_bytes() == (folder / "result" / "aggregate.safetensors").read_bytes()
    assert rows_of(folder / "not-applied.csv") == []


def test_an_unexpected_error_of_the_server_in_the_second_round_leaves_the_first_result(eight, monkeypatch, caplog):
    """Whatever breaks there, the aggregate goes back to the clients."""

    def breaks(*_arguments, **_options):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("fedica.flower.rounds.refine_result", breaks)
    folder = eight.run(rounds=2)
    assert "the result before it stands: a defect" in caplog.text
    assert rows_of(folder / "not-applied.csv") == []


def test_a_server_that_is_stopped_in_the_second_round_leaves_the_first_result(eight):
    """The result of the first round is written before anybody is asked again, and clients keep what they were sent."""

    class Killed(BaseException):
        """What stops a process is no Exception."""

    class StopsInSecondRound(LocalGrid):
        def pull_messages(self, message_ids):
            came = super().pull_messages(message_ids)
            if any(message.metadata.message_type == SCORES for message in came):
                raise Killed
            return came

    with pytest.raises(Killed):
        eight.run(StopsInSecondRound(eight.clients), rounds=2)
    assert len(read_folder(eight.newest / "result").aggregate.clients) == 8
    sent = [path.read_bytes() for path in eight.folder.glob("clients/*/output/run-77/aggregate.safetensors")]
    assert sent
    assert set(sent) == {(eight.newest / "result" / "aggregate.safetensors").read_bytes()}


def test_a_policy_without_further_rounds_sends_one_message(eight):
    """One message is the default: a second one tells covariances, and only the client allows it."""
    number = eight.add("d", data=client_data(8, 60), policy="max-components = 3\nmin-samples = 2\n")
    folder = eight.run(rounds=2)
    (row,) = rows_of(folder / "round-2" / "result" / "rejected.csv")
    assert (row["client"], row["source"]) == ("d", f"node {number}")
    assert "its policy does not allow it" in row["reason"]
    assert "d" in read_folder(folder / "round-2" / "result").aggregate.clients


def test_a_client_too_small_to_fit_takes_part_from_the_second_round_on(eight):
    """Three samples span no fit of three components; their scores add up with those of the others."""
    number = eight.add("tiny", data=client_data(9, 3), policy=POLICY)
    folder = eight.run(rounds=2)
    assert "tiny" not in read_folder(folder / "result").aggregate.clients
    assert read_scores(folder / "round-2" / "inbox" / "tiny.safetensors").n_samples == 3
    assert read_aggregate(eight.home(number) / "output" / "run-77" / "aggregate.safetensors").round == 2


def test_spatial_components_have_one_round(eight, caplog):
    """Second messages are of samples; the first result stands, and nobody is asked for nothing."""
    study = Study("maps", [f"f{i}" for i in range(6)], n_components=2, independence="features")
    write_study(study, eight.folder / "study.json")
    eight.coordinator(study="study.json")
    for k in range(8):
        (eight.home(1000 + k) / "policy.toml").write_text(POLICY + "study = '../../study.json'\n")
    grid = LocalGrid(eight.clients)
    folder = eight.run(grid, components=0, rounds=2)
    assert "independent over samples (rounds = 1)" in caplog.text
    assert (folder / "result").is_dir()
    assert SCORES not in {kind for _, kind in grid.asked}


def test_rounds_are_at_least_one(eight):
    """Zero rounds are no run."""
    with pytest.raises(FedicaError, match="rounds"):
        eight.run(rounds=0)

"""Nonces and signatures: nobody answers a request, or sends an aggregate, but the two ends of a run."""

from __future__ import annotations

import pytest
from flwr.app import Message
from inprocess import LocalGrid, answer, request_for

from fedica import read_aggregate
from fedica.exchange import keygen, read_folder, read_public_key, read_signing_key
from fedica.flower.envelope import answer_with, open_envelope
from fedica.flower.messages import AGGREGATE, CONTRIBUTION, REFUSAL, pack_fields, pack_file, unpack_fields

POLICY = "max-components = 3\nmin-samples = 100\n"


@pytest.fixture
def signed(federation):
    """Three clients whose policies name the coordinator's key."""
    private, public = keygen("coordinator", federation.folder / "keys")
    federation.coordinator(signing_key=str(private))
    for name in "abc":
        federation.add(name, policy=f'{POLICY}coordinator-key = "{read_public_key(public)[1]}"\n')
    return federation, read_signing_key(private)


def refusal_of(reply):
    return unpack_fields(open_envelope(reply.content)[1], REFUSAL)


def test_a_signed_run_reaches_every_client(signed):
    """Requests and aggregate are signed; nobody is left out."""
    federation, _ = signed
    folder = federation.run()
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c"]
    assert (folder / "not-applied.csv").read_text().splitlines() == ["client,reason,source,kind"]


def test_every_client_and_run_has_a_nonce_of_its_own_and_the_same_in_all_messages_of_a_run(three):
    """Drawn at random: the requests of one run to one client share it, no two others do."""
    seen = {}

    def listening(number):
        def hear(message):
            nonce = open_envelope(message.content)[0]["nonce"]
            seen.setdefault((three.run_id, number), set()).add(nonce)
            return three.clients[number](message)

        return hear

    nodes = {number: listening(number) for number in three.clients}
    three.run(LocalGrid(nodes))
    three.run(LocalGrid(nodes))
    assert {len(nonces) for nonces in seen.values()} == {1}
    assert len({nonce for nonces in seen.values() for nonce in nonces}) == len(seen) == 6
    assert all(len(nonce) == 32 for nonces in seen.values() for nonce in nonces)


@pytest.mark.parametrize("nonce", ["", "0" * 32, "of another client"])
def test_an_answer_without_the_nonce_of_its_request_is_left_out(three, nonce):
    """Whoever has not seen the request cannot answer it."""

    def forged(message):
        _, content = open_envelope(three.clients[1000](message).content)
        return Message(answer_with(content, nonce), reply_to=message)

    folder = three.run(LocalGrid(three.clients | {1000: forged}))
    result = read_folder(folder / "result").aggregate
    assert sorted(result.clients) == ["b", "c"]
    assert "does not carry the nonce of its request" in result.rejected[0].reason


@pytest.mark.parametrize("fault", ["unsigned", "another key", "another run", "another content", "another nonce"])
def test_a_request_that_the_coordinators_key_did_not_sign_for_this_run_is_refused(signed, tmp_path, fault):
    """The client fits nothing and sends nothing."""
    federation, key = signed
    content = pack_fields("request", {"components": 3, "study": ""})
    if fault == "another key":
        key = read_signing_key(keygen("coordinator", tmp_path / "other")[0])
    message = request_for(content, 1000, key=None if fault == "unsigned" else key, run_id=76 - (fault == "another run"))
    if fault == "another content":
        message.content["request"]["components"] = 2
    if fault == "another nonce":
        message.content["envelope"]["nonce"] = "0" * 32
    assert refusal_of(federation.clients[1000](message))["reason"] == "its policy does not allow it"
    assert refusal_of(federation.clients[1000](request_for(content, 1000, key=signed[1]))) is None


def sent_aggregate(folder):
    return pack_file(AGGREGATE, (folder / "result" / "aggregate.safetensors").read_bytes())


def test_a_second_aggregate_of_a_run_is_refused_even_if_it_is_signed(signed):
    """What the client has stays as it is."""
    federation, key = signed
    nonces = {}

    def hear(message):
        nonces[federation.run_id] = open_envelope(message.content)[0]["nonce"]
        return federation.clients[1000](message)

    folder = federation.run(LocalGrid(federation.clients | {1000: hear}))
    kept = federation.home(1000) / "output" / "run-77" / "aggregate.safetensors"
    before = kept.stat().st_mtime_ns
    again = request_for(sent_aggregate(folder), 1000, "query.aggregate", nonce=nonces[77], run_id=77, key=key)
    assert refusal_of(federation.clients[1000](again))["reason"] == "its policy does not allow it"
    assert kept.stat().st_mtime_ns == before


def test_an_aggregate_of_an_earlier_run_is_refused(signed):
    """A replay carries the nonce and the run of its time."""
    federation, _ = signed
    old = []

    def hear(message):
        if message.metadata.message_type == "query.aggregate":
            old.append(message)
        return federation.clients[1000](message)

    federation.run(LocalGrid(federation.clients | {1000: hear}))

    def replayed(message):
        if message.metadata.message_type == "query.aggregate":
            message.content = old[0].content
        return federation.clients[1000](message)

    federation.run(LocalGrid(federation.clients | {1000: replayed}))
    assert not (federation.home(1000) / "output" / "run-78").exists()
    assert read_aggregate(federation.home(1001) / "output" / "run-78" / "aggregate.safetensors").n_clients == 3


def test_an_aggregate_before_any_request_is_refused(three):
    """A run begins with a request for a contribution."""
    folder = three.run()
    message = request_for(sent_aggregate(folder), 1000, "query.aggregate", run_id=99)
    three.run_id = 99
    assert refusal_of(three.clients[1000](message))["reason"] == "its policy does not allow it"
    assert not (three.home(1000) / "output" / "run-99").exists()


def test_the_limit_of_a_client_is_the_runs_deadline(three, monkeypatch):
    """A client that hangs is free again when nobody waits for it any more, whatever its policy allows."""
    import time

    monkeypatch.setattr("fedica.flower.client_app.contribute", lambda *_a, **_k: time.sleep(30))
    content = pack_fields("request", {"components": 3, "study": ""})
    reply = three.clients[1000](request_for(content, 1000, seconds=0.3))
    assert refusal_of(reply)["reason"] == "it did not finish within its own time limit"


def test_a_reply_that_breaks_its_envelope_costs_itself_alone(three):
    """A record of another kind under the envelope's name."""

    def broken(message):
        content = open_envelope(three.clients[1000](message).content)[1]
        content["envelope"] = content[CONTRIBUTION] if CONTRIBUTION in content else answer(content, message).content
        return Message(content, reply_to=message)

    def first_message_broken(message):
        return broken(message) if message.metadata.message_type == "train.contribution" else None

    folder = three.run(LocalGrid(three.clients | {1000: first_message_broken}))
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["b", "c"]

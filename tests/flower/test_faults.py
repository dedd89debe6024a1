"""Nodes that fail in every way, by real messages: the server goes on, says who and why, and counts nobody twice."""

from __future__ import annotations

import csv
import pickle
import threading

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from inprocess import HOUR, LocalGrid, answer
from safetensors.numpy import save

from fedica.errors import FedicaError
from fedica.exchange import read_folder
from fedica.flower import collect as collecting
from fedica.flower.certs import make_certificates
from fedica.flower.coordinator import read_node_keys
from fedica.flower.messages import pack_file

ATOMS = np.eye(6)[:, :3]
HEADER = {"format": "fedica.contribution", "version": "1"}


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def contribution(atoms=ATOMS, **more):
    """The bytes of a contribution that fedica itself would never write."""
    return save({"atoms": np.ascontiguousarray(atoms)} | more, metadata=HEADER | {"client": "d"})


class Explodes:
    """What a pickle could do if anybody loaded it."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('the pickle ran')",))


def wrapped(data):
    return pack_file("contribution", data)


def arrays(**named):
    return RecordDict({"contribution": ArrayRecord(named)})


def refusal(**fields):
    return RecordDict({"refusal": ConfigRecord(fields)})


CONTENTS = {
    "NaN": (wrapped(contribution(np.where(ATOMS == 1, np.nan, ATOMS))), "NaN"),
    "wrong shape": (wrapped(contribution(np.ones(6) / np.sqrt(6))), "dimension"),
    "more atoms than features": (wrapped(contribution(np.eye(6)[:2])), "at most as many"),
    "another number of features": (wrapped(contribution(np.eye(7)[:, :3])), "features"),
    "wrong dtype": (wrapped(contribution(ATOMS.astype(np.float32))), "F64"),
    "norm is not one": (wrapped(contribution(2 * ATOMS)), "norm"),
    "an extra tensor": (wrapped(contribution(data=np.ones((3, 6)))), "no tensor 'data'"),
    "no atoms": (wrapped(save({"others": ATOMS}, metadata=HEADER | {"client": "d"})), "no tensor 'others'"),
    "no client": (wrapped(save({"atoms": ATOMS}, metadata=HEADER)), "client"),
    "garbage": (wrapped(bytes(range(256)) * 9), ""),
    "nothing": (wrapped(b""), ""),
    "a pickle": (wrapped(pickle.dumps(Explodes())), ""),
    "a pickle as Flower's array": (
        arrays(file=Array("object", (1,), "numpy.ndarray", pickle.dumps(Explodes()))),
        "of kind 'numpy.ndarray'",
    ),
    "Flower's own arrays": (RecordDict({"contribution": ArrayRecord([ATOMS])}), "alone"),
    "two arrays": (
        arrays(**{x: wrapped(contribution())["contribution"]["file"] for x in ("file", "more")}),
        "'more'",
    ),
    "another record": (RecordDict({**wrapped(contribution()), "data": ConfigRecord({"age": 71})}), "'data'"),
    "an empty message": (RecordDict(), "nothing"),
    "a refusal with a formula": (refusal(client="=1+1", reason="x" * 9999), "xxx"),
    "a refusal of the wrong kind": (refusal(client=7, reason=8.0), "does not say why"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_bad_content_is_refused_by_name_and_the_others_go_on(three, name):
    """Whatever a reply holds, the three good clients are aggregated and the bad one is in rejected.csv."""
    content, reason = CONTENTS[name]
    folder = three.run(LocalGrid(three.clients | {2000: lambda message: answer(content, message)}))
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c"]
    (row,) = rows_of(folder / "result" / "rejected.csv")
    assert reason in row["reason"]
    assert len(row["reason"]) < 600
    assert not row["client"].startswith("=")
    assert "2000" in row["source"] or row["client"] == "d"


def test_a_handler_that_raises_is_named_with_flowers_reason(three):
    """Flower turns an exception into an error reply."""

    def raises(_message):
        raise ZeroDivisionError("division by zero")

    folder = three.run(LocalGrid(three.clients | {2000: raises}))
    (row,) = rows_of(folder / "result" / "rejected.csv")
    assert "raised an error" in row["reason"]
    assert row["source"] == "node 2000"


def test_a_handler_that_hangs_is_left_at_the_deadline(three, hour_passes_after):
    """Silence until the deadline, then a result of the others."""
    hour_passes_after(3)
    folder = three.run(LocalGrid(three.clients | {2000: lambda _message: None}), deadline_seconds=HOUR)
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c"]
    (row,) = rows_of(folder / "result" / "rejected.csv")
    assert "did not answer within 3600 s" in row["reason"]


def test_the_deadline_holds_against_many_nodes_that_announce_and_never_send(three, hour_passes_after, monkeypatch):
    """More such nodes than pulls at a time: pull_messages blocks, the app does not, and the others get their turn."""
    monkeypatch.setattr(collecting, "LONG_PULL", 0.5)
    never = threading.Event()
    hour_passes_after(3)

    def announces(_message):
        never.wait()

    nodes = dict.fromkeys(range(3 * collecting.MAX_PULLS), announces) | three.clients
    try:
        folder = three.run(LocalGrid(nodes), deadline_seconds=HOUR)
    finally:
        never.set()
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c"]
    rows = rows_of(folder / "result" / "rejected.csv")
    assert len(rows) == 3 * collecting.MAX_PULLS
    assert all("had not sent all of it after 3600 s" in row["reason"] for row in rows)


def test_an_answer_after_the_deadline_is_not_taken(three, clock, hour_passes_after):
    """It comes late: the result is without it, and it is not taken for the second message's reply."""
    hour_passes_after(3)
    number = three.add("late")

    def late(message):
        return three.clients[number](message) if clock.leapt else None

    folder = three.run(LocalGrid(three.clients | {number: late}), deadline_seconds=HOUR)
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c"]
    assert [row["source"] for row in rows_of(folder / "result" / "rejected.csv")] == [f"node {number}"]


def test_an_answer_just_before_the_deadline_is_taken(three, clock, monkeypatch):
    """However long the pause between two pulls has grown, there is a last call."""
    for name in ("MAX_PAUSE", "FIRST_PAUSE"):
        monkeypatch.setattr(collecting, name, 2 * HOUR)
    monkeypatch.setattr(collecting, "LAST_CALL", 600.0)
    number, asked = three.add("d"), []
    again = collecting._Pulls.again

    def leap_to_the_last_call(pulls, message_id):
        again(pulls, message_id)
        clock.leap(HOUR - 600.0)

    monkeypatch.setattr(collecting._Pulls, "again", leap_to_the_last_call)

    def answers_when_asked_again(message):
        asked.append(message)
        return three.clients[number](message) if len(asked) > 1 else None

    folder = three.run(LocalGrid(three.clients | {number: answers_when_asked_again}), deadline_seconds=HOUR)
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c", "d"]


def test_two_clients_with_one_name_and_different_data_are_both_refused(three):
    """Nobody can tell which is which: neither counts, and both files are kept."""
    three.add("c")
    folder = three.run()
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b"]
    (row,) = rows_of(folder / "result" / "rejected.csv")
    assert row["client"] == "c"
    assert "sent 2 different contributions" in row["reason"]
    assert len(list((folder / "inbox").glob("c*.safetensors"))) == 2


def test_a_client_that_answers_through_two_nodes_counts_once(three):
    """A SuperNode that came back under another number sends the same bytes: one client."""
    folder = three.run(LocalGrid(three.clients | {2000: three.clients[1002]}))
    result = read_folder(folder / "result").aggregate
    assert sorted(result.clients) == ["a", "b", "c"]
    assert result.labels.size == 9


def test_a_reply_that_comes_twice_counts_once(three):
    """Both in one pull and in two."""
    folder = three.run(LocalGrid(three.clients | {1000: lambda message: [three.clients[1000](message)] * 2}))
    assert read_folder(folder / "result").aggregate.labels.size == 9


def test_a_reply_to_another_message_is_not_taken(three, hour_passes_after):
    """A node cannot answer for another one's request."""
    hour_passes_after(2)

    def impostor(message):
        reply = three.clients[1000](message)
        reply.metadata.__dict__["_reply_to_message_id"] = "f" * 64
        return reply

    folder = three.run(LocalGrid(three.clients | {1000: impostor}), deadline_seconds=HOUR)
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["b", "c"]


def test_fewer_than_min_clients_end_the_run_and_leave_the_list_of_who_failed(three, hour_passes_after):
    """No result, a clear sentence, and rejected.csv."""
    hour_passes_after(4)
    nodes = {2000: lambda message: answer(wrapped(b"garbage"), message), 2001: lambda _message: None}
    with pytest.raises(FedicaError, match="at least 4 clients are wanted; 3 can be used"):
        three.run(LocalGrid(three.clients | nodes), min_clients=4, deadline_seconds=HOUR)
    assert not (three.newest / "result").exists()
    assert len(rows_of(three.newest / "rejected.csv")) == 2


def test_no_answer_at_all_ends_the_run_with_a_sentence(three):
    """Nothing to aggregate: who failed is said."""
    nodes = {number: lambda _message: None for number in range(3)}
    with pytest.raises(FedicaError, match="no client sent a contribution"):
        three.run(LocalGrid(nodes), deadline_seconds=0.5)
    assert len(rows_of(three.newest / "rejected.csv")) == 3


def test_a_node_that_failed_takes_part_in_the_next_run(three):
    """The next run asks everybody again, and writes a folder of its own."""
    broken = {"now": True}

    def sometimes(message):
        if broken["now"]:
            raise RuntimeError("out of memory")
        return three.clients[1000](message)

    grid = LocalGrid(three.clients | {1000: sometimes})
    first = three.run(grid)
    broken["now"] = False
    second = three.run(grid)
    assert sorted(read_folder(first / "result").aggregate.clients) == ["b", "c"]
    assert sorted(read_folder(second / "result").aggregate.clients) == ["a", "b", "c"]
    assert first != second


def test_a_client_that_cannot_apply_the_aggregate_is_named(three):
    """The result stands; who did not apply it is in a table of its own."""

    def disk_full(message):
        if message.metadata.message_type == "query.aggregate":
            (three.home(1000) / "output" / "run-77").write_text("in the way")
        return three.clients[1000](message)

    folder = three.run(LocalGrid(three.clients | {1000: disk_full}))
    (row,) = rows_of(folder / "not-applied.csv")
    assert row["client"] == "a"
    assert "files or settings" in row["reason"]


@pytest.fixture
def keyed(three, tmp_path):
    """Three clients whose node keys the coordinator knows; the key of each node number."""
    made = make_certificates(tmp_path / "certs", ["a", "b", "c"], host="localhost")
    three.coordinator(node_keys="certs/nodes")
    of_client = {client: pem for pem, client in read_node_keys(made.nodes).items()}
    return three, {1000 + k: of_client[client] for k, client in enumerate("abc")}


def test_a_node_whose_key_is_known_has_a_name_even_if_it_stays_silent(keyed, hour_passes_after):
    """rejected.csv says who, not only which number."""
    hour_passes_after(2)
    three, keys = keyed
    grid = LocalGrid(three.clients | {1001: lambda _message: None}, keys)
    folder = three.run(grid, deadline_seconds=HOUR)
    (row,) = rows_of(folder / "result" / "rejected.csv")
    assert row["client"] == "b"


def test_a_node_speaks_for_its_own_client_alone(keyed):
    """One that sends in another's name is refused, and the other one is unharmed."""
    three, keys = keyed
    a, _, c = three.clients.values()
    impostor = three.clients[three.add("c")]  # with a folder of its own: a client answers one request of a run
    folder = three.run(LocalGrid({1000: a, 1001: impostor, 1002: c}, keys))
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "c"]
    (row,) = rows_of(folder / "result" / "rejected.csv")
    assert row["client"] == "b"
    assert "in the name of 'c'" in row["reason"]


def test_a_stopped_run_stops_the_app(three):
    """Flower says so by an exception that is no Exception; the app does not wait for its deadline."""
    from flwr.supercore.run import RunNotRunningException

    class Stopped(LocalGrid):
        def pull_messages(self, _message_ids):
            raise RunNotRunningException

    with pytest.raises(RunNotRunningException):
        three.run(Stopped(three.clients))


def test_trouble_on_the_way_is_tried_again(three):
    """The SuperLink is away for a moment: nobody is lost."""
    import httpx

    class Flaky(LocalGrid):
        failures = 5

        def pull_messages(self, message_ids):
            if self.failures > 0:
                self.failures -= 1
                raise httpx.ConnectError("connection refused")
            return super().pull_messages(message_ids)

    folder = three.run(Flaky(three.clients))
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c"]


def test_too_few_nodes_are_waited_for_and_then_refused(three):
    """The wait is bounded, and says how many are connected."""
    with pytest.raises(FedicaError, match="at least 5 clients; got 3 connected after"):
        three.run(min_clients=5, wait_seconds=0.5)


@pytest.fixture
def one_absent(keyed, tmp_path):
    """Four registered clients, three of them connected."""
    three, keys = keyed
    (made,) = make_certificates(tmp_path / "more", ["d"], host="localhost").nodes.glob("*.pub")
    made.rename(tmp_path / "certs" / "nodes" / "d.pub")
    return three, LocalGrid(three.clients, keys)


def test_a_registered_client_that_is_not_connected_is_named(one_absent):
    """Four registered, three running: the fourth is a rejection by its name."""
    three, grid = one_absent
    folder = three.run(grid)
    assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c"]
    (row,) = rows_of(folder / "result" / "rejected.csv")
    assert (row["client"], row["kind"]) == ("d", "absent")


def test_an_absent_client_fails_a_run_that_requires_all(one_absent):
    """Nothing is written but who is missing."""
    three, grid = one_absent
    with pytest.raises(FedicaError, match=r"all are required. client 'd': its node was not connected"):
        three.run(grid, require_all=True)
    assert not (three.newest / "result").exists()
    assert [row["client"] for row in rows_of(three.newest / "rejected.csv")] == ["d"]


def test_who_is_absent_is_named_also_where_too_few_came(one_absent):
    """The run ends before anybody is asked, and the table is there."""
    three, grid = one_absent
    with pytest.raises(FedicaError, match="at least 4 clients; got 3 connected"):
        three.run(grid, min_clients=4)
    assert [row["client"] for row in rows_of(three.newest / "rejected.csv")] == ["d"]
    assert grid.asked == []


def test_no_table_tells_the_number_of_a_node(three, hour_passes_after):
    """Flower delivers a node's messages to whoever knows its number and has any node key."""
    hour_passes_after(3)
    number = 8_877_665_544_332_211
    folder = three.run(LocalGrid(three.clients | {number: lambda _message: None}), deadline_seconds=HOUR)
    (row,) = rows_of(folder / "result" / "rejected.csv")
    assert row["source"] == "node 2211"
    tables = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not any(str(number).encode() in page for page in tables)

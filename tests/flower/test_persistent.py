"""A node whose connection breaks off in the middle of a request sends its answer nevertheless, and once."""

from __future__ import annotations

import httpx
import pytest
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from fedica.flower import persistent
from fedica.flower.persistent import FUNCTIONS, PersistentConnection

BROKEN = httpx.ReadError("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol")
REFUSED = ObjectPushError("name", 1, "session")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(persistent, "_PAUSE", 0.0)


def connection(**outcomes):
    """A connection whose functions have these outcomes, one a call, and what they were called with."""
    called = []

    def function(name):
        def call(*arguments):
            called.append((name, *arguments))
            outcome = outcomes[name].pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return call

    made = tuple(7 if name == "node_id" else function(name) for name in FUNCTIONS)
    return PersistentConnection(made).functions(), called


@pytest.mark.parametrize("name", ["receive", "send", "get_run", "pull_object", "push_object", "confirm"])
def test_a_request_whose_connection_breaks_off_is_repeated(name):
    """With the same arguments, until it succeeds."""
    functions, called = connection(**{name: [BROKEN, BROKEN, ({"name"}, "session")]})
    arguments = {"receive": (), "send": ("message", "tree", 0.0), "push_object": (1, "session", "name", b"")}
    functions[name](*arguments.get(name, (1, "name")))
    assert len(called) == 3
    assert len(set(called)) == 1
    assert functions["node_id"] == 7


def test_a_request_is_not_repeated_for_ever(monkeypatch):
    """A certificate that is not trusted stays so."""
    monkeypatch.setattr(persistent, "_PATIENCE", 0.0)
    functions, called = connection(receive=[BROKEN, None])
    with pytest.raises(httpx.ReadError):
        functions["receive"]()
    assert len(called) == 1


def test_an_answer_whose_announcement_was_not_confirmed_is_sent_nevertheless():
    """The SuperLink has handed it on and asks for nothing: all parts are sent, and one that is there is passed over."""
    tree = ObjectTree(object_id="whole", children=[ObjectTree(object_id="part")])
    functions, called = connection(send=[(set(), "second"), (set(), "third")], push_object=[None, REFUSED])
    assert functions["send"]("message", tree, 0.0) == ({"whole", "part"}, "")
    functions["push_object"](1, "", "part", b"x")
    functions["push_object"](1, "", "whole", b"y")
    assert [name for name, *_ in called] == ["send", "push_object", "push_object", "send"]


def test_a_part_that_had_arrived_when_the_connection_broke_off_is_not_sent_again():
    """The SuperLink refuses it, and says that it lacks nothing of the answer but another part."""
    announced = [({"part", "other"}, "first"), ({"other"}, "second")]
    functions, called = connection(send=announced, push_object=[BROKEN, REFUSED, None])
    assert functions["send"]("message", "tree", 0.0) == ({"part", "other"}, "first")
    functions["push_object"](1, "first", "part", b"x")
    functions["push_object"](1, "first", "other", b"y")
    assert [name for name, *_ in called] == ["send", "push_object", "push_object", "send", "push_object"]


def test_a_part_of_a_session_that_is_over_is_sent_in_a_new_one():
    """And what is refused there, too, is refused."""
    announced = [({"part"}, "first"), ({"part"}, "second"), ({"part"}, "third")]
    functions, called = connection(send=announced, push_object=[REFUSED, None, REFUSED, REFUSED])
    functions["send"]("message", "tree", 0.0)
    functions["push_object"](1, "first", "part", b"x")
    assert called[-1] == ("push_object", 1, "second", "part", b"x")
    with pytest.raises(ObjectPushError):
        functions["push_object"](1, "second", "part", b"x")

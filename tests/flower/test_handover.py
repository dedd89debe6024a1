"""An answer that an app does not hand over as a whole does not hold its node, by Flower's own loop and store."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store.object_store_factory import ObjectStoreFactory
from flwr.supernode import start_client_internal as node_loop
from inprocess import HOUR, Clock

from fedica.flower import handover


class Handed:
    """A node that is to send one answer of its app, of which some parts are there; and what became of it."""

    def __init__(self, federation):
        assert federation  # gives this process a number in a run
        self.message = Message(RecordDict({"fields": ConfigRecord({"x": 1})}), 7, "train")
        self.message.metadata.__dict__["_message_id"] = self.message.object_id
        self.parts = {name: part.deflate() for name, part in get_all_nested_objects(self.message).items()}
        self.store = ObjectStoreFactory().store()
        self.store.preregister(77, get_object_tree(self.message))
        self.sent, self.deleted = [], []

    def delete(self, message_ids):
        """Flower's word for it that these are done."""
        self.deleted += message_ids

    def send(self):
        """As the SuperNode does it."""
        state = SimpleNamespace(
            get_messages_legacy=lambda **_options: [self.message],
            get_message_processing_duration=lambda **_options: 0.0,
            delete_messages=self.delete,
        )
        handover.within_patience(node_loop._push_messages)(
            state=state,
            object_store=self.store,
            send=lambda *_arguments: (set(self.parts), "session"),
            push_object=lambda _run, _session, name, _content: self.sent.append(name),
        )


@pytest.fixture
def clock(monkeypatch):
    """The clock of the patience."""
    made = Clock()
    monkeypatch.setattr(handover, "time", made)
    return made


def test_the_supernode_looks_up_how_it_sends_answers_when_it_starts():
    """`fedica.flower.supernode` replaces it before."""
    assert "_push_messages" in node_loop.start_client_internal.__code__.co_names


def test_an_answer_that_is_there_is_sent(federation, clock):
    """All of its parts, however late."""
    handed = Handed(federation)
    for name, content in handed.parts.items():
        handed.store.put(name, content)
    clock.leap(HOUR)
    handed.send()
    assert sorted(handed.sent) == sorted(handed.parts)


def test_an_answer_whose_parts_arrive_slowly_is_sent(federation, clock, monkeypatch):
    """The patience begins anew with each part."""
    handed, missing = Handed(federation), []
    missing += handed.parts.items()
    assert len(missing) > 2

    def sleep(_seconds):
        clock.leap(handover._PATIENCE - 1)
        handed.store.put(*missing.pop())

    monkeypatch.setattr(node_loop, "time", SimpleNamespace(sleep=sleep))
    handed.send()
    assert sorted(handed.sent) == sorted(handed.parts)


def test_an_answer_of_which_a_part_never_comes_is_dropped_and_the_node_is_free(federation, clock, monkeypatch):
    """Its message is deleted, as that of an answer that was sent."""
    handed = Handed(federation)
    first, *_ = handed.parts
    handed.store.put(first, handed.parts[first])
    monkeypatch.setattr(node_loop, "time", SimpleNamespace(sleep=lambda _seconds: clock.leap(HOUR)))
    handed.send()
    assert set(handed.sent) <= {first}
    assert handed.message.metadata.message_id in handed.deleted

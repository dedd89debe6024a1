"""An answer that an app began to hand over to its SuperNode and did not finish: Flower would wait for it for ever.

An app that is killed in this moment would so take its client out of every later run, until the node is started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

_PATIENCE = 60.0
"""Seconds without a further part, which comes from the same machine, after which nothing more is expected."""
_MISSING = b""
"""What Flower's store gives for a part that is announced and not there."""


class HandOver:
    """The store of a SuperNode while it sends one answer: asking it for a part that will not come fails."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._parts: list[str] = []
        self._arrived, self._since = -1, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_object_tree(self, message_id: str) -> ObjectTree:
        """Return the parts of an answer, by their names."""
        tree: ObjectTree = self._store.get_object_tree(message_id)
        self._parts, self._arrived = [part.object_id for part in iterate_object_tree(tree)], -1
        return tree

    def get(self, object_id: str) -> bytes | None:
        """Return a part, or what stands for a missing one as long as parts arrive."""
        content: bytes | None = self._store.get(object_id)
        if content == _MISSING and self._has_stalled():
            raise TimeoutError("its app has ended, or hangs, before it handed over all of its answer.")
        return content

    def _has_stalled(self) -> bool:
        arrived = sum(self._store.get(part) != _MISSING for part in self._parts)
        if arrived > self._arrived:
            self._arrived, self._since = arrived, time.monotonic()
        return time.monotonic() - self._since > _PATIENCE


def within_patience(push_messages: Callable[..., None]) -> Callable[..., None]:
    """Return the function by which a SuperNode sends answers; one that its app does not hand over is dropped."""

    def patient(*, object_store: Any, **more: Any) -> None:
        push_messages(object_store=HandOver(object_store), **more)

    return patient

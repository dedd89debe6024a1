"""A node's connection that outlives a proxy which is killed in the middle of a request.

Flower's functions try again where the coordinator cannot be reached, but give up where TLS breaks off, and where an
answer was announced, or a part of it has arrived, and only the confirmation was lost: the SuperLink then asks for
nothing more, or refuses the part, the answer is dropped, and the client left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from logging import WARNING
from typing import Any

import httpx
from flwr.app import Message
from flwr.common.logger import log
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

FUNCTIONS = ("node_id", "receive", "send", "get_run", "get_fab", "pull_object", "push_object", "confirm")
"""What Flower's connection of a SuperNode consists of, in its order; the first is a number."""
_ANY_SESSION = ""
_PATIENCE, _PAUSE = 600.0, 2.0
"""Seconds for which a request is repeated, and between two attempts."""


def keep_trying(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, repeated for a while where its connection breaks off; all of them may be repeated."""

    def trying(*arguments: Any) -> Any:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return call(*arguments)
            except httpx.TransportError as error:
                if time.monotonic() >= deadline:
                    raise
                log(WARNING, "fedica: the connection broke off (%s); it is tried again", error)
                time.sleep(_PAUSE)

    return trying


class PersistentConnection:
    """The functions by which a SuperNode talks to its SuperLink, each repeated where the connection breaks off."""

    def __init__(self, connection: tuple[Any, ...]) -> None:
        named = dict(zip(FUNCTIONS, connection, strict=True))
        self._calls = {name: keep_trying(call) if callable(call) else call for name, call in named.items()}
        self._sent: tuple[Any, ...] = ()

    def functions(self) -> dict[str, Any]:
        """Return the functions by their names, in Flower's order."""
        return {**self._calls, "send": self.send, "push_object": self.push_object}

    def send(self, message: Message, tree: ObjectTree, runtime: float) -> tuple[set[str], str]:
        """Announce an answer; return the parts that the SuperLink lacks, and the session in which they are sent.

        It lacks those of every new answer. If it asks for none, the answer was announced before: all parts are sent,
        in whichever session they are waited for.
        """
        self._sent = message, tree, runtime
        announced: tuple[set[str], str] = self._calls["send"](*self._sent)
        return announced if announced[0] else ({part.object_id for part in iterate_object_tree(tree)}, _ANY_SESSION)

    def push_object(self, run_id: int, session: str, name: str, content: bytes) -> None:
        """Send a part of the answer. One that is refused may have arrived before: the answer is announced anew."""
        try:
            self._calls["push_object"](run_id, session, name, content)
        except ObjectPushError:
            missing, session = self._calls["send"](*self._sent)
            if name in missing:
                self._calls["push_object"](run_id, session, name, content)

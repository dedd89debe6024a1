"""Ask every node once, and take the replies that arrive before a fixed deadline.

Flower's own ``pull_messages`` waits for arrays that a reply announces: a node that announces and never sends holds it
for minutes, and with it every other reply of that call. Here each reply is pulled by itself, in a thread that is
abandoned at the deadline; a pull that takes long gives its place to another one, so that no number of such nodes stops
the others.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from fedica.errors import InputError

if TYPE_CHECKING:
    from flwr.app import Message

MAX_PULLS = 8
"""Pulls at a time, those longer than `LONG_PULL` not counted."""
LONG_PULL = 2.0
"""Seconds after which a pull gives its place to another one."""
FIRST_PAUSE, MAX_PAUSE = 0.2, 2.0
"""Seconds between two pulls of one reply: the pause grows by half each time."""
LAST_CALL = 1.0
"""Seconds before the deadline at which every reply that is still pending is pulled once more."""
_MAX_REASON = 300


@dataclass(frozen=True, eq=False)
class Answer:
    """The outcome of one node, by Flower's number of it: a reply with content, or the reason why there is none."""

    node: int
    message: Message | None
    reason: str = ""

    @property
    def node_digits(self) -> str:
        """The last four digits of the node's number, for tables and sentences.

        The whole number is never shown: whoever knows it, and has a node key, can fetch that node's messages.
        """
        return f"{self.node % 10_000:04d}"


@dataclass
class _Pending:
    """A reply that has not arrived yet."""

    node: int
    trouble: str = ""


class _Pulled(NamedTuple):
    """The outcome of one pull: the replies to a message, or the error that it raised."""

    message_id: str
    replies: list[Message]
    error: BaseException | None = None


def wait_for_nodes(grid: Any, *, min_nodes: int, expected: int, seconds: float) -> list[int]:
    """Return the connected nodes as soon as ``expected`` are, or after ``seconds`` if at least ``min_nodes`` are."""
    deadline = time.monotonic() + seconds
    while True:
        nodes = sorted(set(grid.get_node_ids()))
        if len(nodes) >= max(min_nodes, expected):
            return nodes
        left = deadline - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(1.0, left))
    if len(nodes) < min_nodes:
        raise InputError(
            f"a result needs at least {min_nodes} clients; got {len(nodes)} connected after {seconds:g} s. "
            "Start their SuperNodes, or wait longer (wait-seconds)."
        )
    return nodes


def collect(grid: Any, messages: Iterable[Message], *, seconds: float) -> Iterator[Answer]:
    """Send the messages, one per node, and yield one answer per node as they arrive, after ``seconds`` at the latest.

    A second reply to the same message is never taken.
    """
    deadline = time.monotonic() + seconds
    pending, unreached = _send(grid, list(messages))
    yield from unreached
    pulls = _Pulls(grid, pending, deadline)
    while pending and (left := deadline - time.monotonic()) > 0:
        pulled = pulls.next(left)
        if pulled is None:
            continue
        answer = _answer(pending[pulled.message_id], pulled)
        if answer is None:
            pulls.again(pulled.message_id)
        else:
            del pending[pulled.message_id]
            yield answer
    for message_id, entry in pending.items():
        yield Answer(entry.node, None, _silence(entry, seconds, announced=pulls.is_long(message_id)))


def _send(grid: Any, messages: list[Message]) -> tuple[dict[str, _Pending], list[Answer]]:
    """Push the messages; return the pending replies by message, and the answers of nodes that cannot be reached."""
    message_ids = list(grid.push_messages(messages))
    if len(message_ids) != len(messages):  # Flower returns none at all where the request as a whole was too large
        message_ids = [""] * len(messages)
    pending: dict[str, _Pending] = {}
    unreached: list[Answer] = []
    for message, message_id in zip(messages, message_ids, strict=True):
        node = message.metadata.dst_node_id
        if message_id:
            pending[message_id] = _Pending(node)
        else:
            unreached.append(Answer(node, None, "the request could not be delivered to it."))
    return pending, unreached


class _Pulls:
    """Pulls of single replies in threads, each repeated after a growing pause until it finds a reply.

    message_ids : the messages that they reply to. deadline : when pulling ends, by the monotonic clock.
    """

    def __init__(self, grid: Any, message_ids: Iterable[str], deadline: float) -> None:
        self._grid = grid
        self._due = [(time.monotonic(), message_id) for message_id in message_ids]
        self._pauses = dict.fromkeys((message_id for _, message_id in self._due), FIRST_PAUSE)
        self._max_pause = max(MAX_PAUSE, 0.02 * len(self._due))  # of many clients, each is asked for less often
        self._last_call = deadline - LAST_CALL - 0.01 * len(self._due)
        self._started: dict[str, float] = {}
        self._ended: SimpleQueue[_Pulled] = SimpleQueue()

    def next(self, seconds: float) -> _Pulled | None:
        """Return the outcome of the next pull to end, or ``None`` if none ends for a while."""
        try:
            pulled = self._ended.get(timeout=min(seconds, self._start()))
        except Empty:
            return None
        del self._started[pulled.message_id]
        return pulled

    def again(self, message_id: str) -> None:
        """Pull this reply again after a pause."""
        now, pause = time.monotonic(), self._pauses[message_id]
        due = now + pause
        if due > self._last_call > now:
            due = self._last_call
        self._pauses[message_id] = min(pause * 1.5, self._max_pause)
        heapq.heappush(self._due, (due, message_id))

    def is_long(self, message_id: str) -> bool:
        """Whether the reply is being pulled, and has been for long."""
        return message_id in self._started and time.monotonic() - self._started[message_id] >= LONG_PULL

    def _start(self) -> float:
        """Start the pulls that are due while there are places; return how long to wait for the next."""
        now = time.monotonic()
        free = MAX_PULLS - sum(now - started < LONG_PULL for started in self._started.values())
        while self._due and self._due[0][0] <= now and free > 0:
            message_id = heapq.heappop(self._due)[1]
            free -= 1
            self._started[message_id] = now
            # A daemon: a pull that hangs must not keep the process alive.
            threading.Thread(target=self._pull, args=(message_id,), daemon=True).start()
        return LONG_PULL if free <= 0 or not self._due else min(LONG_PULL, self._due[0][0] - now)

    def _pull(self, message_id: str) -> None:
        try:
            self._ended.put(_Pulled(message_id, list(self._grid.pull_messages([message_id]))))
        except BaseException as error:  # Flower ends a stopped run by one that is no Exception
            self._ended.put(_Pulled(message_id, [], error))


def _answer(entry: _Pending, pulled: _Pulled) -> Answer | None:
    """Return the answer that a pull found, or ``None`` if the reply is to be pulled again."""
    if pulled.error is not None:
        if not isinstance(pulled.error, Exception):
            raise pulled.error  # the run was stopped: there is nobody to answer to
        if _is_transport(pulled.error):
            entry.trouble = f" (the last attempt to fetch its reply failed: {_short(pulled.error)})"
            return None
        return Answer(entry.node, None, f"its reply cannot be decoded ({_short(pulled.error)}).")
    reply = next((x for x in pulled.replies if x.metadata.reply_to_message_id == pulled.message_id), None)
    if reply is None:
        return None
    if reply.has_error():
        code, reason = reply.error.code, _short(reply.error.reason)
        what = _ERRORS.get(code, "its node reported an error")
        return Answer(entry.node, None, f"{what} (Flower's error {code}: {reason}).")
    return Answer(entry.node, reply)


def _is_transport(error: Exception) -> bool:
    """Whether the connection failed, not the reply."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in ("httpx", "httpcore")


def _silence(entry: _Pending, seconds: float, *, announced: bool) -> str:
    if announced:
        return f"it announced a reply and had not sent all of it after {seconds:g} s.{entry.trouble}"
    return f"it did not answer within {seconds:g} s.{entry.trouble}"


_ERRORS = {
    1: "its app could not be loaded",
    2: "its app raised an error",
    3: "its reply never arrived, or arrived too late",
    4: "its reply never arrived, or arrived too late",
    5: "its node was lost",
    7: "its node refused the app",
    8: "its app was killed or crashed",
}
"""Sentences for the numbers of flwr.common.constant.ErrorCode."""


def _short(text: object) -> str:
    words = " ".join((str(text) or type(text).__name__).split())
    return words if len(words) <= _MAX_REASON else words[:_MAX_REASON] + " ..."

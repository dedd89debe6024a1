"""Ask every node once, and take what comes before a deadline that nothing can stretch.

Flower's own ``pull_messages`` waits for arrays that a reply announces: a node that announces and never sends holds it
for minutes, and with it every other reply of that call. Here each reply is pulled by itself, in a thread that is left
behind at the deadline; a pull that takes long gives its place to another one, so that no number of such nodes stops the
others.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from fedica.errors import InputError

if TYPE_CHECKING:
    from flwr.app import Message

SIDE_BY_SIDE = 8
"""Pulls at a time, those that take long not counted."""
LONG = 2.0
"""Seconds after which a pull gives its place to another one."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0
"""Seconds between two pulls of one reply: the pause grows by half each time."""
_MAX_REASON = 300


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of one node: a message, or the reason why there is none.

    Parameters
    ----------
    node : int
        Flower's number of the node.
    message : Message, optional
        Its reply, with content.
    reason : str
        Why there is no reply; empty if there is one.
    """

    node: int
    message: Message | None
    reason: str = ""


@dataclass
class _Wanted:
    """A reply that has not come yet."""

    node: int
    trouble: str = ""


def wait_for_nodes(grid: Any, *, least: int, expected: int, seconds: float) -> list[int]:
    """Return the nodes that are connected, as soon as ``expected`` are, or ``seconds`` are over and ``least`` are.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        The nodes.
    least, expected : int
        How many there must be, and how many are waited for.
    seconds : float
        How long.

    Raises
    ------
    InputError
        If fewer than ``least`` came.
    """
    deadline = time.monotonic() + seconds
    while True:
        nodes = sorted(set(grid.get_node_ids()))
        if len(nodes) >= max(least, expected):
            return nodes
        left = deadline - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(1.0, left))
    if len(nodes) < least:
        raise InputError(
            f"at least {least} clients are wanted; {len(nodes)} were connected after {seconds:g} s. "
            "Start their SuperNodes, or wait longer (wait-seconds)."
        )
    return nodes


def collect(grid: Any, messages: Iterable[Message], *, seconds: float) -> list[Answer]:
    """Send the messages, one a node, and return one answer a node after ``seconds`` at the latest.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where to send them.
    messages : iterable of Message
        One a node.
    seconds : float
        The deadline, from now.

    Returns
    -------
    list of Answer
        One for each message, sorted by node; a second reply to the same message is never taken.
    """
    deadline = time.monotonic() + seconds
    sent = list(messages)
    nodes = [message.metadata.dst_node_id for message in sent]
    answers: dict[int, Answer] = {}
    wanted: dict[str, _Wanted] = {}
    for node, message_id in zip(nodes, _padded(grid.push_messages(sent), len(sent)), strict=True):
        if message_id:
            wanted[message_id] = _Wanted(node)
        else:
            answers[node] = Answer(node, None, "the request could not be delivered to it.")

    pulls = _Pulls(grid, wanted, deadline)
    while wanted and (left := deadline - time.monotonic()) > 0:
        result = pulls.next(left)
        if result is None:
            continue
        message_id, replies, error = result
        answer = _answer(wanted[message_id], message_id, replies, error)
        if answer is None:
            pulls.again(message_id)
        else:
            answers[answer.node] = answer
            del wanted[message_id]
    for message_id, entry in wanted.items():
        answers[entry.node] = Answer(entry.node, None, _silence(entry, seconds, announced=pulls.is_long(message_id)))
    return [answers[node] for node in sorted(answers)]


class _Pulls:
    """Pulls of single replies in threads, each repeated after a growing pause until it brings something.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        Where replies are.
    message_ids : iterable of str
        The messages that they reply to.
    deadline : float
        When it ends, by the monotonic clock: what is still wanted is pulled once more shortly before.
    """

    def __init__(self, grid: Any, message_ids: Iterable[str], deadline: float) -> None:
        self._grid = grid
        self._due = [(time.monotonic(), message_id) for message_id in message_ids]
        self._pauses = dict.fromkeys((message_id for _, message_id in self._due), FIRST_PAUSE)
        self._longest = max(
            LONGEST_PAUSE, 0.02 * len(self._due)
        )  # many clients: fewer questions to the server for each
        self._last_call = deadline - 1.0 - 0.01 * len(self._due)
        self._since: dict[str, float] = {}
        self._came: SimpleQueue[tuple[str, list[Message], BaseException | None]] = SimpleQueue()

    def next(self, seconds: float) -> tuple[str, list[Message], BaseException | None] | None:
        """Return what the next pull to end brought, or ``None`` if none did for a while."""
        pause = min(seconds, self._start())
        try:
            result = self._came.get(timeout=pause)
        except Empty:
            return None
        del self._since[result[0]]
        return result

    def again(self, message_id: str) -> None:
        """Pull this reply again after a pause."""
        now, pause = time.monotonic(), self._pauses[message_id]
        due = now + pause
        if due > self._last_call > now:
            due = self._last_call
        self._pauses[message_id] = min(pause * 1.5, self._longest)
        heapq.heappush(self._due, (due, message_id))

    def is_long(self, message_id: str) -> bool:
        """Whether the reply has been on its way for long."""
        return message_id in self._since and time.monotonic() - self._since[message_id] >= LONG

    def _start(self) -> float:
        """Start what is due while there are places; return for how long there will be nothing else to start."""
        now = time.monotonic()
        free = SIDE_BY_SIDE - sum(now - since < LONG for since in self._since.values())
        while self._due and self._due[0][0] <= now and free > 0:
            message_id = heapq.heappop(self._due)[1]
            free -= 1
            self._since[message_id] = now
            # A daemon: a pull that hangs must not keep the process alive.
            threading.Thread(target=self._pull, args=(message_id,), daemon=True).start()
        return LONG if free <= 0 or not self._due else min(LONG, self._due[0][0] - now)

    def _pull(self, message_id: str) -> None:
        try:
            self._came.put((message_id, list(self._grid.pull_messages([message_id])), None))
        except BaseException as error:  # Flower ends a stopped run by one that is no Exception
            self._came.put((message_id, [], error))


def _padded(ids: Iterable[str], count: int) -> list[str]:
    """Return one id a message, in order: Flower returns nothing at all where the request as a whole was too large."""
    pushed = list(ids)
    return pushed if len(pushed) == count else [""] * count


def _answer(entry: _Wanted, message_id: str, replies: list[Message], error: BaseException | None) -> Answer | None:
    """Return what a pull brought, or ``None`` if it is to be tried again."""
    if error is not None:
        if not isinstance(error, Exception):
            raise error  # the run was stopped: there is nobody to answer to
        if _is_transport(error):
            entry.trouble = f" (the last attempt to fetch its reply failed: {_short(error)})"
            return None
        return Answer(entry.node, None, f"its reply cannot be decoded ({_short(error)}).")
    reply = next((x for x in replies if x.metadata.reply_to_message_id == message_id), None)
    if reply is None:
        return None
    if reply.has_error():
        return Answer(entry.node, None, _about(reply.error.code, str(reply.error.reason)))
    return Answer(entry.node, reply)


def _is_transport(error: Exception) -> bool:
    """Whether the way to the reply failed, not the reply."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in ("httpx", "httpcore")


def _silence(entry: _Wanted, seconds: float, *, announced: bool) -> str:
    if announced:
        return f"it announced a reply and had not sent all of it after {seconds:g} s.{entry.trouble}"
    return f"it did not answer within {seconds:g} s.{entry.trouble}"


# flwr.common.constant.ErrorCode, in words.
_ERRORS = {
    1: "its app could not be loaded",
    2: "its app raised an error",
    3: "its reply never arrived, or came too late",
    4: "its reply never arrived, or came too late",
    5: "its node was lost",
    7: "its node refused the app",
    8: "its app was killed or crashed",
}


def _about(code: int, reason: str) -> str:
    return f"{_ERRORS.get(code, 'its node reported an error')} (Flower's error {code}: {_short(reason)})."


def _short(text: object) -> str:
    said = " ".join((str(text) or type(text).__name__).split())
    return said if len(said) <= _MAX_REASON else said[:_MAX_REASON] + " ..."

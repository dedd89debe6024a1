"""What is being done, how much of it, and the time left, for whoever waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

SECONDS_BETWEEN = 1.0
"""At most one message in this time, and none of what takes less."""
_Item = TypeVar("_Item")


class Telling:
    """Where progress is told: the step of a command, and when something was told last.

    Parameters
    ----------
    show : callable
        Shows a text.
    clock : callable
        Seconds that have passed.
    """

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._show, self.clock = show, clock
        self._step, self._last = "", clock()

    def begin(self, step: str) -> None:
        """Tell that a step begins; its name stands before what is told of it."""
        self._step = step
        self.show(step)

    def show(self, text: str) -> None:
        """Tell something now."""
        self._last = self.clock()
        self._show(text)

    def share(self, what: str, done: float, total: float, since: float) -> None:
        """Tell how much has been done since a time, and the time left at that speed; not too often.

        what : the task, or what of the current step it is, if it begins with a comma.
        """
        now = self.clock()
        if now - self._last < SECONDS_BETWEEN:
            return
        name = f"{self._step}{what}" if what.startswith(",") or not what else what
        if now - since < SECONDS_BETWEEN or not 0 < done <= total:  # too early to tell how long it takes
            self.show(name)
            return
        left = (now - since) * (total - done) / done
        self.show(f"{name}: {int(100 * done / total)}%, {_duration(left)} left")


_telling: ContextVar[Telling | None] = ContextVar("telling", default=None)


@contextmanager
def told_to(show: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> Iterator[Telling]:
    """Have progress told to a function while the context lasts."""
    telling = Telling(show, clock)
    token = _telling.set(telling)
    try:
        yield telling
    finally:
        _telling.reset(token)


class Progress:
    """Tells the share of a task that is done, and the time left at the speed so far.

    Parameters
    ----------
    total : float
        How much there is to do.
    what : str
        The task, as "reading a.csv"; with a comma before it, a part of the current step; empty: the step itself.
    """

    def __init__(self, total: float, what: str = "") -> None:
        self._telling = _telling.get()
        self._total, self._what = total, what
        self._start = self._telling.clock() if self._telling else 0.0

    def done(self, amount: float) -> None:
        """Tell that so much is done, unless something was told a moment ago."""
        if self._telling is not None:
            self._telling.share(self._what, amount, self._total, self._start)


def counting(
    items: Iterable[_Item], total: float, what: str = "", size: Callable[[_Item], float] = lambda _: 1
) -> Iterable[_Item]:
    """Return the items, and tell how much of them has been taken. size : of an item, as in the total."""
    return items if _telling.get() is None else _counted(items, Progress(total, what), size)


def _counted(items: Iterable[_Item], progress: Progress, size: Callable[[_Item], float]) -> Iterator[_Item]:
    done = 0.0
    for item in items:
        yield item
        done += size(item)
        progress.done(done)


def _duration(seconds: float) -> str:
    """Return a time in words: "40 s", "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

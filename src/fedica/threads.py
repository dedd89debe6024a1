"""Blocks in parallel threads, with BLAS on one thread.

BLAS libraries start threads inside every product; on the small products of a block that costs more than it gains (up
to twenty times, when cores are shared), and inside joblib workers it oversubscribes. Here BLAS runs on one thread and
the blocks are spread over as many threads as BLAS was allowed, which is one inside a joblib worker. Results are
returned in the order of the blocks, so that sums do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from threadpoolctl import ThreadpoolController

_Block = TypeVar("_Block")
_Result = TypeVar("_Result")

MIN_SHARED_WORK = 5e7
"""Fewer operations in all are done by the caller alone."""
AHEAD = 3
"""Blocks that are read ahead for each thread: those that wait, are being worked on, or whose turn has not come."""

_Tasks: TypeAlias = "SimpleQueue[tuple[_Block, Future[_Result]] | None]"
_n_threads: ContextVar[int] = ContextVar("fedica_n_threads", default=1)


class _BlasThreads:
    """The BLAS setting belongs to the whole process: the first user lowers it, the last one restores it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limit: Any = None

    def enter(self) -> int:
        """Set BLAS to one thread; return how many this caller may use itself."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return 1
            controller = _controller()
            allowed = [int(c.num_threads) for c in controller.lib_controllers if c.user_api == "blas"]
            self._limit = controller.limit(limits=1, user_api="blas")
            return min(allowed, default=1)

    def leave(self) -> None:
        """Restore the setting after the last user."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


_blas_threads = _BlasThreads()


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # it searches all loaded libraries: once is enough


@contextmanager
def threads_for_blocks() -> Iterator[int]:
    """Within this context BLAS runs on one thread and `in_order` uses the threads that it was allowed."""
    n_threads = _blas_threads.enter()
    token = _n_threads.set(n_threads)
    try:
        yield n_threads
    finally:
        _n_threads.reset(token)
        _blas_threads.leave()


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Within this context OpenMP (scikit-learn's k-means) runs on one thread, so that its sums have one order."""
    with _controller().limit(limits=1, user_api="openmp"):
        yield


def in_order(function: Callable[[_Block], _Result], blocks: Iterable[_Block], *, work: float) -> Iterator[_Result]:
    """Yield function(block) in the order of the blocks, computed side by side when there is enough to do.

    blocks : read by the caller alone, a few ahead, never whole. work : roughly how many floating point operations there
    are in total.
    """
    n_threads = _n_threads.get()
    if n_threads == 1 or work < MIN_SHARED_WORK:
        yield from map(function, blocks)
        return
    tasks: _Tasks[_Block, _Result] = SimpleQueue()
    waiting: deque[Future[_Result]] = deque()
    helpers = [_helpers(os.getpid(), n_threads - 1).submit(_help, function, tasks) for _ in range(n_threads - 1)]
    unread = iter(blocks)
    try:
        while True:
            for block in islice(unread, AHEAD * n_threads - len(waiting)):
                waiting.append(Future())
                tasks.put((block, waiting[-1]))
            if not waiting:
                return
            if waiting[0].done() or not _do_one(function, tasks):  # the caller works, too, rather than wait
                yield waiting.popleft().result()
    finally:
        while not tasks.empty():  # of a caller that wants no more results
            tasks.get()
        begun = [helper for helper in helpers if not helper.cancel()]  # others waited for a pass that is not over
        for _ in begun:
            tasks.put(None)
        wait(begun)


@lru_cache(maxsize=4)
def _helpers(process: int, n_threads: int) -> ThreadPoolExecutor:
    """Return threads that stay: starting them anew costs as much as a block. A forked process has none of its own."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix=f"fedica-{process}")


def _help(function: Callable[[_Block], _Result], tasks: _Tasks[_Block, _Result]) -> None:
    """Work on blocks until there is a ``None`` among them."""
    for block, future in iter(tasks.get, None):
        _fulfil(future, function, block)


def _do_one(function: Callable[[_Block], _Result], tasks: _Tasks[_Block, _Result]) -> bool:
    """Work on one block, if one is left; return whether there was."""
    try:
        task = tasks.get_nowait()
    except Empty:
        return False
    if task is not None:
        _fulfil(task[1], function, task[0])
    return True


def _fulfil(future: Future[_Result], function: Callable[[_Block], _Result], block: _Block) -> None:
    try:
        future.set_result(function(block))
    except BaseException as error:  # raised where the result is asked for
        future.set_exception(error)

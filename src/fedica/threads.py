"""Blocks in parallel threads, with BLAS on one thread.

BLAS libraries start threads inside every product; on the small products of a block that costs more than it gains (up
to twenty times, when cores are shared), and inside joblib workers it oversubscribes. Here BLAS runs on one thread and
the blocks are spread over as many threads as BLAS was allowed, which is one inside a joblib worker. Results are
returned in the order of the blocks, so that sums do not depend on the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

_Block = TypeVar("_Block")
_Result = TypeVar("_Result")

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

    blocks : read a few ahead, never whole. work : roughly how many floating point operations there are in total.
    """
    n_threads = _n_threads.get()
    if n_threads == 1 or work < 5e7:
        yield from map(function, blocks)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[Future[_Result]] = deque()
        for block in blocks:
            waiting.append(pool.submit(function, block))
            if len(waiting) > 2 * n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

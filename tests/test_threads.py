"""Threads over blocks: in order, bounded, and never in the way of others."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController, threadpool_limits

from fedica.local import LocalICA
from fedica.threads import in_order, threads_for_blocks


def _blas_threads() -> list[int]:
    return [c.num_threads for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]


def test_blas_is_lowered_within_and_restored_after():
    """Inside BLAS has one thread; outside it has what it had, also after an error."""
    with threadpool_limits(2, user_api="blas"):
        before = _blas_threads()
        try:
            with threads_for_blocks() as n_threads:
                assert n_threads == min(before)
                assert set(_blas_threads()) == {1}
                raise KeyError
        except KeyError:
            pass
        assert _blas_threads() == before


def test_a_limit_of_one_is_kept():
    """Inside a worker that may use one thread, blocks use one thread."""
    with threadpool_limits(1, user_api="blas"), threads_for_blocks() as n_threads:
        assert n_threads == 1


def test_fits_side_by_side_do_not_multiply_threads_or_leave_a_limit_behind():
    """Of two threads that come in together one gets the cores and the other one core; the last one out restores."""
    with threadpool_limits(2, user_api="blas"):
        before = _blas_threads()
        both_in = Barrier(2)

        def enter(_):
            with threads_for_blocks() as n_threads:
                both_in.wait(timeout=600)
                return n_threads

        with ThreadPoolExecutor(2) as pool:
            allowed = sorted(pool.map(enter, range(2)))
        assert allowed == [1, min(before)]
        assert _blas_threads() == before


def test_results_come_in_order_and_blocks_are_not_read_far_ahead():
    """A long stream is never pulled whole into memory."""
    read = []

    def stream():
        for k in range(100):
            read.append(k)
            yield k

    with threadpool_limits(2, user_api="blas"), threads_for_blocks():
        results = in_order(lambda k: k * k, stream(), work=1e9)
        first = next(results)
        ahead = len(read)
        assert [first, *results] == [k * k for k in range(100)]
    assert ahead <= 6


def test_a_block_that_fails_raises_in_its_turn_and_the_threads_go_on_to_other_work():
    """Results before it come first, whichever thread had it; the next pass finds all threads free."""

    def inverse(k):
        return 1 / (k - 20)

    with threadpool_limits(2, user_api="blas"), threads_for_blocks():
        results = in_order(inverse, range(100), work=1e9)
        assert [next(results) for _ in range(20)] == [inverse(k) for k in range(20)]
        with pytest.raises(ZeroDivisionError):
            next(results)
        assert list(in_order(inverse, range(20), work=1e9)) == [inverse(k) for k in range(20)]


def test_a_pass_within_a_pass_does_not_wait_for_its_threads():
    """The outer pass holds the threads until it is over; the inner one is then done by its caller alone."""

    def passes():
        with threadpool_limits(2, user_api="blas"), threads_for_blocks():
            for k in in_order(abs, range(20), work=1e9):
                assert list(in_order(abs, range(k), work=1e9)) == list(range(k))

    inner = Thread(target=passes, daemon=True)
    inner.start()
    inner.join(timeout=60)
    assert not inner.is_alive()


def test_whoever_wants_no_more_results_leaves_nothing_running():
    """Blocks that were read ahead are not worked on once the results are dropped."""
    worked = []
    with threadpool_limits(2, user_api="blas"), threads_for_blocks():
        results = in_order(worked.append, range(100), work=1e9)
        next(results)
        results.close()
        n_worked = len(worked)
        assert list(in_order(abs, range(10), work=1e9)) == list(range(10))
        assert len(worked) == n_worked <= 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_threads_of_its_own():
    """Threads do not survive a fork: a child that waited for those of its parent would wait for ever."""

    def squares():
        with threads_for_blocks():
            return list(in_order(lambda k: k * k, range(20), work=1e9))

    with threadpool_limits(2, user_api="blas"):
        here = squares()
        child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(squares() != here))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads is forked
            child.start()
        child.join(timeout=120)
        if child.is_alive():
            child.kill()
    assert child.exitcode == 0


def test_fits_in_joblib_threads_agree_with_fits_alone():
    """The result does not depend on who else is computing."""
    rng = np.random.default_rng(0)
    data = [rng.laplace(size=(4000, 5)) @ rng.standard_normal((5, 5)) for _ in range(4)]
    alone = [LocalICA(random_state=0).fit(X).atoms_ for X in data]
    together = Parallel(n_jobs=2, backend="threading")(
        delayed(lambda X: LocalICA(random_state=0).fit(X).atoms_)(X) for X in data
    )
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)

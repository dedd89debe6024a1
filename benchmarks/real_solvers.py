"""The solvers that are compared on real data, each until its gradient is what everybody must reach."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from real_problems import Problem
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from fedica import LocalICA
from fedica.arrays import Array, polar
from fedica.blocks import rows_of
from fedica.ica import Whitened
from fedica.ica.contrast import slope_at

GOAL = 1e-3
"""Largest entry of the gradient that everybody must reach; fedica stops below it by its own rule."""
FASTICA_STEPS, MAX_STEPS = 5, 400
"""FastICA is run this many steps at a time until its gradient is at the goal; and the most in all."""
MAX_INFOMAX, INFOMAX_STEPS, INFOMAX_SECONDS = 30, 200, 20.0
"""Infomax is measured up to so many components, with at most as many steps as it takes by default, and with as many as
fit in so many CPU seconds: it minimises something else, and is not judged."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A rotation (r, r) of white data, CPU seconds, passes over the data or steps, and why it stopped too early."""

    rotation: Array
    seconds: float
    passes: int
    stopped: str = ""


def _late(seconds: float) -> str:
    return f"not there after {seconds:.0f} s"


def _fedica(problem: Problem, r: int, limit: float, seed: int = 0) -> Fit:
    del limit  # it stops by its own rule
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        local = LocalICA(r, independence=problem.independence, random_state=seed).fit(problem.X)
    seconds = time.process_time() - start
    found = local.whitening_
    rotation = found.whitener @ local.mixing_ if problem.independence == "samples" else found.basis.T @ local.atoms_
    stopped = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    return Fit(polar(rotation), seconds, local.n_passes_, "; ".join(stopped))


def _white(problem: Problem, r: int) -> tuple[Array, float]:
    """Whiten for the other solvers as fedica does: they are slower at it by themselves."""
    start = time.process_time()
    return problem.white(r), time.process_time() - start


def _fastica(problem: Problem, r: int, limit: float, seed: int = 0) -> Fit:
    white, seconds = _white(problem, r)
    data, steps = Whitened(rows_of(white)), 0
    unmixing = np.linalg.qr(np.random.default_rng(seed).normal(size=(r, r)))[0]
    while (left := slope_at(data, unmixing.T).largest) > GOAL and steps < MAX_STEPS and seconds < limit:
        start = time.process_time()
        solver = FastICA(whiten=False, max_iter=FASTICA_STEPS, tol=1e-12, w_init=unmixing).fit(white)
        seconds, unmixing, steps = seconds + time.process_time() - start, solver.components_, steps + FASTICA_STEPS
    stopped = f"limit of {MAX_STEPS} steps" if steps >= MAX_STEPS else _late(seconds)
    return Fit(unmixing.T, seconds, steps, stopped if left > GOAL else "")


class _OverTimeError(Exception):
    """Tells the sources at which the time was over. sources : (r, n)."""

    def __init__(self, sources: Array) -> None:
        self.sources = sources


def _picard(problem: Problem, r: int, limit: float, seed: int = 0) -> Fit:
    from picard import picard  # noqa: PLC0415 - an extra
    from picard.densities import Tanh  # noqa: PLC0415

    white, seconds = _white(problem, r)
    start = time.process_time()

    class WatchedTanh(Tanh):
        """The density that picard asks once in every step, with an eye on the clock."""

        steps = 0

        def score_and_der(self, Y: Array) -> tuple[Array, Array]:
            if seconds + time.process_time() - start > limit:
                raise _OverTimeError(Y)
            self.steps += 1
            return super().score_and_der(Y)  # type: ignore[no-any-return]

    watched = WatchedTanh()
    try:
        _, unmixing, _ = picard(
            white.T, fun=watched, check_fun=False, whiten=False, centering=False, ortho=True, extended=True, tol=GOAL,
            max_iter=1000, random_state=seed,
        )  # fmt: skip
    except _OverTimeError as over:
        unmixing, stopped = polar(over.sources @ white / len(white)), _late(limit)
    else:
        stopped = "limit of 1000 steps" if watched.steps >= 1000 else ""
    return Fit(unmixing.T, seconds + time.process_time() - start, watched.steps, stopped)


def _infomax(problem: Problem, r: int, limit: float, seed: int = 0) -> Fit:
    """Run it as it is; what it finds is not orthogonal, and the gradient is that of the nearest rotation.

    The second and third step tell how many fit in the limit; the first is slower.
    """
    from mne.preprocessing import infomax  # noqa: PLC0415 - an extra

    white, seconds = _white(problem, r)

    def run(max_iter: int) -> tuple[Array, int, float]:
        start = time.process_time()
        found = infomax(white, extended=True, max_iter=max_iter, random_state=seed, return_n_iter=True, verbose="error")
        return (*found, time.process_time() - start)

    step = (run(3)[-1] - run(1)[-1]) / 2
    most = int(np.clip((min(limit, INFOMAX_SECONDS) - seconds) / max(step, 1e-3), 3, INFOMAX_STEPS))
    unmixing, steps, took = run(most)
    return Fit(polar(unmixing.T), seconds + took, int(steps), f"limit of {most} steps" if steps >= most else "")


OURS, FASTICA, PICARD, INFOMAX = (
    "fedica LocalICA",
    "FastICA logcosh",
    "picard, orthogonal, extended",
    "MNE infomax, extended",
)
WAYS: dict[str, Callable[..., Fit]] = {
    OURS: _fedica,
    FASTICA: _fastica,
    PICARD: _picard,
    INFOMAX: _infomax,
}
"""From a problem, the number of components, the CPU seconds that it may take, and the seed of its start, to a fit."""

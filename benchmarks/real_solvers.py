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
MAX_INFOMAX, INFOMAX_STEPS = 30, 200
"""Infomax is measured up to so many components, with as many steps as it takes by default."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A rotation (r, r) of white data, CPU seconds, passes over the data or steps, and why it stopped too early."""

    rotation: Array
    seconds: float
    passes: int
    stopped: str = ""


def _fedica(problem: Problem, r: int) -> Fit:
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        local = LocalICA(r, independence=problem.independence, random_state=0).fit(problem.X)
    seconds = time.process_time() - start
    found = local.whitening_
    rotation = found.whitener @ local.mixing_ if problem.independence == "samples" else found.basis.T @ local.atoms_
    stopped = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    return Fit(polar(rotation), seconds, local.n_passes_, "; ".join(stopped))


def _white(problem: Problem, r: int) -> tuple[Array, float]:
    """Whiten for the other solvers as fedica does: they are slower at it by themselves."""
    start = time.process_time()
    return problem.white(r), time.process_time() - start


def _fastica(problem: Problem, r: int) -> Fit:
    white, seconds = _white(problem, r)
    data, unmixing, steps = Whitened(rows_of(white)), np.linalg.qr(np.random.default_rng(0).normal(size=(r, r)))[0], 0
    while (left := slope_at(data, unmixing.T).largest) > GOAL and steps < MAX_STEPS:
        start = time.process_time()
        solver = FastICA(whiten=False, max_iter=FASTICA_STEPS, tol=1e-12, w_init=unmixing).fit(white)
        seconds, unmixing, steps = seconds + time.process_time() - start, solver.components_, steps + FASTICA_STEPS
    return Fit(unmixing.T, seconds, steps, f"limit of {MAX_STEPS} steps" if left > GOAL else "")


def _picard(problem: Problem, r: int) -> Fit:
    from picard import picard  # noqa: PLC0415 - an extra

    white, seconds = _white(problem, r)
    start = time.process_time()
    _, unmixing, _, steps = picard(
        white.T, whiten=False, centering=False, ortho=True, extended=True, tol=GOAL, max_iter=1000, random_state=0,
        return_n_iter=True,
    )  # fmt: skip
    return Fit(unmixing.T, seconds + time.process_time() - start, int(steps))


def _infomax(problem: Problem, r: int) -> Fit:
    """Run it as it is; what it finds is not orthogonal, and the gradient is that of the nearest rotation."""
    from mne.preprocessing import infomax  # noqa: PLC0415 - an extra

    white, seconds = _white(problem, r)
    start = time.process_time()
    unmixing, steps = infomax(
        white, extended=True, max_iter=INFOMAX_STEPS, random_state=0, return_n_iter=True, verbose="error"
    )
    stopped = f"limit of {INFOMAX_STEPS} steps" if steps >= INFOMAX_STEPS else ""
    return Fit(polar(unmixing.T), seconds + time.process_time() - start, int(steps), stopped)


OURS, FASTICA, PICARD, INFOMAX = (
    "fedica LocalICA",
    "FastICA logcosh",
    "picard, orthogonal, extended",
    "MNE infomax, extended",
)
WAYS: dict[str, Callable[[Problem, int], Fit]] = {
    OURS: _fedica,
    FASTICA: _fastica,
    PICARD: _picard,
    INFOMAX: _infomax,
}

"""The default solver: FastICA with the logcosh contrast, warm-started on subsamples and finished on all data.

``R <- polar(E[z tanh(R'z)'] - R diag(E[tanh'(R'z)]))`` is an approximate Newton step. Near the optimum every
step shrinks the error by a factor of the order of 1/sqrt(n), so that most steps can run on few samples: on a subsample,
then on a larger one, and one or two on all data. One pass draws all subsamples. The result is that of FastICA (logcosh)
on all data. Sources may be super- or sub-Gaussian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array
from fedica.ica.rotation import Rotation, column_steps, convergence_warning, polars, random_rotation, subsample_size
from fedica.ica.whitened import Whitened, logcosh

GROWTH = 8
"""Each subsample is at most this many times larger than the one before."""
FIRST_PER_SQUARE = 1
"""The first subsample has this times r^2 samples, if there are: fewer do not determine the first steps."""
MAX_SUBSAMPLE_BYTES = 2**27
"""The largest subsample held in memory, in single precision."""
MAX_WARM_STEPS = 30
"""Steps on a subsample, whose optimum is not sought exactly."""
PATIENCE = 8
"""A subsample whose columns still turn freely after this many steps is left for a larger one, if there is one."""
FULL_STEPS, STALL, MIN_SHARE = 30, 20, 0.25
"""From step 30 on, steps are halved whenever 20 of them have brought no progress, down to a quarter."""
SHARE_OF_SAMPLING_ERROR = 0.03
"""Without a tolerance, the iteration stops when at most this times sqrt(r / n) is left.

No symmetric ICA has a sampling error much below sqrt(r / n) / 2 per component, so this changes it by 0.2%.
"""
GAUSSIAN_LOGCOSH = 0.3745672075
"""E[log cosh g] of a standard normal g."""


@dataclass(frozen=True)
class NewtonRun:
    """Where Newton steps ended: what is left, in radians, and by what factor a step shrinks it."""

    matrix: Array
    n_iter: int
    left: float
    rate: float | None


def fast(data: Whitened, *, n_init: int, tol: float | None, max_iter: int, rng: np.random.Generator) -> Rotation:
    """Find a stationary point of sum_i E[log cosh((R'z)_i)] over rotations R. data : (n, r), white.

    Samples are read once for the subsamples, and in one or two passes, as a rule, for Newton steps, which ``max_iter``
    bounds. Of the ``n_init`` starts on the smallest subsample the one with the largest total negentropy goes on.
    ``tol=None``: a small share of the sampling error.
    """
    n, r = data.n_samples, data.n_components
    *small, _ = sizes = stage_sizes(n, r)
    starts = [random_rotation(r, rng) for _ in range(n_init)]
    n_iter, rate = 0, None
    for part, size, next_size in zip(data.subsamples(small, rng), small, sizes[1:], strict=True):
        patience = MAX_WARM_STEPS if size == small[-1] else PATIENCE  # steps on all data cost many times more
        near = _best([_warm_start(part, start, patience) for start in starts], part)
        starts, n_iter = [near.matrix], n_iter + near.n_iter
        # Fluctuations of the Hessian shrink like 1/sqrt(n), and so does the rate of contraction; twice that is safe.
        rate = None if near.rate is None else 2 * near.rate * np.sqrt(size / next_size)
    goal = SHARE_OF_SAMPLING_ERROR * np.sqrt(r / n) if tol is None else tol
    runs = [newton_steps(step_on(data), start, goal=goal, max_iter=max_iter, rate=rate) for start in starts]
    best = _best(runs, data)
    converged = best.left <= goal
    warned = () if converged else (convergence_warning("auto", best.left, goal, max_iter),)
    return Rotation(best.matrix, n_iter + best.n_iter, best.left, converged, warned)


def stage_sizes(n: int, r: int) -> list[int]:
    """Return the sizes of the subsamples, in equal ratios of at most `GROWTH`, and n at the end."""
    first = max(subsample_size(r), min(FIRST_PER_SQUARE * r * r, n // GROWTH))
    if n < 2 * first:
        return [n]
    n_stages = int(np.ceil(np.log(n / first) / np.log(GROWTH)))
    sizes = np.geomspace(first, n, n_stages + 1)[:-1].astype(int).tolist()
    return [*(size for size in sizes if 4 * r * size <= MAX_SUBSAMPLE_BYTES), n]


def newton_steps(
    step_from: Callable[[Array], Array], start: Array, *, goal: float, max_iter: int, rate: float | None = None
) -> NewtonRun:
    """Take Newton steps until what is left, extrapolated from how the steps shrink, is below the goal.

    step_from : from a rotation (r, r) to the one that a full step leads to.
    rate : the expected contraction of the first step, if known; it saves the pass over the data that would confirm it.
    """
    current, before, left, n_iter = start, None, np.inf, 0
    share, smallest, stalled = 1.0, np.inf, 0
    for n_iter in range(1, max_iter + 1):
        new = step_from(current)
        step = float(column_steps(new, current).max())
        if before is not None and share == 1.0:
            rate = step / before
        before = step
        # Near the end, what is left is a geometric series; far away it cannot be predicted.
        predicted = rate is not None and rate < 0.5 and step < 0.5 and share == 1.0
        left = step * max(rate, step * step) / (1 - rate) if predicted and rate is not None else step
        smallest, stalled = (step, 0) if step < 0.9 * smallest else (smallest, stalled + 1)
        if n_iter >= FULL_STEPS and stalled >= STALL and share > MIN_SHARE:
            share, smallest, stalled = share / 2, step, 0
        current = _part_of_the_way(current, new, share)
        if left <= goal:
            break
    return NewtonRun(current, n_iter, left, rate)


def _warm_start(data: Whitened, start: Array, patience: int) -> NewtonRun:
    """Take Newton steps on a subsample until they are below its sampling error, or stay large for `patience` steps."""
    sampling_error = np.sqrt(data.n_components / data.n_samples)
    step_from = step_on(data)
    current, before, n_iter, largest = start, np.inf, 0, 0.0
    for n_iter in range(1, MAX_WARM_STEPS + 1):
        new = step_from(current)
        steps = column_steps(new, current)
        typical, before, largest = float(np.sqrt(np.mean(steps**2))), largest, float(steps.max())
        current = new
        # Steps that do not shrink are leaving a saddle, however small they are.
        if typical <= 0.3 * sampling_error and largest <= min(sampling_error, before / 2):
            return NewtonRun(current, n_iter, largest, largest / before if before < 0.5 else None)
        if n_iter >= patience and typical > 0.9:
            break
    return NewtonRun(current, n_iter, largest, None)


def step_on(data: Whitened) -> Callable[[Array], Array]:
    """Return the approximate Newton step of logcosh on this data."""

    def step_from(current: Array) -> Array:
        correlation, slope = data.expect(current, logcosh)
        return polars(correlation - current * slope)

    return step_from


def _part_of_the_way(current: Array, new: Array, share: float) -> Array:
    """Go a share of the way from one rotation to the other: on few samples full steps may cycle."""
    if share == 1.0:
        return new
    signs = np.where(np.sum(new * current, axis=0) < 0, -1.0, 1.0)
    return polars((1 - share) * current + share * signs * new)


def _best(runs: list[NewtonRun], data: Whitened) -> NewtonRun:
    """Return the run whose components are farthest from Gaussian."""
    return runs[0] if len(runs) == 1 else max(runs, key=lambda run: negentropy(data, run.matrix))


def negentropy(data: Whitened, rotation: Array) -> float:
    """Approximate total negentropy, sum_i (E[log cosh y_i] - E[log cosh gaussian])^2, of y = R'z."""

    def log_cosh(z: Array) -> Array:
        y = np.abs(z @ rotation)
        return np.asarray(np.sum(y + np.log1p(np.exp(-2.0 * y)) - np.log(2.0), axis=0))

    mean = data.over_blocks(log_cosh, work=20.0 * rotation.size * data.n_samples) / data.n_samples
    return float(np.sum((mean - GAUSSIAN_LOGCOSH) ** 2))

"""The default solver: FastICA with the logcosh contrast, brought near on subsamples and finished on all data.

``R <- polar(E[z tanh(R'z)'] - R diag(E[tanh'(R'z)]))`` is an approximate Newton step. Once near, its error contracts by
a factor of the order of 1/sqrt(n) a step, so that most steps can run on few samples: a subsample brings R near, a
larger one nearer, and all data is needed for one or two steps. One pass draws all subsamples. The result is that of
FastICA (logcosh) on all data. Sources may be super- or sub-Gaussian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array
from fedica.ica.rotation import Rotation, column_steps, not_settled, polars, random_rotation, subsample_size
from fedica.ica.whitened import Whitened, logcosh

GROWTH = 8
"""Each subsample is at most this many times larger than the one before."""
FIRST_PER_SQUARE = 1
"""The first subsample has this times r^2 samples, if there are: fewer do not show which way to turn at first."""
MAX_SUBSAMPLE_BYTES = 2**27
"""The largest subsample held in memory, in single precision."""
MAX_STEPS_NEAR = 30
"""Steps on a subsample: it need only bring R near."""
PATIENCE = 8
"""A subsample whose columns still turn freely after this many steps is left for a larger one, if there is one."""
FULL_STEPS, STALL, LEAST_SHARE = 30, 20, 0.25
"""From step 30 on, steps are halved whenever 20 of them have brought no progress, down to a quarter."""
SHARE_OF_SAMPLING_ERROR = 0.03
"""Without a tolerance, what is left of the iteration is at most this times sqrt(r / n).

No symmetric ICA has a sampling error much below sqrt(r / n) / 2 per component, so this changes it by 0.2%.
"""
GAUSSIAN_LOGCOSH = 0.3745672075
"""E[log cosh g] of a standard normal g."""


@dataclass(frozen=True)
class Settled:
    """Where a run of Newton steps ended: what is left, and by what factor a step shrank what was left before it."""

    matrix: Array
    n_iter: int
    left: float
    rate: float | None


def fast(data: Whitened, *, n_init: int, tol: float | None, max_iter: int, rng: np.random.Generator) -> Rotation:
    """Find a stationary point of sum_i E[log cosh((R'z)_i)] over rotations R. data : (n, r), white.

    Parameters
    ----------
    data : Whitened
        The samples. Read once for the subsamples, and in one or two passes, as a rule, for Newton steps.
    n_init : int
        Random starts on the smallest subsample; the one with the largest total negentropy goes on.
    tol : float or None
        How far, in radians, a column may be from settled at the end; ``None``: a small share of its sampling error.
    max_iter : int
        Newton steps on all data.
    rng : numpy.random.Generator
        Draws the starts and the subsamples.
    """
    n, r = data.n_samples, data.n_components
    *small, _ = sizes = stage_sizes(n, r)
    starts = [random_rotation(r, rng) for _ in range(n_init)]
    n_iter, rate = 0, None
    for part, size, next_size in zip(data.subsamples(small, rng), small, sizes[1:], strict=True):
        patience = MAX_STEPS_NEAR if size == small[-1] else PATIENCE  # steps on all data cost many times more
        near = _best([_come_near(part, start, patience) for start in starts], part)
        starts, n_iter = [near.matrix], n_iter + near.n_iter
        # Fluctuations of the Hessian shrink like 1/sqrt(n), and the rate of contraction with them; twice that is safe.
        rate = None if near.rate is None else 2 * near.rate * np.sqrt(size / next_size)
    goal = SHARE_OF_SAMPLING_ERROR * np.sqrt(r / n) if tol is None else tol
    settled = _best(
        [newton_steps(step_on(data), start, goal=goal, max_iter=max_iter, rate=rate) for start in starts], data
    )
    converged = settled.left <= goal
    warned = () if converged else (not_settled("auto", settled.left, goal, max_iter),)
    return Rotation(settled.matrix, n_iter + settled.n_iter, settled.left, converged, warned)


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
) -> Settled:
    """Take Newton steps until what is left is below the goal, as foreseen from how the steps shrink.

    step_from : from a rotation (r, r) to the one that a full step leads to.
    rate : the contraction to expect of the first step, if that is known; foreseeing it saves the pass over the data
    that would only confirm it.
    """
    current, before, left, n_iter = start, None, np.inf, 0
    share, smallest, stalled = 1.0, np.inf, 0
    for n_iter in range(1, max_iter + 1):
        new = step_from(current)
        step = float(column_steps(new, current).max())
        if before is not None and share == 1.0:
            rate = step / before
        before = step
        # Far away a step foretells nothing; near the end, what is left is a geometric series.
        foretells = rate is not None and rate < 0.5 and step < 0.5 and share == 1.0
        left = step * max(rate, step * step) / (1 - rate) if foretells and rate is not None else step
        smallest, stalled = (step, 0) if step < 0.9 * smallest else (smallest, stalled + 1)
        if n_iter >= FULL_STEPS and stalled >= STALL and share > LEAST_SHARE:
            share, smallest, stalled = share / 2, step, 0
        current = _part_of_the_way(current, new, share)
        if left <= goal:
            break
    return Settled(current, n_iter, left, rate)


def _come_near(data: Whitened, start: Array, patience: int) -> Settled:
    """Take Newton steps on a subsample until they are small beside its sampling error, or patience is at its end."""
    sampling_error = np.sqrt(data.n_components / data.n_samples)
    step_from = step_on(data)
    current, before, n_iter, largest = start, np.inf, 0, 0.0
    for n_iter in range(1, MAX_STEPS_NEAR + 1):
        new = step_from(current)
        steps = column_steps(new, current)
        typical, before, largest = float(np.sqrt(np.mean(steps**2))), largest, float(steps.max())
        current = new
        # Steps that do not shrink are leaving a saddle, however small they are.
        if typical <= 0.3 * sampling_error and largest <= min(sampling_error, before / 2):
            return Settled(current, n_iter, largest, largest / before if before < 0.5 else None)
        if n_iter >= patience and typical > 0.9:
            break
    return Settled(current, n_iter, largest, None)


def step_on(data: Whitened) -> Callable[[Array], Array]:
    """Return the approximate Newton step of logcosh on this data."""

    def step_from(current: Array) -> Array:
        correlation, slope = data.expect(current, logcosh)
        return polars(correlation - current * slope)

    return step_from


def _part_of_the_way(current: Array, new: Array, share: float) -> Array:
    """Go a share of the way from one rotation to the other: full steps circle on few samples, shorter ones do not."""
    if share == 1.0:
        return new
    signs = np.where(np.sum(new * current, axis=0) < 0, -1.0, 1.0)
    return polars((1 - share) * current + share * signs * new)


def _best(runs: list[Settled], data: Whitened) -> Settled:
    """Return the run whose components are farthest from Gaussian."""
    return runs[0] if len(runs) == 1 else max(runs, key=lambda run: negentropy(data, run.matrix))


def negentropy(data: Whitened, rotation: Array) -> float:
    """Approximate total negentropy, sum_i (E[log cosh y_i] - E[log cosh gaussian])^2, of y = R'z."""

    def log_cosh(z: Array) -> Array:
        y = np.abs(z @ rotation)
        return np.asarray(np.sum(y + np.log1p(np.exp(-2.0 * y)) - np.log(2.0), axis=0))

    mean = data.over_blocks(log_cosh, work=20.0 * rotation.size * data.n_samples) / data.n_samples
    return float(np.sum((mean - GAUSSIAN_LOGCOSH) ** 2))

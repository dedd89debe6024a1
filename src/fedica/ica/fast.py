"""The default solver: FastICA with the logcosh contrast, warm-started on subsamples and finished on all data.

``R <- polar(E[z tanh(R'z)'] - R diag(E[tanh'(R'z)]))`` is an approximate Newton step. Near the optimum of independent
sources every step shrinks the error by a factor of the order of 1/sqrt(n), so that most steps can run on few samples:
on a subsample, then on a larger one, and one or two on all data; and those before the last in single precision, whose
rounding the next step shrinks too. One pass draws all subsamples. Where these steps do not settle, as on recordings
whose contrast is nearly flat in some directions, Newton steps with the exact curvature of the subsample follow from
where they ended (`descent`). The result is that of FastICA (logcosh) on all data, of super- or sub-Gaussian sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedica.arrays import Array
from fedica.ica.contrast import Slope, slope_at
from fedica.ica.descent import descend
from fedica.ica.doubt import Doubt, undetermined
from fedica.ica.rotation import Rotation, column_steps, convergence_warning, polars, random_rotation, subsample_size
from fedica.ica.sampling_error import gradient_errors, typical_error
from fedica.ica.whitened import Whitened, logcosh

GROWTH = 8
"""Each subsample is at most this many times larger than the one before."""
FIRST_PER_SQUARE = 1
"""The first subsample has this times r^2 samples, if there are: fewer do not determine the first steps."""
MAX_SUBSAMPLE_BYTES = 2**27
"""The largest subsample held in memory, in single precision."""
MAX_WARM_STEPS = 30
"""Steps on a subsample, whose optimum is not sought exactly."""
PATIENCE = 12
"""A subsample whose columns still turn freely after this many steps is left for a larger one."""
FEW_PER_SQUARE, FEW_STEPS, NO_LESS = 2, 4, 0.95
"""One of fewer than 2 r^2 samples is left after 4 steps already, if its columns turn no less than in the first: flat
sources cannot be found in so few.
"""
FULL_STEPS, STALL, MIN_SHARE = 30, 20, 0.25
"""From step 30 on, steps are halved whenever 20 of them have brought no progress, down to a quarter."""
MAX_DIRECT = 2**16
"""Up to so many numbers the steps on all data cost no more than those on a subsample."""
MIN_ROUNDED, SMALL_RATE = 2**16, 0.1
"""From so many samples on, unless a tolerance is asked for, scores are computed in single precision where every step
shrinks an error, and thus its rounding, by this factor or a smaller one: less than 1e-8 is left of it.
"""
SHARE_OF_SAMPLING_ERROR = 0.03
"""Without a tolerance, the iteration stops when at most this times sqrt(r / n) is left.

No symmetric ICA has a sampling error much below sqrt(r / n) / 2 per component, so this changes it by 0.2%.
"""
SHARE_OF_GRADIENT_ERROR = 0.5
"""Without a tolerance, Newton steps stop when the largest entry of the gradient is at most this times the standard
error of an entry. Most entries are then a tenth of their standard error or less.
"""
SUBSAMPLE_GOAL = 0.1
"""Newton steps on m samples stop at this over sqrt(m), a fifth of the standard error of independent samples."""
MAX_DESCENT = 100
"""Newton steps on a subsample."""
CURVED_PER_SQUARE = 16
"""The largest subsample has the curvature of the one before if that has this times r^2 samples: fewer do not converge.
"""
NEARLY_GAUSSIAN = 0.05
"""Pairs whose curvature is above this are determined by the thousands of samples of which subsamples are drawn."""
GAUSSIAN_LOGCOSH = 0.3745672075
"""E[log cosh g] of a standard normal g."""


@dataclass(frozen=True)
class NewtonRun:
    """Where Newton steps ended: what is left, in radians, by what factor a step shrinks it, whether that is enough.

    first : the first step, in radians: how far the start was from the optimum.
    """

    matrix: Array
    n_iter: int
    left: float
    rate: float | None
    settled: bool
    first: float = np.inf


_Run = TypeVar("_Run", NewtonRun, Rotation)


def fast(data: Whitened, *, n_init: int, tol: float | None, max_iter: int, rng: np.random.Generator) -> Rotation:
    """Find a stationary point of sum_i s_i E[log cosh((R'z)_i)] over rotations R. data : (n, r), white.

    Samples are read once for the subsamples, and in one or two passes, as a rule, for Newton steps, which ``max_iter``
    bounds. Of the ``n_init`` starts on the smallest subsample the one with the largest total negentropy goes on.
    ``tol=None``: a small share of the sampling error.
    """
    n, r = data.n_samples, data.n_components
    starts = [random_rotation(r, rng) for _ in range(n_init)]
    parts = data.subsamples(stage_sizes(n, r)[:-1], rng)
    runs = [NewtonRun(start, 0, np.inf, None, settled=True) for start in starts]
    if parts:
        runs = [_through(parts, starts, _warm_start)]
    elif 4 * n * r <= MAX_SUBSAMPLE_BYTES:
        parts = [data.as_subsample()]
        most = min(MAX_WARM_STEPS, max_iter)
        runs = [replace(_warm_start(parts[0], start, most), settled=True) for start in starts]
    if not runs[0].settled:
        run = _descend_on(parts[-1], runs[0].matrix)
        largest = data.subsamples([min(n // 2, MAX_SUBSAMPLE_BYTES // (4 * r))], rng)
        curved = parts[-1] if parts[-1].n_samples >= CURVED_PER_SQUARE * r * r else None
        end = _descend_on(largest[0], run.matrix, curved)
        runs, parts = [replace(end, n_iter=run.n_iter + end.n_iter)], largest
    finish = _Finish(data, parts[-1] if parts else None, tol, max_iter)
    return _best([finish.run(run) for run in runs], data)


def fast_from(data: Whitened, start: Array, *, tol: float | None, max_iter: int) -> Rotation:
    """Find the stationary point that `fast` ends at from this rotation, (r, r), with steps on all data."""
    return _Finish(data, None, tol, max_iter).run(NewtonRun(start, 0, np.inf, None, settled=True))


def stage_sizes(n: int, r: int) -> list[int]:
    """Return the sizes of the subsamples, in equal ratios of at most `GROWTH`, and n at the end."""
    first = max(subsample_size(r), min(FIRST_PER_SQUARE * r * r, n // GROWTH))
    if n < 2 * first or n * r <= MAX_DIRECT:
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
    return NewtonRun(current, n_iter, left, rate, left <= goal)


def _through(parts: list[Whitened], starts: list[Array], approach: Callable[[Whitened, Array], NewtonRun]) -> NewtonRun:
    """Approach the optimum of every subsample in turn, from the best start on the first one."""
    n_iter = 0
    for part in parts:
        near = _best([approach(part, start) for start in starts], part)
        starts, n_iter = [near.matrix], n_iter + near.n_iter
    return replace(near, n_iter=n_iter)


def _descend_on(part: Whitened, start: Array, curved: Whitened | None = None) -> NewtonRun:
    """Come within the sampling error of a subsample by Newton steps with its curvature, or that of a smaller one."""
    goal = SUBSAMPLE_GOAL / np.sqrt(part.n_samples)
    end = descend(part, curved or part, start, goal=goal, tol=0.0, max_iter=MAX_DESCENT)
    return NewtonRun(end.matrix, end.n_passes, end.turned, None, settled=False)


@dataclass(frozen=True, eq=False)
class _Finish:
    """Steps on all data, by FastICA where they settle, else with the curvature of the largest subsample."""

    data: Whitened
    part: Whitened | None
    tol: float | None
    max_iter: int

    def run(self, start: NewtonRun) -> Rotation:
        """Return the end of the steps from where those on subsamples ended."""
        n, r = self.data.n_samples, self.data.n_components
        goal = SHARE_OF_SAMPLING_ERROR * np.sqrt(r / n) if self.tol is None else self.tol
        end = self._fastica(start, goal) if start.settled else None
        if end is None or not (end.converged or end.n_iter == self.max_iter):
            end = self._descend(start.matrix if end is None else end.matrix, 0 if end is None else end.n_iter, goal)
        return replace(end, n_iter=start.n_iter + end.n_iter)

    def _fastica(self, start: NewtonRun, goal: float) -> Rotation:
        """Take FastICA's steps as long as they may settle, scores in single precision where rounding will shrink."""
        rate, on_all = self._rate(start), self.part is None or self.part.n_samples == self.data.n_samples
        coarse = self.tol is None and self.data.n_samples >= MIN_ROUNDED and rate is not None and rate <= SMALL_RATE
        step_from, matrix = FastICAStep(self.data.rounded(scores_only=True) if coarse else self.data), start.matrix
        first = int(coarse and not on_all and self.max_iter > 1 and self._one_step_leaves(start) > goal)
        if first:
            matrix = FastICAStep(self.data.rounded())(matrix)
        patience = min(self.max_iter - first, FULL_STEPS if on_all else PATIENCE)
        near = newton_steps(step_from, matrix, goal=goal, max_iter=patience, rate=rate)
        warned = () if near.settled else (convergence_warning("auto", near.left, goal, self.max_iter),)
        doubts = self._doubts(near.matrix, step_from.slope) if step_from.slope else ()
        return Rotation(near.matrix, first + near.n_iter, near.left, near.settled, warned, doubts)

    def _doubts(self, rotation: Array, slope: Slope) -> tuple[Doubt, ...]:
        """Name pairs that the data does not tell apart, if two sources are near enough to Gaussian to look for any."""
        n, r = self.data.n_samples, self.data.n_components
        if n < 2 * subsample_size(r) or np.sort(np.abs(slope.excess))[:2].mean() > NEARLY_GAUSSIAN:
            return ()
        part = self.part or self.data.as_subsample()
        return undetermined(slope.excess, gradient_errors(part, rotation, slope.signs, n))

    def _one_step_leaves(self, start: NewtonRun) -> float:
        """Predict what one step on all data leaves: optima of m samples are apart by about 1/sqrt(m)."""
        if self.part is None or (rate := self._rate(start)) is None:
            return np.inf
        ahead = start.first * float(np.sqrt(self.part.n_samples / self.data.n_samples))
        return ahead * max(rate, ahead**2)

    def _rate(self, start: NewtonRun) -> float | None:
        """Predict the contraction on all data: fluctuations of the Hessian shrink like 1/sqrt(n); twice is safe."""
        if start.rate is None or self.part is None:
            return None
        return 2 * start.rate * float(np.sqrt(self.part.n_samples / self.data.n_samples))

    def _descend(self, start: Array, n_iter: int, tol: float) -> Rotation:
        """Take Newton steps with the curvature of the subsample."""
        part = self.part or self.data.as_subsample()
        errors = gradient_errors(part, start, slope_at(part, start).signs, self.data.n_samples)
        goal = SHARE_OF_GRADIENT_ERROR * typical_error(errors) if self.tol is None else 0.0
        end = descend(self.data, part, start, goal=goal, tol=tol, max_iter=self.max_iter - n_iter)
        warned = () if end.converged else (convergence_warning("auto", end.turned, tol, self.max_iter),)
        enough = self.data.n_samples >= 2 * subsample_size(self.data.n_components)
        pairs = undetermined(end.slope.excess, errors) if enough else ()
        return Rotation(end.matrix, n_iter + end.n_passes, end.turned, end.converged, warned, pairs)


def _warm_start(data: Whitened, start: Array, max_steps: int = MAX_WARM_STEPS) -> NewtonRun:
    """Take Newton steps on a subsample until they are below its sampling error, or do not become smaller."""
    n, r = data.n_samples, data.n_components
    step_from, sampling_error = FastICAStep(data), np.sqrt(r / n)
    current, typical, largest = start, [], [0.0]  # root mean squares of the steps of columns, and the largest
    for _ in range(max_steps):
        new = step_from(current)
        steps = column_steps(new, current)
        typical.append(float(np.linalg.norm(steps)) / np.sqrt(r))
        largest.append(float(steps.max()))
        current, before = new, largest[-2]
        # Steps that do not shrink are leaving a saddle, however small they are.
        if typical[-1] <= 0.3 * sampling_error and largest[-1] <= min(sampling_error, before / 2):
            rate = largest[-1] / before if 0.0 < before < 0.5 else None
            return NewtonRun(current, len(typical), largest[-1], rate, settled=True, first=largest[1])
        few = n < FEW_PER_SQUARE * r * r and len(typical) >= FEW_STEPS and typical[-1] > NO_LESS * typical[0]
        if typical[-1] > 0.9 and (few or len(typical) >= PATIENCE):
            break
    return NewtonRun(current, len(typical), largest[-1], None, settled=False)


class FastICAStep:
    """The approximate Newton step of logcosh on this data; it keeps the slope at the last rotation."""

    def __init__(self, data: Whitened) -> None:
        self._data = data
        self.slope: Slope | None = None

    def __call__(self, current: Array) -> Array:
        """Return the rotation that a full step leads to."""
        correlation, derivative = self._data.expect(current, logcosh)
        self.slope = Slope.of(current, correlation, derivative)
        return polars(correlation - current * derivative)


def _part_of_the_way(current: Array, new: Array, share: float) -> Array:
    """Go a share of the way from one rotation to the other: on few samples full steps may cycle."""
    if share == 1.0:
        return new
    signs = np.where(np.sum(new * current, axis=0) < 0, -1.0, 1.0)
    return polars((1 - share) * current + share * signs * new)


def _best(runs: list[_Run], data: Whitened) -> _Run:
    """Return the run whose components are farthest from Gaussian."""
    return runs[0] if len(runs) == 1 else max(runs, key=lambda run: negentropy(data, run.matrix))


def negentropy(data: Whitened, rotation: Array) -> float:
    """Approximate total negentropy, sum_i (E[log cosh y_i] - E[log cosh gaussian])^2, of y = R'z."""

    def log_cosh(z: Array) -> Array:
        y = np.abs(z @ rotation)
        return np.asarray(np.sum(y + np.log1p(np.exp(-2.0 * y)) - np.log(2.0), axis=0))

    mean = data.over_blocks(log_cosh, work=20.0 * rotation.size * data.n_samples) / data.n_samples
    return float(np.sum((mean - GAUSSIAN_LOGCOSH) ** 2))

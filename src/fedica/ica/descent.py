"""Newton's method on rotations, with the slope of all data and the curvature of a subsample.

The curvature of a subsample differs from that of all data by its sampling error, so that every pass over all data
shrinks the gradient several times, however flat some directions are. Where FastICA's steps contract, they are cheaper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import expm

from fedica.arrays import Array
from fedica.ica.contrast import Slope, slope_at
from fedica.ica.curvature import Curvature
from fedica.ica.rotation import polars
from fedica.ica.trust_region import Step, steihaug
from fedica.ica.whitened import Whitened
from fedica.progress import Progress

FIRST_RADIUS, MIN_RADIUS = 0.1, 1e-8
"""The trust region at the beginning, and one within which nothing is left to gain."""
MIN_RATIO, POOR, FAIR = 0.05, 0.25, 0.65
"""Steps that gain less than this share of what was promised are refused; after a poor one the region shrinks to a
third; after one that was cut short and gained this share, the next may be as long."""
MIN_GROWTH, MAX_GROWTH = 0.6, 1.7
"""Bounds of the change otherwise: a region that shrinks a little in time has fewer steps refused, each a pass."""

SLOPE_UNIT = 1e-4
"""Slopes are told apart to this share of the goal."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Where Newton steps ended: the slope there, the last turn of a column in radians, and the passes that it took."""

    matrix: Array
    slope: Slope
    turned: float
    n_passes: int
    converged: bool


def descend(data: Whitened, part: Whitened, start: Array, *, goal: float, tol: float, max_iter: int) -> Descent:
    """Minimise the contrast from a start (r, r). part : a subsample, or the data itself, in memory.

    It has converged when the largest entry of the gradient is at most `goal`, or when a step that the trust region did
    not cut turns no column by more than `tol`.
    """
    slope = _slopes(data, goal)
    current, here, turned, radius = start, slope(start), np.inf, FIRST_RADIUS
    n_passes, curvature, moved = 1, Curvature(part), True
    converged = here.largest <= goal
    begin = np.log(max(here.largest, np.finfo(float).tiny))
    progress = Progress(begin - np.log(goal) if goal else np.inf, f", Newton steps on {data.n_samples:,} samples")
    while not converged and n_passes < max_iter and radius > MIN_RADIUS:
        if moved:
            curvature.move_to(current, here)
        step = steihaug(curvature.product, here.gradient(here.signs), curvature.scale, radius)
        new = current @ expm(step.turn).T
        there = slope(new)
        n_passes += 1
        ratio = _gained(here, there, step) / min(step.promised, -np.finfo(float).tiny)
        radius = _next_radius(radius, ratio, step, curvature.scale)
        moved = ratio > MIN_RATIO
        if moved:
            current, here = new, there
            turned = float(np.linalg.norm(step.turn, axis=0).max())
            converged = here.largest <= goal or (turned <= tol and not step.cut)
            progress.done(begin - np.log(max(here.largest, goal, np.finfo(float).tiny)))
    return Descent(polars(current), here, turned, n_passes, converged)


def _slopes(data: Whitened, goal: float) -> Callable[[Array], Slope]:
    """Return the function from a rotation to its slope, in units that are far below the goal.

    Steps in flat directions would enlarge the rounding of sums, which depends on where the data lies.
    """
    if goal == 0.0:
        return partial(slope_at, data)
    unit = 2.0 ** np.floor(np.log2(SLOPE_UNIT * goal))
    return lambda rotation: slope_at(data, rotation).rounded(unit)


def _gained(here: Slope, there: Slope, step: Step) -> float:
    """Return the change of the contrast along a turn by the trapezoidal rule: no pass for the contrast itself."""
    mean = (here.gradient(here.signs) + there.gradient(here.signs)) / 2.0
    return float(np.sum(mean * step.turn))


def _next_radius(radius: float, ratio: float, step: Step, scale: Array) -> float:
    """Shrink the region after a step that gained little; after one that was cut short, change it by what it gained."""
    if ratio < POOR:
        return min(radius, float(np.sqrt(np.sum(scale * step.turn**2)))) / 3.0
    return radius * float(np.clip(1 + 2 * (ratio - FAIR), MIN_GROWTH, MAX_GROWTH)) if step.cut else radius

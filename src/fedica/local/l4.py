"""Eq. (2): maximise the sum of fourth powers of rotated whitened data, to convergence.

``R <- polar(E[z (R'z)^3 '])`` climbs at every step, because the objective is convex; it finds components of positive
excess kurtosis only. Where r is small it runs on the fourth moments, which one pass over the data gathers; where r is
large it runs on the data, block by block, after a start from a subsample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedica.arrays import Array, polar
from fedica.local.moments import gather
from fedica.local.rotation import Rotation, column_steps, not_settled, random_rotation, subsample_size
from fedica.local.whitened import Whitened, cube

MOMENTS_MAX = 20
"""Up to this many components the fourth moments are cheaper than iterating over the data (measured)."""
SUBGAUSSIAN_SIGMAS = 4.0
"""An excess kurtosis this many standard errors, sqrt(24 / n), below zero is not chance."""

Gradient = Callable[[Array], Array]
"""From directions (r, k) to E[z (w'z)^3] of each, (r, k)."""


def l4(data: Whitened, *, n_init: int, tol: float, max_iter: int, rng: np.random.Generator) -> Rotation:
    """Maximise sum_i E[(R'z)_i^4] over rotations R, Eq. (2). data : (n, r), white.

    Parameters
    ----------
    data : Whitened
        The samples. Read once where r <= `MOMENTS_MAX`.
    n_init : int
        Random starts, run side by side; the largest objective wins. Where r is large they run on a subsample, and the
        winner goes on over all data.
    tol : float
        Stop when no column moves by more than this angle, in radians.
    max_iter : int
        Iterations of each start.
    rng : numpy.random.Generator
        Draws the starts.

    Returns
    -------
    rotation : Rotation
        With a warning about every component that is sub-Gaussian: this objective cannot separate those.
    """
    r = data.n_components
    starts = np.stack([random_rotation(r, rng) for _ in range(n_init)])
    if r <= MOMENTS_MAX:
        gradient: Gradient = gather(data).gradient
    else:
        data = data.hold()
        n_subsample = subsample_size(r)
        if data.n_samples > 4 * n_subsample:
            part = data.subsample(n_subsample, rng)
            starts = ascend(over(part), starts, tol=1e-2, max_iter=max_iter).matrix[None]
        gradient = over(data)
    return _warn_of_subgaussian(ascend(gradient, starts, tol=tol, max_iter=max_iter), gradient, data.n_samples)


def over(data: Whitened) -> Gradient:
    """Return the gradient of Eq. (2) as one pass over the data, for any number of directions at once."""
    return lambda directions: data.expect(directions, cube)[0]


def ascend(gradient: Gradient, starts: Array, *, tol: float, max_iter: int) -> Rotation:
    """Climb the l4 objective from every start at once; return the highest end. starts : (s, r, r).

    The Newton form ``polar(G - 3R)`` has the same stationary points where all excess kurtoses are positive, and settles
    in a few steps. It is tried first; a start that it would take downhill makes the plain step ``polar(G)`` instead, so
    that the objective of every start never falls.
    """
    current = starts.copy()
    slope = _columns(gradient, current)
    height = _fourth(current, slope)
    active = np.arange(len(starts))
    n_iter = np.zeros(len(starts), dtype=np.int64)
    step = np.full(len(starts), np.inf)
    for _ in range(max_iter):
        here, uphill = current[active], slope[active]
        newton = np.all(height[active] > 3.0, axis=1)
        new = _polars(uphill - 3.0 * here * newton[:, None, None])  # Eq. (2), Newton form
        new_slope = _columns(gradient, new)
        new_height = _fourth(new, new_slope)
        fell = newton & (new_height.sum(axis=1) < (1 - 1e-12) * height[active].sum(axis=1))
        if fell.any():
            new[fell] = _polars(uphill[fell])  # Eq. (2), plain form: cannot fall
            new_slope[fell] = _columns(gradient, new[fell])
            new_height[fell] = _fourth(new[fell], new_slope[fell])
        step[active] = column_steps(new, here).max(axis=1)
        n_iter[active] += 1
        current[active], slope[active], height[active] = new, new_slope, new_height
        active = active[step[active] > tol]
        if not active.size:
            break
    best = int(np.argmax(height.sum(axis=1)))
    converged = bool(step[best] <= tol)
    warned = () if converged else (not_settled("l4", float(step[best]), tol, max_iter),)
    return Rotation(polar(current[best]), int(n_iter[best]), float(step[best]), converged, warned)


def _warn_of_subgaussian(rotation: Rotation, gradient: Gradient, n_samples: int) -> Rotation:
    """Add a warning when components are sub-Gaussian, with their excess kurtosis and the remedy."""
    excess = np.sum(rotation.matrix * gradient(rotation.matrix), axis=0) - 3.0
    below = np.flatnonzero(excess < -SUBGAUSSIAN_SIGMAS * np.sqrt(24.0 / n_samples))
    if not below.size:
        return rotation
    lowest = ", ".join(f"{k:.2f}" for k in np.sort(excess[below])[:5])
    warning = UserWarning(
        f"l4 finds components of positive excess kurtosis only; {below.size} of {excess.size} here are sub-Gaussian "
        f"(excess kurtosis {lowest}) and may be mixed up. Use solver='auto', 'deflation', 'fastica' or 'picard'."
    )
    return replace(rotation, warnings=(*rotation.warnings, warning))


def _columns(gradient: Gradient, rotations: Array) -> Array:
    """Gradient at several rotations in one call. rotations : (s, r, r)."""
    s, r, _ = rotations.shape
    side_by_side = np.moveaxis(rotations, 0, 1).reshape(r, s * r)
    return np.ascontiguousarray(np.moveaxis(gradient(side_by_side).reshape(r, s, r), 1, 0))


def _fourth(rotations: Array, slopes: Array) -> Array:
    """E[(w'z)^4] of every column, (s, r)."""
    return np.asarray(np.sum(rotations * slopes, axis=1))


def _polars(matrices: Array) -> Array:
    """Polar factor of each matrix. matrices : (s, r, r)."""
    left, _, right = np.linalg.svd(matrices)
    return np.asarray(left @ right)

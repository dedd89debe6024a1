"""Eq. (2): maximise the sum of fourth powers of rotated whitened data, to convergence.

``R <- polar(E[z (R'z)^3 '])`` climbs at every step, because the objective is convex; it finds components of positive
excess kurtosis only. Where r is small it runs on the fourth moments, which one pass over the data gathers; where r is
large it runs on the data, block by block, after a warm start on a subsample. On moments, starts that converge slowly
are finished by Newton's method.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedica.arrays import Array
from fedica.ica.moments import FourthMoments, moments_if_cheaper
from fedica.ica.newton import newton_ascent
from fedica.ica.one_unit import Gradient, excess_kurtosis, follow, gradient_over
from fedica.ica.rotation import Rotation, column_steps, convergence_warning, polars, random_rotation, subsample_size
from fedica.ica.whitened import Whitened

MAX_FIXED_POINT = 30
"""A start that has not converged after this many iterations on moments goes on by Newton's method."""
SUBGAUSSIAN_SIGMAS = 2.5
"""An excess kurtosis this many times sqrt(24 r / n) below zero is significant."""


def l4(data: Whitened | FourthMoments, *, n_init: int, tol: float, max_iter: int, rng: np.random.Generator) -> Rotation:
    """Maximise sum_i E[(R'z)_i^4] over rotations R, Eq. (2). data : (n, r), white.

    Samples are read once where r <= `MAX_COMPONENTS_ON_MOMENTS`. The ``n_init`` starts run side by side; the largest
    objective wins. Where r is large they run on a subsample, and the winner goes on over all data. The result has a
    warning when components are sub-Gaussian: this objective cannot separate those.
    """
    starts = np.stack([random_rotation(data.n_components, rng) for _ in range(n_init)])
    moments = moments_if_cheaper(data)
    if moments is not None:
        gradient: Gradient = moments.gradient
        ends = ascend(gradient, starts, tol=tol, max_iter=min(MAX_FIXED_POINT, max_iter))
        ends = [
            end if end.converged or end.n_iter == max_iter else _finish(moments, end, tol=tol, max_iter=max_iter)
            for end in ends
        ]
    else:
        assert isinstance(data, Whitened)
        held, n_subsample = data.hold(), subsample_size(data.n_components)
        if data.n_samples > 4 * n_subsample:
            part = gradient_over(held.subsamples([n_subsample], rng)[0])
            starts = _highest(ascend(part, starts, tol=1e-2, max_iter=max_iter), part).matrix[None]
        gradient = gradient_over(held)
        ends = ascend(gradient, starts, tol=tol, max_iter=max_iter)
    best = _highest(ends, gradient)
    if not best.converged:
        best = replace(best, warnings=(convergence_warning("l4", best.step, tol, max_iter),))
    return _warn_of_subgaussian(best, gradient, data.n_samples)


def ascend(gradient: Gradient, starts: Array, *, tol: float, max_iter: int) -> list[Rotation]:
    """Climb the l4 objective from every start at once, by the fixed point of Eq. (2). starts : (s, r, r).

    The Newton form ``polar(G - 3R)`` has the same stationary points where all excess kurtoses are positive, and
    converges in a few steps. It is tried first; where it would lower the objective, the plain step ``polar(G)`` is
    taken instead, which never does.
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
        new = polars(uphill - 3.0 * here * newton[:, None, None])  # Eq. (2), Newton form
        new_slope = _columns(gradient, new)
        new_height = _fourth(new, new_slope)
        fell = newton & (new_height.sum(axis=1) < (1 - 1e-12) * height[active].sum(axis=1))
        if fell.any():
            new[fell] = polars(uphill[fell])  # Eq. (2), plain form: cannot fall
            new_slope[fell] = _columns(gradient, new[fell])
            new_height[fell] = _fourth(new[fell], new_slope[fell])
        step[active] = column_steps(new, here).max(axis=1)
        n_iter[active] += 1
        current[active], slope[active], height[active] = new, new_slope, new_height
        active = active[step[active] > tol]
        if not active.size:
            break
    return [
        Rotation(matrix, int(k), float(last), bool(last <= tol))
        for matrix, k, last in zip(current, n_iter, step, strict=True)
    ]


def _finish(moments: FourthMoments, slow: Rotation, *, tol: float, max_iter: int) -> Rotation:
    """Go on from where the fixed point stopped, by Newton's method, with the iterations that are left."""
    end = newton_ascent(moments, slow.matrix, tol=tol, max_iter=max_iter - slow.n_iter)
    return replace(end, n_iter=slow.n_iter + end.n_iter)


def _highest(ends: list[Rotation], gradient: Gradient) -> Rotation:
    """Return the end with the largest objective."""
    if len(ends) == 1:
        return ends[0]
    heights = _fourth(matrices := np.stack([end.matrix for end in ends]), _columns(gradient, matrices)).sum(axis=1)
    return ends[int(np.argmax(heights))]


def _warn_of_subgaussian(rotation: Rotation, gradient: Gradient, n_samples: int) -> Rotation:
    """Add a warning when there are sub-Gaussian components, with their excess kurtosis and the remedy.

    This objective mixes such components until they look Gaussian. So every column that is not clearly super-Gaussian
    is followed to the extreme of kurtosis nearest to it. Of Gaussian data the lowest excess kurtosis over all
    directions is about -2 sqrt(24 r / n); one clearly below is a sub-Gaussian component.
    """
    r = rotation.matrix.shape[0]
    chance = SUBGAUSSIAN_SIGMAS * np.sqrt(24.0 * r / n_samples)
    doubtful = rotation.matrix[:, excess_kurtosis(gradient, rotation.matrix) < chance]
    if not doubtful.size:
        return rotation
    excess = follow(gradient, doubtful, tol=1e-3, max_iter=50).excess
    below = np.sort(excess[excess < -chance])
    if not below.size:
        return rotation
    warning = UserWarning(
        f"l4 finds components of positive excess kurtosis only; {doubtful.shape[1]} of {r} here are not, and "
        f"some are sub-Gaussian (lowest excess kurtosis {below[0]:.2f}): they may be mixed up. "
        "Use solver='auto', 'deflation', 'fastica' or 'picard'."
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

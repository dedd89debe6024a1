"""Symmetric FastICA with the fourth power, for sources of either sign of excess kurtosis.

``R <- polar(E[z (R'z)^3 '] - 3R)`` is the Newton form of Eq. (2): where all excess kurtoses are positive it has the
same stationary points, and it finds negative ones too. Converged, it is scikit-learn's ``FastICA(fun="cube")``. It
needs fourth moments alone, so streams are solved by it.
"""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array
from fedica.ica.fast import NewtonRun, newton_steps
from fedica.ica.moments import FourthMoments, moments_if_cheaper
from fedica.ica.one_unit import Gradient, excess_kurtosis, gradient_over
from fedica.ica.rotation import Rotation, convergence_warning, polars, random_rotation, subsample_size
from fedica.ica.whitened import Whitened


def kurtosis(
    data: Whitened | FourthMoments, *, n_init: int, tol: float, max_iter: int, rng: np.random.Generator
) -> Rotation:
    """Find a rotation R at which the excess kurtoses of R'z are stationary, of either sign. data : (n, r), white.

    Samples are read once where r <= `MAX_COMPONENTS_ON_MOMENTS`. Of the ``n_init`` starts the largest sum of squared
    excess kurtoses is kept; where r is large they run on a subsample, and the winner goes on over all data.
    """
    starts = [random_rotation(data.n_components, rng) for _ in range(n_init)]
    moments = moments_if_cheaper(data)
    if moments is not None:
        gradient: Gradient = moments.gradient
    else:
        assert isinstance(data, Whitened)
        held, n_subsample = data.hold(), subsample_size(data.n_components)
        if data.n_samples > 4 * n_subsample:
            part = gradient_over(held.subsamples([n_subsample], rng)[0])
            starts = [_best_end(part, starts, goal=1e-2, max_iter=max_iter).matrix]
        gradient = gradient_over(held)
    best = _best_end(gradient, starts, goal=tol, max_iter=max_iter)
    converged = best.left <= tol
    warned = () if converged else (convergence_warning("kurtosis", best.left, tol, max_iter),)
    return Rotation(best.matrix, best.n_iter, best.left, converged, warned)


def _best_end(gradient: Gradient, starts: list[Array], *, goal: float, max_iter: int) -> NewtonRun:
    """Follow every start; return the end whose components are farthest from Gaussian."""

    def step_from(current: Array) -> Array:
        return polars(gradient(current) - 3.0 * current)

    ends = [newton_steps(step_from, start, goal=goal, max_iter=max_iter) for start in starts]
    if len(ends) == 1:
        return ends[0]
    return max(ends, key=lambda end: float(np.sum(excess_kurtosis(gradient, end.matrix) ** 2)))

"""Single directions of extreme kurtosis: ``q <- normalise(E[z (q'z)^3] - 3q)``, many of them side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, unit
from fedica.ica.rotation import column_steps
from fedica.ica.whitened import Whitened, cube

FULL_STEPS = 30
"""Directions that have not converged after this many full steps take shorter ones."""

Gradient = Callable[[Array], Array]
"""From directions (r, k) to E[z (w'z)^3] of each, (r, k)."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Where the directions that were followed ended."""

    directions: Array  # (r, s), unit columns
    excess: Array  # (s,), excess kurtosis of the data along each
    steps: Array  # (s,), the last change of each, in radians
    n_iter: int  # until all had converged, or the most allowed


def gradient_over(data: Whitened) -> Gradient:
    """Return E[z (w'z)^3] as one pass over the data, for any number of directions at once."""
    return lambda directions: data.expect(directions, cube)[0]


def excess_kurtosis(gradient: Gradient, directions: Array) -> Array:
    """Return E[(w'z)^4] - 3 for every unit column w. directions : (r, k) -> (k,)."""
    return np.asarray(np.sum(directions * gradient(directions), axis=0) - 3.0)


def follow(gradient: Gradient, starts: Array, *, tol: float, max_iter: int, within: Array | None = None) -> Ends:
    """Follow every start to a direction where the excess kurtosis is stationary, of either sign.

    starts : (r, s), unit columns. tol : a direction has converged when it moves by less than this angle, in radians.
    within : (r, m), orthonormal basis of a subspace that the directions stay in.
    """
    current = starts.copy()
    steps = np.full(current.shape[1], np.inf)
    active = np.arange(current.shape[1])
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        here = current[:, active]
        uphill = gradient(here)
        if within is not None:
            uphill = within @ (within.T @ uphill)
        excess = np.sum(here * uphill, axis=0) - 3.0
        tangent = uphill - here * (excess + 3.0)
        # normalise(uphill - 3 here) = normalise(here + tangent / excess): a long step where the excess is small, which
        # may cycle on few samples; directions that have not converged take shorter steps.
        least = 1e-12 if n_iter <= FULL_STEPS else min(2.0 ** (n_iter // FULL_STEPS), 4.0)
        new = unit(here + np.where(excess < 0, -1.0, 1.0) * tangent / np.maximum(np.abs(excess), least))
        steps[active] = column_steps(new, here)
        current[:, active] = new
        active = active[steps[active] > tol]
        if not active.size:
            break
    return Ends(current, excess_kurtosis(gradient, current), steps, n_iter)

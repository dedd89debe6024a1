"""The second derivative of the contrast over rotations, exact on a subsample.

In ``y -> expm(W) y`` the contrast grows to second order by half of
``sum_i s_i (E[tanh'(y_i) (W y)_i^2] + E[tanh(y_i) (W W y)_i])``. Solvers usually keep its diagonal, which is all there
is where sources are independent. Real sources are not: directions in which the curvature nearly vanishes mix many
pairs, and only the exact curvature follows them. A product with it costs two thirds of a pass over the subsample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array
from fedica.blocks import Parts, add, rows_of
from fedica.ica.contrast import Slope
from fedica.ica.rotation import antisymmetric
from fedica.ica.whitened import SINGLE_ROWS, Whitened

MIN_CURVATURE = 0.05
"""Curvatures below this count as this in the scale of steps: Laplace sources have 0.3, nearly Gaussian ones 0.01."""


class Curvature:
    """Products with the second derivative at one rotation after the other, in memory that is taken once.

    part : the subsample, in memory.
    """

    diagonal: Array
    scale: Array

    def __init__(self, part: Whitened) -> None:
        self._part, self._r = part, part.n_components
        self._held = np.empty((part.n_samples, 2 * self._r), dtype=np.float32)
        self._rows = rows_of(self._held, SINGLE_ROWS)

    def move_to(self, rotation: Array, slope: Slope) -> None:
        """Work out what products at a rotation need. slope : there, of the subsample or of all data."""
        self._signs = slope.signs
        self._signed = self._signs[:, None] * slope.correlation
        self._part.rotated(rotation, _with_derivative, out=self._held)
        squares = self._average(lambda y, derivative: derivative.T @ (y * y))
        own = self._signs[:, None] * (squares - np.diagonal(slope.correlation)[:, None])
        self.diagonal = (own + own.T) / 2.0  # of a turn in the plane of a pair of sources
        self.scale = np.maximum(np.abs(self.diagonal), MIN_CURVATURE)

    def product(self, turn: Array) -> Array:
        """Return the change of the gradient along an antisymmetric turn (r, r)."""
        to = turn.T.astype(np.float32)
        spread = self._average(lambda y, derivative: ((y @ to) * derivative).T @ y)
        bend = (turn.T @ self._signed + self._signed @ turn.T) / 2.0
        return antisymmetric(self._signs[:, None] * spread + bend)

    def _average(self, function: Any) -> Array:
        """Average function(y, tanh'(y)) (r, r) over the subsample."""
        r, n = self._r, self._rows.n_samples

        def sums_of(block: NDArray[Any]) -> Parts:
            return (np.asarray(function(block[:, :r], block[:, r:]), dtype=np.float64),)

        (total,) = self._rows.total(sums_of, merge=add, work=4.0 * r * r * n)
        return np.asarray(total / n)


def _with_derivative(y: NDArray[Any], out: NDArray[Any]) -> None:
    """Put y and tanh'(y) side by side. y : (b, r); out : (b, 2r)."""
    r = y.shape[1]
    out[:, :r] = y
    np.tanh(y, out=y)
    np.subtract(1.0, np.multiply(y, y, out=y), out=out[:, r:])

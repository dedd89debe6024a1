"""A step of Newton's method within a trust region, by conjugate gradients (Steihaug 1983)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array

FORCING = 0.3
"""The residual, relative to the gradient, at which conjugate gradients stop: exact steps do not pay early on."""
MAX_PRODUCTS = 30
"""Products with the curvature in one step."""


@dataclass(frozen=True, eq=False)
class Step:
    """A step, the change of the objective that the quadratic model promises, and whether the region cut it short."""

    turn: Array
    promised: float
    cut: bool


def steihaug(product: Callable[[Array], Array], gradient: Array, scale: Array, radius: float) -> Step:
    """Minimise ``sum(G * W) + sum(W * H W) / 2`` over W with ``sum(scale * W^2) <= radius^2``.

    product : W -> H W. scale : positive, entry by entry; also the preconditioner. A direction of negative curvature is
    followed to the edge of the region.
    """
    turn, image = np.zeros_like(gradient), np.zeros_like(gradient)
    residual = -gradient
    direction = residual / scale
    square = first = _dot(residual, direction)
    cut = False
    for _ in range(MAX_PRODUCTS):
        if square <= FORCING**2 * first:
            break
        along = product(direction)
        curved = _dot(direction, along)
        edge = _to_edge(turn, direction, scale, radius)
        cut = curved <= 0.0 or square / curved >= edge
        length = edge if cut else square / curved
        turn, image = turn + length * direction, image + length * along
        if cut:
            break
        residual = residual - length * along
        square, before = _dot(residual, residual / scale), square
        direction = residual / scale + (square / before) * direction
    return Step(turn, _dot(gradient, turn) + _dot(turn, image) / 2.0, cut)


def _to_edge(turn: Array, direction: Array, scale: Array, radius: float) -> float:
    """Return how far it is along a direction to the edge of the region."""
    a, b = _dot(scale * direction, direction), _dot(scale * turn, direction)
    c = radius**2 - _dot(scale * turn, turn)
    return float((-b + np.sqrt(max(b * b + a * c, 0.0))) / a)


def _dot(a: Array, b: Array) -> float:
    return float(np.sum(a * b))

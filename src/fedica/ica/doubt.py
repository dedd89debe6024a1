"""Pairs of components that the data does not tell apart.

Any rotation of two Gaussian sources is as good as any other, and so is nearly any of two nearly Gaussian ones: the
contrast does not curve as they turn into each other. Of n samples it does by chance: around the circle it fluctuates
as ``a cos(4 t)``, where the amplitude a has Rayleigh's law, so that at its minimum the curvature exceeds x times the
standard error of the gradient with probability ``exp(-(x / 4)^2 / 2)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array

CHANCE = 0.05
"""A pair is undetermined when Gaussian sources would show as much curvature with at least this probability."""
MAX_DEGREES = 45.0
"""Two sources are exchanged by a turn of 90 degrees, so that no turn is uncertain by more than half of it."""


@dataclass(frozen=True)
class Doubt:
    """Two components that the data does not tell apart.

    Parameters
    ----------
    pair : tuple of int
        The two components, ascending.
    degrees : float
        Standard error of the angle by which they may be turned into each other; 45 at most.
    chance : float
        Probability that two Gaussian sources would seem as different as these.
    """

    pair: tuple[int, int]
    degrees: float
    chance: float


def undetermined(excess: Array, errors: Array) -> tuple[Doubt, ...]:
    """Return the undetermined pairs, the least determined first.

    excess : (r,), how far each source is from Gaussian (`Slope`). errors : (r, r), standard errors of the entries of
    the gradient.
    """
    size = np.abs(excess)
    curvature = (size[:, None] + size) / 2.0  # of independent sources
    angle = errors / np.maximum(curvature, np.finfo(float).eps)
    chance = np.exp(-1.0 / (32.0 * np.maximum(angle, np.finfo(float).eps) ** 2))
    first, second = np.nonzero(np.triu(chance >= CHANCE, 1))
    found = [
        Doubt((int(i), int(j)), min(float(np.degrees(angle[i, j])), MAX_DEGREES), float(chance[i, j]))
        for i, j in zip(first, second, strict=True)
    ]
    return tuple(sorted(found, key=lambda doubt: -doubt.chance))

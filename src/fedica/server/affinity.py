"""Step 2: the affinity of two atoms, which does not depend on their signs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array
from fedica.threads import in_order

TILE = 512, 512
"""Rows and columns of M that are formed at a time: 1 or 2 MB for any number of atoms."""


def absolute_affinity(atoms: Array, n_components: int) -> Array:
    """Form M = sqrt(r/R) |A_c' A_c|, entrywise absolute value. atoms : (d, R), unit columns; M : (R, R)."""
    gram = atoms.T @ atoms
    np.abs(gram, out=gram)
    gram *= np.sqrt(n_components / atoms.shape[1])  # Eq. (9)
    return gram


def absolute_product(atoms: NDArray[Any], vectors: Array, n_components: int) -> Array:
    """Multiply M by vectors without ever storing M. atoms : (d, R); vectors : (R, m); result : (R, m).

    Inner products are formed in the precision of the atoms, float32 or float64.
    """
    n_atoms, (rows, columns) = atoms.shape[1], TILE
    right = vectors.astype(atoms.dtype, copy=False)

    def of_rows(start: int) -> NDArray[Any]:
        own = np.ascontiguousarray(atoms[:, start : start + rows].T)
        result = np.zeros((own.shape[0], vectors.shape[1]), dtype=atoms.dtype)
        for other in range(0, n_atoms, columns):
            tile = own @ atoms[:, other : other + columns]
            np.abs(tile, out=tile)
            result += tile @ right[other : other + columns]
        return result

    n_operations = 2.0 * n_atoms**2 * (atoms.shape[0] + vectors.shape[1])
    product = np.concatenate(list(in_order(of_rows, range(0, n_atoms, rows), work=n_operations)))
    return np.asarray(np.sqrt(n_components / n_atoms) * product, dtype=np.float64)  # Eq. (9)


def n_quadratic_features(p: int) -> int:
    """Return p(p+1)/2, the length of `quadratic_features` of a point of length p."""
    return p * (p + 1) // 2


def quadratic_features(points: Array) -> Array:
    """Map every point a to phi(a) with <phi(a), phi(b)> = <a, b>^2. points : (p, m); result : (p(p+1)/2, m).

    phi(a) holds a_i^2 and sqrt(2) a_i a_j for i < j: the entries of a a', each once.
    """
    p, m = points.shape
    return feature_scale(p)[:, None] * products_of_entries(points, np.empty((n_quadratic_features(p), m)))


def feature_scale(p: int) -> Array:
    """Factors of `products_of_entries` in phi: 1 for squares, sqrt(2) for the others. (p(p+1)/2,)."""
    i, j = np.triu_indices(p)
    return np.where(i == j, 1.0, np.sqrt(2.0))


def products_of_entries(points: Array, out: Array) -> Array:
    """Write a_i a_j for i <= j, row by row of a a', into ``out``. points : (p, m); out : (p(p+1)/2, m)."""
    p, row = points.shape[0], 0
    for i in range(p):
        np.multiply(points[i], points[i:], out=out[row : row + p - i])
        row += p - i
    return out

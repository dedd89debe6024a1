"""Step 2: how alike two atoms are, blind to their signs."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array

BLOCK = 4096
"""Atoms handled at a time: a block of features stays near the processor."""


def absolute_affinity(atoms: Array, n_components: int) -> Array:
    """Form M = sqrt(r/R) |A_c' A_c|, entrywise absolute value. atoms : (d, R), unit columns; M : (R, R)."""
    gram = atoms.T @ atoms
    np.abs(gram, out=gram)
    gram *= np.sqrt(n_components / atoms.shape[1])  # Eq. (9)
    return gram


def absolute_product(atoms: Array, vectors: Array, n_components: int) -> Array:
    """Multiply M by vectors without ever storing M. atoms : (d, R); vectors : (R, m); result : (R, m)."""
    result = np.empty_like(vectors)
    for start in range(0, atoms.shape[1], BLOCK):
        rows = atoms[:, start : start + BLOCK].T @ atoms
        np.abs(rows, out=rows)
        result[start : start + BLOCK] = rows @ vectors
    result *= np.sqrt(n_components / atoms.shape[1])  # Eq. (9)
    return result


def quadratic_features(points: Array) -> Array:
    """Map every point a to phi(a) with <phi(a), phi(b)> = <a, b>^2. points : (p, m); result : (p(p+1)/2, m).

    phi(a) holds a_i^2 and sqrt(2) a_i a_j for i < j: the entries of a a', each once.
    """
    p, m = points.shape
    features = np.empty((p * (p + 1) // 2, m))
    scaled = np.sqrt(2.0) * points
    row = 0
    for i in range(p):
        np.multiply(points[i], points[i], out=features[row])
        np.multiply(points[i], scaled[i + 1 :], out=features[row + 1 : row + p - i])
        row += p - i
    return features


def leading_directions(atoms: Array, n_directions: int) -> Array:
    """Coordinates of the atoms along the leading directions of their scatter. atoms : (d, R); result : (p, R).

    All of them when n_directions >= d: nothing is lost then.
    """
    d, n_atoms = atoms.shape
    if n_directions >= d:
        return atoms
    if d <= n_atoms:
        _, vectors = np.linalg.eigh(atoms @ atoms.T)
        return np.ascontiguousarray(vectors[:, : -n_directions - 1 : -1].T @ atoms)
    values, vectors = np.linalg.eigh(atoms.T @ atoms)  # fewer atoms than features: the smaller Gram matrix
    keep = min(n_directions, n_atoms)
    return np.asarray(np.sqrt(np.maximum(values[: -keep - 1 : -1], 0))[:, None] * vectors[:, : -keep - 1 : -1].T)

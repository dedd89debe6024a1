"""Step 3: the atoms as points in R^r, by the leading eigenvectors of the affinity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.linalg import eigh

from fedica.arrays import Array, unit
from fedica.blocks import Columns, leading_directions, leading_eigenpairs
from fedica.server.affinity import (
    absolute_affinity,
    absolute_product,
    feature_scale,
    n_quadratic_features,
    products_of_entries,
)

MAX_DENSE_ATOMS = 500
"""Up to this many atoms M is diagonalised; above, products with M, formed tile by tile, find the leading part."""
MARGIN = 10
"""Directions kept beyond r when atoms have many features: corrupted atoms must not push out a component."""
SPARE = 2
"""Vectors beyond r in the Krylov method for the absolute affinity, whose products are expensive."""
MAX_GRAM_FEATURES = 2_100
"""Up to this many quadratic features (64 directions) their Gram matrix is diagonalised; above, multiplied with."""
FEATURE_BYTES = 2**20
"""Bytes of quadratic features that are formed at a time."""
LARGE_TOL = 1e-4
"""Residual, over the largest eigenvalue, at which those products stop."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """The atoms as points, and the spectrum they come from."""

    points: Columns  # (r, R), one atom per column: Q = U_r' M = D_r U_r'
    spectrum: Array  # leading eigenvalues of M, largest first: at least r, more where they cost nothing
    residual: float  # how far each eigenvalue may be from an exact one, over the largest; 0 where M was diagonalised


def embed_absolute(atoms: Columns, n_components: int) -> Embedding:
    """Embed by the r largest eigenvalues of M = sqrt(r/R) |A_c' A_c|. atoms : (d, R), unit columns."""
    n_atoms, residual = atoms.shape[1], 0.0
    whole = atoms.whole()
    if n_atoms <= MAX_DENSE_ATOMS:
        n_kept = min(n_atoms, 2 * n_components + 5)
        M = absolute_affinity(whole, n_components)
        values, vectors = eigh(M, subset_by_index=(n_atoms - n_kept, n_atoms - 1), driver="evr")
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        start = embed_squared(atoms, n_components).points.whole().T  # spans nearly the same
        values, vectors, residual = _leading_of_absolute(whole, start, n_components)
    points = (vectors[:, :n_components] * values[:n_components]).T  # Q = D_r U_r', after Eq. (10)
    return Embedding(atoms.in_same_blocks(points), values, residual)


def _leading_of_absolute(atoms: Array, start: Array, n_components: int) -> tuple[Array, Array, float]:
    """Leading eigenpairs of M without storing it: first in float32, up to its precision, then in float64."""
    rng = np.random.default_rng(0)  # a start, not a sample: the result does not depend on it
    vectors = np.hstack([unit(start), unit(rng.standard_normal((atoms.shape[1], SPARE)))])
    for precision, tol in ((np.float32, 1e-6), (np.float64, 1e-10)):
        rounded = np.ascontiguousarray(atoms, dtype=precision)
        found = leading_eigenpairs(
            lambda v, a=rounded: absolute_product(a, v, n_components),  # type: ignore[misc]
            vectors,
            n_components,
            tol=tol,
            max_iter=8 if precision is np.float32 else 60,
        )
        vectors = found.vectors
    return found.values[: n_components + 1], vectors, found.residual


def embed_squared(atoms: Columns, n_components: int) -> Embedding:
    """Embed by the r largest eigenvalues of M = sqrt(r/R) (A_c' A_c)^2, entrywise square. atoms : (d, R), unit columns.

    M = F'F for the quadratic features F of the atoms, so its eigenvectors come from the small matrix F F': time is
    linear in R and memory is a block. The population matrix is the same Z'Z as for the absolute affinity.
    """
    points = atoms
    if atoms.shape[0] > n_components + MARGIN:
        points = leading_directions(atoms, n_components, margin=MARGIN).coordinates(atoms)
    n_atoms = points.shape[1]
    scale = np.sqrt(n_components / n_atoms)
    values, vectors, residual = _leading_of_features(points, n_components)
    spectrum = scale * np.maximum(values, 0)
    # U = F'V / sqrt(values), hence Q = D U' = scale * sqrt(values) * V'F
    leading = np.sqrt(scale * spectrum[:n_components])[:, None] * vectors[:, :n_components].T
    leading = leading * feature_scale(points.shape[0])
    embedded = points.seen(lambda block: np.hstack([leading @ f for f in _products_by_slices(block)]), n_components)
    return Embedding(embedded, spectrum[: min(n_atoms, spectrum.size)], residual)


def _leading_of_features(points: Columns, n_components: int) -> tuple[Array, Array, float]:
    """Leading eigenpairs of F F' for the quadratic features F of the points, (p, R), and their residual."""
    n_features = n_quadratic_features(points.shape[0])
    if n_features <= MAX_GRAM_FEATURES:
        values, vectors = eigh(feature_gram(points))
        return values[::-1], vectors[:, ::-1], 0.0

    scale = feature_scale(points.shape[0])[:, None]

    def product(basis: Array) -> Array:
        def of_block(block: Array) -> tuple[Array]:
            return (reduce(np.add, (f @ (f.T @ (scale * basis)) for f in _products_by_slices(block))),)

        return np.asarray(scale * points.total(of_block)[0])

    start = np.random.default_rng(0).standard_normal((n_features, n_components + MARGIN))
    found = leading_eigenpairs(product, start, n_components, tol=LARGE_TOL)
    return found.values, found.vectors, found.residual


def squared_spectrum(points: Columns) -> Array:
    """Eigenvalues of the squared affinity without its scale, largest first. points : (p, R)."""
    return np.asarray(np.maximum(eigh(feature_gram(points), eigvals_only=True)[::-1], 0))


def feature_gram(points: Columns) -> Array:
    """F F' for the quadratic features F of the points, summed over blocks: (p(p+1)/2, p(p+1)/2)."""

    def of_block(block: Array) -> tuple[Array]:
        return (reduce(np.add, (f @ f.T for f in _products_by_slices(block))),)

    scale = feature_scale(points.shape[0])
    return np.asarray(points.total(of_block)[0] * np.outer(scale, scale))


def _products_by_slices(block: Array) -> Iterator[Array]:
    """Products of the entries of a few columns at a time, in one buffer that stays in the cache."""
    n_features, n_columns = n_quadratic_features(block.shape[0]), block.shape[1]
    size = min(max(64, FEATURE_BYTES // (8 * n_features)), n_columns)
    buffer = np.empty((n_features, size))
    for start in range(0, n_columns, size):
        own = block[:, start : start + size]
        yield products_of_entries(own, buffer[:, : own.shape[1]])


EMBEDDINGS: dict[str, Callable[[Columns, int], Embedding]] = {"absolute": embed_absolute, "squared": embed_squared}

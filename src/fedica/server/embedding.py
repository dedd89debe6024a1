"""Step 3: the atoms as points in R^r, by the leading eigenvectors of the affinity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from fedica.arrays import Array
from fedica.server.affinity import (
    BLOCK,
    absolute_affinity,
    absolute_product,
    leading_directions,
    quadratic_features,
)

DENSE_EIGENPROBLEM = 500
"""Up to so many atoms all of M is reduced; above, a Krylov method finds the leading part."""
DENSE_AFFINITY = 6_000
"""Up to so many atoms M is stored (288 MB); above, products with it are formed block by block."""
MARGIN = 10
"""Directions kept beyond r when atoms have many features: corrupted atoms must not push out a component."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """The atoms as points, and what was left out.

    Parameters
    ----------
    points : ndarray of shape (R, r)
        One atom a row: the columns of Q = U_r' M = D_r U_r'.
    spectrum : ndarray
        Leading eigenvalues of M, largest first: at least r, more where they come for free.
    """

    points: Array
    spectrum: Array


def embed_absolute(atoms: Array, n_components: int) -> Embedding:
    """Embed by the r largest eigenvalues of M = sqrt(r/R) |A_c' A_c|. atoms : (d, R), unit columns."""
    n_atoms = atoms.shape[1]
    if n_atoms <= DENSE_EIGENPROBLEM:
        n_kept = min(n_atoms, 2 * n_components + 5)
        M = absolute_affinity(atoms, n_components)
        values, vectors = eigh(M, subset_by_index=(n_atoms - n_kept, n_atoms - 1), driver="evr")
    elif n_atoms <= DENSE_AFFINITY:
        M = absolute_affinity(atoms, n_components)
        values, vectors = eigsh(M, k=n_components + 1, which="LA", v0=np.ones(n_atoms))
    else:
        values, vectors = _subspace_iteration(lambda v: absolute_product(atoms, v, n_components), atoms, n_components)
    order = np.argsort(values)[::-1]
    spectrum, leading = values[order], vectors[:, order[:n_components]]
    return Embedding(leading * spectrum[:n_components], spectrum)  # Q = D_r U_r', after Eq. (10)


def embed_squared(atoms: Array, n_components: int) -> Embedding:
    """Embed by the r largest eigenvalues of M = sqrt(r/R) (A_c' A_c)^2, entrywise square. atoms : (d, R), unit columns.

    M = F'F for the quadratic features F of the atoms, so its eigenvectors come from the small matrix F F': time is
    linear in R and memory is a block. The population matrix is the same Z'Z as for the absolute affinity.
    """
    points = leading_directions(atoms, n_components + MARGIN)
    n_atoms = points.shape[1]
    blocks = [slice(start, start + BLOCK) for start in range(0, n_atoms, BLOCK)]
    scale = np.sqrt(n_components / n_atoms)
    values, vectors = eigh(_feature_gram(points))  # F F' has the eigenvalues of F'F
    spectrum = scale * np.maximum(values[::-1], 0)
    leading = np.sqrt(scale * spectrum[:n_components])[:, None] * vectors[:, : -n_components - 1 : -1].T
    embedded = np.empty((n_atoms, n_components))
    for block in blocks:  # U = F'V / sqrt(values), hence Q = D U' = scale * sqrt(values) * V'F
        embedded[block] = (leading @ quadratic_features(points[:, block])).T
    return Embedding(embedded, spectrum[: min(n_atoms, spectrum.size)])


def squared_spectrum(points: Array) -> Array:
    """Eigenvalues of the squared affinity without its scale, largest first. points : (p, R)."""
    return np.asarray(np.maximum(eigh(_feature_gram(points), eigvals_only=True)[::-1], 0))


def _feature_gram(points: Array) -> Array:
    """F F' for the quadratic features F of the points, summed over blocks: (p(p+1)/2, p(p+1)/2)."""
    gram = np.zeros((points.shape[0] * (points.shape[0] + 1) // 2,) * 2)
    for start in range(0, points.shape[1], BLOCK):
        features = quadratic_features(points[:, start : start + BLOCK])
        gram += features @ features.T
    return gram


EMBEDDINGS: dict[str, Callable[[Array, int], Embedding]] = {"absolute": embed_absolute, "squared": embed_squared}


def _subspace_iteration(product: Callable[[Array], Array], atoms: Array, n_components: int) -> tuple[Array, Array]:
    """Leading eigenpairs of a symmetric operator by block Krylov steps, each restarted from its best vectors.

    Stops when every residual ||M u - d u|| is below 1e-10 times the largest eigenvalue.
    """
    width = min(atoms.shape[1], n_components + MARGIN)
    rng = np.random.default_rng(0)  # a start, not a sample: the result does not depend on it
    basis = np.linalg.qr(rng.standard_normal((atoms.shape[1], width)))[0]
    image = product(basis)
    for _ in range(60):
        wider = np.linalg.qr(np.hstack([basis, image]))[0]
        wider_image = product(wider)
        values, coordinates = np.linalg.eigh(wider.T @ wider_image)
        keep = coordinates[:, : -width - 1 : -1]
        basis, image, ritz = wider @ keep, wider_image @ keep, values[: -width - 1 : -1]
        residual = np.linalg.norm(image - basis * ritz, axis=0)[:n_components]
        if residual.max() <= 1e-10 * ritz[0]:
            break
    return ritz[: n_components + 1], basis[:, : n_components + 1]

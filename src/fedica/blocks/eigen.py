"""Leading eigenpairs of a symmetric operator that is known by its products alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array

MAX_BLOCKS = 5
"""The subspace grows to this many times its first size, then it is restarted from its best vectors."""


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Leading eigenvalues and eigenvectors."""

    values: Array  # (m,), largest first
    vectors: Array  # (n, m), orthonormal columns
    residual: float  # largest ||M u - value u|| of the wanted pairs over the largest value: bounds the error of each


def leading_eigenpairs(
    product: Callable[[Array], Array], start: Array, n_wanted: int, *, tol: float = 1e-10, max_iter: int = 60
) -> Eigenpairs:
    """Find the largest eigenvalues of M in a block Krylov subspace that is restarted from its best vectors.

    product : M times a matrix (n, m). start : (n, width), the first subspace; one near the result saves steps, and more
    columns than are wanted speed up convergence. n_wanted : how many pairs must reach the residual tol. max_iter : the
    most steps; the residual then tells the accuracy that was reached.
    """
    n, width = start.shape
    basis = np.linalg.qr(start)[0]
    image = product(basis)
    for _ in range(max_iter):
        inside = basis.T @ image
        values, turn = np.linalg.eigh((inside + inside.T) / 2)
        ritz, turn = values[::-1], turn[:, ::-1]
        if basis.shape[1] + width > min(n, MAX_BLOCKS * width):
            ritz, turn = ritz[:width], turn[:, :width]  # restart from the best
        basis, image = basis @ turn, image @ turn
        away = image[:, :width] - basis[:, :width] * ritz[:width]
        residual = float(np.linalg.norm(away[:, :n_wanted], axis=0).max() / max(ritz[0], 1e-300))
        if residual <= tol or basis.shape[1] == n:
            break
        fresh = _orthonormal_to(basis, away[:, : n - basis.shape[1]])  # what M adds to the subspace
        basis, image = np.hstack([basis, fresh]), np.hstack([image, product(fresh)])
    return Eigenpairs(ritz[:width], basis[:, :width], residual)


def _orthonormal_to(basis: Array, columns: Array) -> Array:
    """Orthonormal columns that span what the given ones add to the basis."""
    for _ in range(2):  # twice is enough for orthogonality to rounding
        columns = columns - basis @ (basis.T @ columns)
        columns = np.linalg.qr(columns)[0]
    return columns

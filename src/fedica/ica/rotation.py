"""The result of every solver, and steps that solvers share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fedica.arrays import Array, polar
from fedica.ica.doubt import Doubt


@dataclass(frozen=True, eq=False)
class Rotation:
    """The rotation R of whitened data: the sources are ``Z @ matrix``.

    Parameters
    ----------
    matrix : ndarray of shape (r, r)
        Orthonormal columns, one per component.
    n_iter : int
        Iterations of the best run.
    step : float
        The last change of a column, up to sign, in radians.
    converged : bool
        Whether `step` is within the tolerance.
    warnings : tuple of Warning
        Warnings for the user.
    doubts : tuple of Doubt
        Pairs of components that the data does not tell apart.
    """

    matrix: Array
    n_iter: int
    step: float
    converged: bool
    warnings: tuple[Warning, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def column_steps(new: Array, old: Array) -> Array:
    """Change of each unit column, up to its sign. new, old : (..., r, m) -> (..., m)."""
    signs = np.copysign(1.0, np.einsum("...ij,...ij->...j", new, old))
    moved = new * signs[..., None, :] - old
    return np.asarray(np.sqrt(np.einsum("...ij,...ij->...j", moved, moved)))


def polars(matrices: Array) -> Array:
    """Return the nearest orthonormal matrix of each. matrices : (..., r, r)."""
    left, _, right = np.linalg.svd(matrices)
    return np.asarray(left @ right)


def antisymmetric(matrix: Array) -> Array:
    """Return the antisymmetric part."""
    return np.asarray((matrix - matrix.T) / 2.0)


def random_rotation(r: int, rng: np.random.Generator) -> Array:
    """Draw an orthonormal matrix (r, r)."""
    return polar(rng.standard_normal((r, r)))


def subsample_size(r: int) -> int:
    """Return how many samples a warm start needs, so that a few steps on all data suffice."""
    return max(2000, 50 * r)


def convergence_warning(solver: str, step: float, tol: float, max_iter: int) -> ConvergenceWarning:
    """Return a warning that an iteration did not converge, with the numbers and the remedy."""
    return ConvergenceWarning(
        f"{solver}: a column still moves by {step:.1e} radians (tol {tol:.1e}) after max_iter={max_iter} iterations; "
        "raise max_iter or tol, bring more samples, or ask for fewer components."
    )

"""A client applies the global mixing matrix: its sources, and a number that measures how independent they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import pinv

from fedica.arrays import Array, IntArray, check_atoms, check_data, check_finite_matrix, unit
from fedica.errors import DataError
from fedica.matching import match


@dataclass(frozen=True, eq=False)
class Recovered:
    """Sources that a client recovers with the global mixing matrix: ``X ~ sources @ mixing.T + mean``.

    Parameters
    ----------
    sources : ndarray of shape (n_samples, m)
        One column per component that the client has.
    mixing : ndarray of shape (d, m)
        The global columns that were used.
    components : ndarray of shape (m, d)
        The pseudo-inverse of `mixing`.
    labels : ndarray of shape (m,)
        Which global components they are, ascending.
    mean : ndarray of shape (d,)
        Subtracted from the data.
    """

    sources: Array
    mixing: Array
    components: Array
    labels: IntArray
    mean: Array


def recover(
    X: ArrayLike, mixing: ArrayLike, *, atoms: ArrayLike | None = None, mean: ArrayLike | None = None
) -> Recovered:
    """Solve ``X ~ S @ mixing.T + mean`` for the sources S by least squares.

    Parameters
    ----------
    X : array-like of shape (n_samples, d)
        The client's data.
    mixing : array-like of shape (d, r)
        The global mixing matrix. A zero column (a component whose atoms cancel) is left out.
    atoms : array-like of shape (d, r_k), optional
        The client's own atoms. Where they are fewer than r the client has only those components: each atom is matched
        to a global column, and only those columns are used.
    mean : array-like of shape (d,), optional
        Mean of the features; by default that of X.

    Returns
    -------
    recovered : Recovered
        The sources, and the part of the global matrix that they belong to.
    """
    data = check_data(X)
    matrix = check_finite_matrix(mixing, "the global mixing matrix", "(n_features, n_components)")
    if data.shape[1] != matrix.shape[0]:
        raise DataError(
            f"data has {data.shape[1]} features; the global mixing matrix has {matrix.shape[0]}. "
            "Give the features of the study, in its order."
        )
    labels = np.flatnonzero(np.linalg.norm(matrix, axis=0) > 1e-12)
    if not labels.size:
        raise DataError("the global mixing matrix is zero in every column; nothing can be recovered with it.")
    if atoms is not None:
        own = check_atoms(atoms, "the client's own atoms")
        if own.shape[0] != matrix.shape[0]:
            raise DataError(
                f"the client's own atoms have {own.shape[0]} features; the global mixing matrix has {matrix.shape[0]}."
            )
        if own.shape[1] < labels.size:
            labels = np.sort(labels[match(own, unit(matrix[:, labels])).labels])
    centre = data.mean(axis=0) if mean is None else check_mean(mean, data.shape[1])
    used = matrix[:, labels]
    components = np.asarray(pinv(used), dtype=np.float64)
    return Recovered((data - centre) @ components.T, used, components, labels, centre)


def cross_cumulants(S: ArrayLike) -> float:
    """Mean squared fourth-order cross-cumulant of pairs of sources, scaled to variance one: zero if independent.

    For every pair i != j: cum(i, i, j, j) = E[s_i^2 s_j^2] - 1 - 2 c_ij^2 and cum(i, i, i, j) = E[s_i^3 s_j] - 3 c_ij,
    with c_ij their correlation. In a linear mixture, sources that are independent in pairs are independent.

    Parameters
    ----------
    S : array-like of shape (n_samples, r)
        Sources, r >= 2. Sources that the fit did not see give an honest number.

    Returns
    -------
    mean_square : float
        The smaller, the more independent.
    """
    sources = check_data(S, "sources")
    n, r = sources.shape
    if r < 2:
        raise DataError("cross-cumulants need at least two sources; got one.")
    centred = sources - sources.mean(axis=0)
    deviations = np.sqrt(np.mean(centred**2, axis=0))
    if np.any(deviations <= 1e-12 * np.abs(sources).max()):
        raise DataError(f"source {int(np.argmin(deviations))} is constant; its cumulants mean nothing. Leave it out.")
    s = centred / deviations
    squares = s * s
    correlation = s.T @ s / n
    two_two = squares.T @ squares / n - 1.0 - 2.0 * correlation**2
    three_one = (squares * s).T @ s / n - 3.0 * correlation
    pairs = ~np.eye(r, dtype=np.bool_)
    return float(np.mean(np.concatenate([two_two[pairs] ** 2, three_one[pairs] ** 2])))


def check_mean(mean: ArrayLike, d: int) -> Array:
    """Return the mean of d features as an array."""
    values = np.asarray(mean, dtype=np.float64)
    if values.shape != (d,) or not np.isfinite(values).all():
        raise DataError(f"mean must be {d} finite numbers, one per feature; got shape {values.shape}.")
    return values

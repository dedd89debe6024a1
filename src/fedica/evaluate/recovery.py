"""Errors of an estimated mixing matrix, whose columns are known only up to order and sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import pinv

from fedica.arrays import Array, IntArray, check_finite_matrix, readonly, unit_of_any_scale
from fedica.errors import InputError
from fedica.matching import match


@dataclass(frozen=True, eq=False)
class RecoveryError:
    """The error of an estimate, and the signed permutation that minimises it.

    ``estimate[:, permutation] * signs`` is compared with ``truth``, both with columns of norm one.

    Parameters
    ----------
    frobenius : float
        The paper's error: the Frobenius norm of the difference, smallest over signed permutations.
    relative : float
        ``frobenius / sqrt(r)``: the root mean square error of a column; what the paper's figure shows.
    per_component : ndarray of shape (r,)
        Norm of the difference of each true column.
    permutation : ndarray of shape (r,)
        The column of the estimate matched to each true column.
    signs : ndarray of shape (r,)
        +1 or -1, for that column of the estimate.
    """

    frobenius: float
    relative: float
    per_component: Array
    permutation: IntArray
    signs: Array


def recovery_error(estimate: object, truth: object) -> RecoveryError:
    """Minimise ||estimate P - truth||_F over signed permutations P, with the columns of both scaled to unit norm.

    For unit columns ||a - s b||^2 = 2 - 2 s <a, b>, so the minimum is the signed linear assignment that maximises the
    sum of absolute cosines; it is solved exactly.

    Parameters
    ----------
    estimate : array-like of shape (d, r)
        The estimated mixing matrix. A column of norm near zero is not scaled; its error is one.
    truth : array-like of shape (d, r)
        The true mixing matrix.

    Returns
    -------
    RecoveryError
        The error, overall and by component, and the signed permutation.
    """
    found, true = _pair(estimate, truth)
    matched = match(found, true)
    permutation = np.argsort(matched.labels)
    signs = matched.signs[permutation]
    per_component = np.linalg.norm(found[:, permutation] * signs - true, axis=0)
    frobenius = float(np.linalg.norm(per_component))
    arrays = map(readonly, (per_component, permutation, signs))
    return RecoveryError(frobenius, frobenius / np.sqrt(true.shape[1]), *arrays)


def amari_distance(estimate: object, truth: object) -> float:
    """Amari distance of two mixing matrices: 0 if equal up to order, sign and scale of the columns; at most 1.

    With P = |pinv(estimate) truth|, the mean over its rows and columns of (sum / max - 1) / (r - 1). It compares the
    sources that the matrices give, so a near-singular estimate has a large distance even if each column is accurate.

    Parameters
    ----------
    estimate, truth : array-like of shape (d, r)
        Mixing matrices.

    Returns
    -------
    float
        The distance. A zero row or column of P counts as 1.
    """
    found, true = _pair(estimate, truth)
    r = true.shape[1]
    if r == 1:
        return 0.0
    gain = np.abs(pinv(found) @ true)
    return float(np.mean([_leakage(gain).mean(), _leakage(gain.T).mean()]) / (r - 1))


def _leakage(gain: Array) -> Array:
    """(sum / max - 1) of every row; r - 1 for a row of zeros."""
    peak = gain.max(axis=1)
    zero = peak < 1e-12
    leakage = gain.sum(axis=1) / np.where(zero, 1.0, peak) - 1.0
    return np.asarray(np.where(zero, gain.shape[1] - 1.0, leakage), dtype=np.float64)


def _pair(estimate: object, truth: object) -> tuple[Array, Array]:
    found = check_finite_matrix(estimate, "the estimated mixing matrix", "(n_features, n_components)")
    true = check_finite_matrix(truth, "the true mixing matrix", "(n_features, n_components)")
    if found.shape != true.shape:
        raise InputError(
            f"the estimate must have the shape of the truth, {true.shape}; got {found.shape}. "
            "Compare matrices with the same features and number of components."
        )
    return unit_of_any_scale(found), unit_of_any_scale(true)

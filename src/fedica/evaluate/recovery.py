"""How far an estimated mixing matrix is from the truth, when columns are known up to order and sign only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import pinv

from fedica.arrays import Array, IntArray, check_finite_matrix, readonly, unit
from fedica.errors import InputError
from fedica.matching import match


@dataclass(frozen=True, eq=False)
class RecoveryError:
    """The error of an estimate, and the signed permutation that makes it smallest.

    ``unit(estimate)[:, permutation] * signs`` is what is compared with ``unit(truth)``.

    Parameters
    ----------
    frobenius : float
        The paper's error: the Frobenius norm of the difference, smallest over signed permutations.
    relative : float
        ``frobenius / sqrt(r)``: the root mean square error of a column; what the paper's figure shows.
    per_component : ndarray of shape (r,)
        Norm of the difference of each true column.
    permutation : ndarray of shape (r,)
        The column of the estimate that belongs to each true column.
    signs : ndarray of shape (r,)
        +1 or -1, for that column of the estimate.
    """

    frobenius: float
    relative: float
    per_component: Array
    permutation: IntArray
    signs: Array

    def __post_init__(self) -> None:
        for name in ("per_component", "permutation", "signs"):
            object.__setattr__(self, name, readonly(getattr(self, name)))


def recovery_error(estimate: object, truth: object) -> RecoveryError:
    """Minimise ||estimate P - truth||_F over signed permutations P, columns on both sides scaled to one.

    For unit columns ||a - s b||^2 = 2 - 2 s <a, b>, so the minimum is the signed linear assignment that maximises the
    sum of absolute cosines: exact, not greedy.

    Parameters
    ----------
    estimate : array-like of shape (d, r)
        The estimated mixing matrix. A column of norm near zero stays as it is; its error is then one.
    truth : array-like of shape (d, r)
        The true mixing matrix.

    Returns
    -------
    RecoveryError
        The error, as a whole and by component, and the signed permutation.
    """
    found, true = _pair(estimate, truth)
    matched = match(found, true)
    permutation = np.argsort(matched.labels)
    signs = matched.signs[permutation]
    per_component = np.linalg.norm(found[:, permutation] * signs - true, axis=0)
    frobenius = float(np.linalg.norm(per_component))
    return RecoveryError(frobenius, frobenius / np.sqrt(true.shape[1]), per_component, permutation, signs)


def amari_distance(estimate: object, truth: object) -> float:
    """Amari's distance of two mixing matrices: 0 if equal up to order, sign and scale of the columns, at most 1.

    With P = |pinv(estimate) truth|, the mean over its rows and its columns of (sum / max - 1) / (r - 1). It sees the
    matrices through the sources they give, so a near-singular estimate is far even when each column is near.

    Parameters
    ----------
    estimate, truth : array-like of shape (d, r)
        Mixing matrices.

    Returns
    -------
    float
        The distance. A row or column of P that is zero counts as the worst there is.
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
            f"the estimate must have the shape of the truth, {true.shape}; {found.shape} came. "
            "Compare matrices of as many features and components."
        )
    return unit(found), unit(true)

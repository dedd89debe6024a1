"""Atoms in the wrong group, when groups are known only up to their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from fedica.arrays import Array, BoolArray, IntArray, check_int, readonly
from fedica.errors import InputError


@dataclass(frozen=True, eq=False)
class Misclustering:
    """Shares of atoms in the wrong group, under the relabelling that minimises them.

    Parameters
    ----------
    rates : ndarray of shape (r,)
        s_a of Eq. (18): of the atoms that truly belong to component a, the share in other groups. Zero for a component
        without atoms.
    overall : float
        Share of all atoms in the wrong group, Eq. (17).
    relabelling : ndarray of shape (m,)
        pi of the paper: the true component of each group; -1 for a group without one.
    wrong : ndarray of shape (R,)
        Whether each atom is in the wrong group; False for atoms that belong to no component.
    """

    rates: Array
    overall: float
    relabelling: IntArray
    wrong: BoolArray


def misclustering(labels: object, truth: object, n_components: int | None = None) -> Misclustering:
    """Minimise over relabellings the number of atoms whose group is not their true component.

    Parameters
    ----------
    labels : array-like of int, shape (R,)
        Group of each atom; -1: none, which counts as wrong.
    truth : array-like of int, shape (R,)
        True component of each atom; -1: none (an attacker's atom), which is not counted.
    n_components : int, optional
        r; by default one more than the largest true label.

    Returns
    -------
    Misclustering
        By component, overall, and atom by atom.
    """
    found, true = _check_labels(labels, "labels"), _check_labels(truth, "true labels")
    if found.shape != true.shape:
        raise InputError(f"labels and true labels must have the same length; got {found.size} and {true.size}.")
    largest = int(true.max(initial=-1))
    r = check_int(max(largest + 1, 1) if n_components is None else n_components, "n_components", minimum=1)
    if largest >= r:
        raise InputError(f"true labels must be below n_components = {r}; got {largest}.")

    n_groups = int(found.max(initial=-1)) + 1
    counted = true >= 0
    table = np.zeros((n_groups, r), dtype=np.int64)
    both = counted & (found >= 0)
    np.add.at(table, (found[both], true[both]), 1)
    groups, components = linear_sum_assignment(table, maximize=True)
    relabelling = np.full(n_groups, -1, dtype=np.int64)
    relabelling[groups] = components

    meant = np.where(found >= 0, np.append(relabelling, -1)[found], -1)  # the appended -1 is the group of label -1
    wrong = counted & (meant != true)
    sizes = np.bincount(true[counted], minlength=r)
    rates = np.bincount(true[wrong], minlength=r) / np.maximum(sizes, 1)  # Eq. (18)
    overall = float(wrong.sum() / max(counted.sum(), 1))  # Eq. (17)
    return Misclustering(readonly(rates), overall, readonly(relabelling), readonly(wrong))


def _check_labels(values: object, what: str) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise InputError(f"{what} must be integers in one dimension; got {array.dtype} of shape {array.shape}.")
    if array.size and array.min() < -1:
        raise InputError(f"{what} must be -1 (none) or more; got {array.min()}.")
    return array.astype(np.int64)

"""Signed linear assignment of one set of atoms to another, alone or for many clients at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from fedica.arrays import Array, IntArray


@dataclass(frozen=True, eq=False)
class Match:
    """Which reference column each atom belongs to.

    Parameters
    ----------
    labels : ndarray of shape (m,)
        Column of the reference for each atom; -1 for an atom without one, where there are more atoms than columns.
    signs : ndarray of shape (m,)
        +1 or -1, so that ``atoms * signs`` points along ``reference[:, labels]``; +1 where the label is -1.
    cosines : ndarray of shape (m,)
        Absolute cosine of each atom to its column; 0 where the label is -1.
    """

    labels: IntArray
    signs: Array
    cosines: Array


def match(atoms: Array, reference: Array) -> Match:
    """Maximise the sum of |cos| between atoms and distinct columns of the reference.

    atoms : (d, m) and reference : (d, r), unit columns. An atom gets at most one column, a column at most one atom.
    """
    return match_clients(atoms, np.zeros(atoms.shape[1], dtype=np.int64), reference)


def match_clients(atoms: Array, client_of_atom: IntArray, reference: Array) -> Match:
    """Match the atoms of every client to the reference separately: a column gets at most one atom of each client.

    atoms : (d, R), unit columns; client_of_atom : (R,), sorted, so that a client's atoms lie side by side;
    reference : (d, r).
    """
    return match_similarity(atoms.T @ reference, client_of_atom)


def match_similarity(similarity: Array, client_of_atom: IntArray) -> Match:
    """Match from signed similarities. similarity : (R, r); client_of_atom : (R,), sorted.

    Where the atoms of a client are most similar to distinct columns, these are the optimum; only clients whose atoms
    compete for a column need a linear assignment.
    """
    n_atoms, n_columns = similarity.shape
    strength = np.abs(similarity)
    labels = np.argmax(strength, axis=1).astype(np.int64)

    slot = client_of_atom * n_columns + labels
    taken = np.bincount(slot)
    contested = np.unique(client_of_atom[taken[slot] > 1])
    first = np.searchsorted(client_of_atom, contested, side="left")
    last = np.searchsorted(client_of_atom, contested, side="right")
    for start, stop in zip(first, last, strict=True):
        own, column = linear_sum_assignment(strength[start:stop], maximize=True)
        labels[start:stop] = -1
        labels[start + own] = column

    found = labels >= 0
    cosine = np.where(found, similarity[np.arange(n_atoms), labels], 0.0)
    return Match(labels, np.where(cosine < 0, -1.0, 1.0), np.abs(cosine))

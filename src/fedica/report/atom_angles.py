"""The angle of every atom to its component, in a column per component and at a place of its own per client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.records import Aggregate
from fedica.report.agreement import atoms_per_client, trust_of, worst_first

MAX_ATOMS = 8000
"""More points than this cannot be told apart, and are slow to draw."""
COLUMN_WIDTH = 0.8
"""Width of a column of points; columns are one apart."""


@dataclass(frozen=True, eq=False)
class AtomAngles:
    """Angles of atoms, and where the points stand.

    All atoms are shown, or those of as many clients as fit, taken in turns from the order of concern and at regular
    steps.
    """

    shown: IntArray  # (n,), indices of the atoms shown
    x: Array  # (n,), near the number of their component; near r for atoms of none
    angles: Array  # (n,), angle of each to its component, or to the nearest, in degrees
    nearest: IntArray  # (n,), that component


def angles_of_atoms(aggregate: Aggregate, *, most: int = MAX_ATOMS) -> AtomAngles:
    """Measure the angles of atoms to their components; a client has the same place in every column."""
    shown = _whole_clients(aggregate, most)
    cosines = np.minimum(np.abs(aggregate.mixing.T @ aggregate.atoms[:, shown]), 1.0)  # (r, n)
    label = aggregate.labels[shown]
    nearest = np.where(label >= 0, label, cosines.argmax(axis=0))
    column = np.where(label >= 0, label, aggregate.n_components)
    place = (aggregate.client_of_atom[shown] + 0.5) / len(aggregate.clients) - 0.5
    angles = np.degrees(np.arccos(cosines[nearest, np.arange(shown.size)]))
    return AtomAngles(shown, column + COLUMN_WIDTH * place, angles, nearest.astype(np.int64))


def _whole_clients(aggregate: Aggregate, most: int) -> IntArray:
    """Return the indices of the atoms of as many clients as fit; at least one client.

    Alternates between the next client in the order of concern and clients at regular steps.
    """
    if aggregate.labels.size <= most:
        return np.arange(aggregate.labels.size)
    n_clients = len(aggregate.clients)
    regular = np.argsort(np.arange(n_clients) * 0.6180339887498949 % 1.0)  # golden ratio: every prefix is spread evenly
    turns = np.stack([worst_first(trust_of(aggregate)), regular], axis=1).ravel()
    order = turns[np.sort(np.unique(turns, return_index=True)[1])]
    fits = max(int(np.searchsorted(np.cumsum(atoms_per_client(aggregate)[order]), most, side="right")), 1)
    return np.flatnonzero(np.isin(aggregate.client_of_atom, order[:fits]))

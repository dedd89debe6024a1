"""A two-dimensional map of all atoms in which nearness to a component's mark means a small angle to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.records import Aggregate
from fedica.report.agreement import atoms_per_client, trust_of, worst_first

MAX_ATOMS = 8000
"""More points than this cannot be told apart, and are slow to draw."""
CENTRE_ANGLE = 45.0
"""Degrees at which the middle attracts an atom as strongly as its component does."""
POWER = 4
"""Weights are 1 / angle^4: large enough that an atom with an ordinary error stays at its mark among many others."""
CLOUD_ANGLE = 20.0
"""Degrees at the rim of the cloud around a component's mark."""


@dataclass(frozen=True, eq=False)
class AtomMap:
    """Positions of atoms and components.

    All atoms are shown, or those of as many clients as fit, taken in turns from the order of concern and at regular
    steps.
    """

    shown: IntArray  # (n,), indices of the atoms shown
    places: Array  # (n, 2), their positions
    angles: Array  # (n,), angle of each to the nearest component, in degrees
    nearest: IntArray  # (n,), that component
    marks: Array  # (r, 2), positions of the components, on the unit circle


def map_atoms(aggregate: Aggregate, *, most: int = MAX_ATOMS) -> AtomMap:
    """Place every atom between the marks of the components by its angles to them.

    Components lie on a circle. An atom is the mean of the marks with weights 1 / angle^4, and of the middle with a
    constant weight: it lies on the mark of a component that it equals, between two that it mixes, and in the middle
    when it is near none. Around a mark the atoms form a cloud: the direction shows how they differ from the component
    (their two main directions), the radius is the angle, up to 20 degrees. Time is linear in the number of atoms.
    """
    shown = _whole_clients(aggregate, most)
    r = aggregate.n_components
    turn = np.pi / 2 - 2 * np.pi * np.arange(r) / r
    marks = np.column_stack([np.cos(turn), np.sin(turn)])

    atoms = aggregate.atoms[:, shown]
    cosines = aggregate.mixing.T @ atoms  # (r, n)
    angles = np.degrees(np.arccos(np.minimum(np.abs(cosines), 1.0)))
    weights = 1 / np.maximum(angles, 1e-2) ** POWER
    places = (weights.T @ marks) / (weights.sum(axis=0) + CENTRE_ANGLE**-POWER)[:, None]

    label = aggregate.labels[shown]
    nearest = np.where(label >= 0, label, angles.argmin(axis=0))
    angle = angles[nearest, np.arange(shown.size)]
    room = 0.45 * min(2 * np.sin(np.pi / max(r, 2)), 0.7)  # just under half the distance to the next mark
    for a in range(r):
        mine = np.flatnonzero(nearest == a)
        if mine.size:
            signed = atoms[:, mine] * np.where(cosines[a, mine] < 0, -1.0, 1.0)
            away = _main_directions(signed - np.outer(aggregate.mixing[:, a], np.abs(cosines[a, mine])))
            places[mine] += away * (room * np.minimum(angle[mine], CLOUD_ANGLE) / CLOUD_ANGLE)[:, None]
    return AtomMap(shown, places, angle, nearest.astype(np.int64), marks)


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


def _main_directions(differences: Array) -> Array:
    """Return unit directions in the plane of the two leading singular vectors of the differences (d, n): (n, 2)."""
    gram = differences @ differences.T if differences.shape[0] <= differences.shape[1] else None
    if gram is not None:
        plane = np.linalg.eigh(gram)[1][:, ::-1][:, :2]
        flat = differences.T @ plane
    else:
        values, vectors = np.linalg.eigh(differences.T @ differences)
        flat = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :2]
    if flat.shape[1] < 2:
        flat = np.column_stack([flat, np.zeros(flat.shape[0])])
    pivot = np.abs(flat).argmax(axis=0)
    flat = flat * np.where(flat[pivot, [0, 1]] < 0, -1.0, 1.0)  # fixes the sign, so that the picture is reproducible
    length = np.linalg.norm(flat, axis=1, keepdims=True)
    return np.asarray(flat / np.where(length > 0, length, 1.0))

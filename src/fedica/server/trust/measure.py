"""Clients measured against the components: distances, matches, likeness and copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import polygamma

from fedica.arrays import Array, BoolArray, IntArray
from fedica.blocks import group_medians
from fedica.server.admission import Admitted
from fedica.server.agreement import (
    angles_to,
    client_distances,
    duplicate_weights,
    efficient_deviation,
    matched_atoms,
    normal_deviation,
    radius_of,
    robust_deviation,
)
from fedica.server.assign import MAX_DISTANCE, Assignment
from fedica.server.trust.likeness import Chance, client_likeness

ALLOWED = 1.0
"""Noise that others have too: atoms of a noisier client may be farther from their components by so many deviations."""

IN_DOUBT = 3.0
"""Clients farther than this many robust deviations do not tell how far clients usually are."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Clients against components: K clients, R atoms, r components. Angles are in degrees.

    Parameters
    ----------
    distance : ndarray of shape (K,)
        How far each client is from the components: `client_distances`.
    radius : float
        The typical distance.
    n_atoms, n_unmatched, n_copies : ndarray of shape (K,)
        Atoms sent; atoms that match no component; clients that sent the same atoms, itself included.
    n_matched, n_possible : ndarray of shape (K,)
        Components that it matches; that it could match with so many atoms.
    has_allowing : ndarray of shape (K, r)
        Components that it matches if the noise is allowed for that it may have as others have theirs.
    deviation : ndarray of shape (K,)
        By how much the logarithm of the squared distance differs between clients that are alike.
    chance : Chance
        Likeness by chance.
    likeness, n_given : ndarray of shape (K,)
        Mean cosine of the atoms that are given to components, and how many they are.
    within : float
        Deviation of cosines between the atoms of one client.
    angle_of_atom : ndarray of shape (R,)
        Angle of each atom to its component; 90 if it has none.
    angle, angles, has
        As in `Trust`.
    """

    distance: Array
    radius: float
    n_atoms: IntArray
    n_unmatched: IntArray
    n_copies: IntArray
    n_matched: IntArray
    n_possible: IntArray
    has_allowing: BoolArray
    deviation: Array
    chance: Chance
    likeness: Array
    n_given: IntArray
    within: float
    angle_of_atom: Array
    angle: Array
    angles: Array
    has: BoolArray


def measure(admitted: Admitted, mixing: Array, weights: Array, assignment: Assignment, chance: Chance) -> Measured:
    """Measure every client. mixing : (d, r), unit columns; weights : (R,), how much each atom counted."""
    owner, n_clients, r = admitted.client_of_atom, len(admitted.clients), mixing.shape[1]
    duplicates = duplicate_weights(admitted.atoms, owner, assignment, r)
    distance = client_distances(assignment, owner, n_clients)
    n_atoms = np.bincount(owner, minlength=n_clients)
    radius, deviation = radius_of(distance, duplicates), deviations(distance, n_atoms, r)
    allowed = np.clip(distance / radius, 1.0, np.exp(ALLOWED * _lower_deviation(distance) / 2))
    matched = matched_atoms(assignment, weights, r)
    matched_allowing = matched_atoms(assignment, weights, r, allowed[owner])
    angle_of_atom = angles_to(admitted.atoms, mixing, assignment.labels)
    angles, has = np.full((n_clients, r), 90.0), np.zeros((n_clients, r), dtype=np.bool_)
    has_allowing = np.zeros_like(has)
    known = np.flatnonzero(assignment.labels >= 0)
    angles[owner[known], assignment.labels[known]] = angle_of_atom[known]
    has[owner[matched], assignment.labels[matched]] = True
    has_allowing[owner[matched_allowing], assignment.labels[matched_allowing]] = True
    likeness, n_given = client_likeness(angle_of_atom, assignment.labels, owner, n_clients)
    return Measured(
        distance=distance,
        radius=radius,
        n_atoms=n_atoms,
        n_matched=has.sum(axis=1),
        n_possible=np.minimum(n_atoms, r),
        has_allowing=has_allowing,
        deviation=deviation,
        chance=chance,
        likeness=likeness,
        n_given=n_given,
        within=_within(np.cos(np.radians(angle_of_atom[known])), owner[known], assignment.labels[known], likeness, r),
        n_unmatched=np.bincount(owner, weights=~matched, minlength=n_clients).astype(np.int64),
        n_copies=np.round(1 / duplicates).astype(np.int64),
        angle_of_atom=angle_of_atom,
        angle=group_medians(angle_of_atom, np.where(assignment.labels >= 0, owner, -1), n_clients, empty=90.0),
        angles=angles,
        has=has,
    )


def deviations(distance: Array, n_atoms: IntArray, n_components: int) -> Array:
    """Deviation of the logarithm of a squared distance: that among clients, at least what a median of n_k atoms has.

    Clients in doubt are left out, so that those that remain may be told by a deviation that varies less.
    """
    log = _log_squares(distance)
    in_doubt = log > np.median(log) + IN_DOUBT * robust_deviation(log)
    among_clients = efficient_deviation(log[~in_doubt])
    of_medians = np.pi / 2 * float(polygamma(1, max(n_components - 1, 1) / 2)) / np.maximum(n_atoms, 1)
    return np.maximum(among_clients, np.sqrt(of_medians))


def _within(cosines: Array, client: IntArray, component: IntArray, likeness: Array, n_components: int) -> float:
    """Deviation of the cosines of one client's atoms, (n,), beside what each component has at all clients."""
    rest = cosines - likeness[client]
    rest -= group_medians(rest, component, n_components, empty=0.0)[component]
    lost = min((likeness.size + n_components - 1) / max(rest.size, 1), 0.7)  # of the freedom, by the two means
    return normal_deviation(rest, centre=0.0) / float(np.sqrt(1 - lost))


def _lower_deviation(distance: Array) -> float:
    """Deviation of the logarithm of a squared distance, as told by the nearer half of the clients: the bad are far."""
    log = _log_squares(distance)
    usual = float(np.median(log))
    return normal_deviation(log[log <= usual], centre=usual)


def _log_squares(distance: Array) -> Array:
    return np.asarray(np.log(np.clip(distance, 1e-9, MAX_DISTANCE) ** 2))

"""The verdict on every client, with its reason as a kind and numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray, unit
from fedica.blocks import Columns, columns_of, group_medians
from fedica.records import Reason, Trust
from fedica.records.reasons import Numbers
from fedica.server.admit import Admitted
from fedica.server.agreement import (
    angles_to,
    client_cut,
    client_distances,
    duplicate_weights,
    matched_atoms,
    radius_of,
)
from fedica.server.assign import Assignment, assign_atoms

CLOSE = float(np.tan(np.radians(5.0)))
"""A client whose atoms are within 5 degrees is never outlying, however closely the others agree."""
OUTLYING_CUT = 2.2
"""A client farther than 2.2 radii is outlying, unless its samples explain it."""
FEW_SAMPLES = 1.5
"""Few samples: n_samples predicts an error above 1.5 radii."""
SAMPLES_SLACK = 3.0
"""Few samples explain up to 3 times the error that they predict."""
SAMPLES_NEEDED = 40.0
"""Below 40 r^2 samples a local ICA may find anything: theory asks for r^2 at least."""
CLIENTS_AT_ONCE = 50_000
"""Clients whose influence is worked out in one pass."""
MAX_COMPARED = 60
"""Outlying clients that are searched for agreement among themselves."""


@dataclass(frozen=True, eq=False)
class _Measured:
    """Clients against components: K clients, R atoms, r components. Angles are in degrees.

    Parameters
    ----------
    distance : ndarray of shape (K,)
        How far each client is from the components: `client_distances`.
    radius : float
        The typical distance.
    n_atoms, n_unmatched, n_copies : ndarray of shape (K,)
        Atoms sent; atoms that match no component; clients that sent the same atoms, itself included.
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
    angle_of_atom: Array
    angle: Array
    angles: Array
    has: BoolArray


@dataclass(frozen=True, eq=False)
class _Judged:
    """For each client: whether it is outlying, whether it is weak, and whether it has few samples. (K,) each."""

    outlying: BoolArray
    weak: BoolArray
    few_samples: BoolArray


def assess(admitted: Admitted, centres: Array, weights: Array, assignment: Assignment) -> Trust:
    """Judge every client against the components.

    Parameters
    ----------
    admitted : Admitted
        All atoms.
    centres : ndarray of shape (d, r)
        Raw centres of the components.
    weights : ndarray of shape (R,)
        How much each atom counted in its centre.
    assignment : Assignment
        The atoms against these components.

    Returns
    -------
    Trust
        A verdict and its reason for each client.
    """
    measured = _measure(admitted, unit(centres), weights, assignment)
    judged = _judge(measured, admitted.n_samples)
    verdict = np.where(judged.outlying, "outlying", np.where(judged.weak, "weak", "trusted"))
    owner, norms = admitted.client_of_atom, np.linalg.norm(centres, axis=0)
    return Trust(
        clients=admitted.clients,
        verdict=tuple(verdict.tolist()),
        why=_reasons(admitted, measured, judged),
        angle=measured.angle,
        angles=measured.angles,
        has=measured.has,
        n_unmatched=measured.n_unmatched,
        influence=_influence(assignment, measured.angle_of_atom, weights, norms, owner, len(admitted.clients)),
    )


def _measure(admitted: Admitted, mixing: Array, weights: Array, assignment: Assignment) -> _Measured:
    owner, n_clients, r = admitted.client_of_atom, len(admitted.clients), mixing.shape[1]
    duplicates = duplicate_weights(admitted.atoms, owner, assignment, r)
    distance = client_distances(assignment, owner, n_clients)
    matched = matched_atoms(assignment, weights, r)
    angle_of_atom = angles_to(admitted.atoms, mixing, assignment.labels)
    angles, has = np.full((n_clients, r), 90.0), np.zeros((n_clients, r), dtype=np.bool_)
    known = np.flatnonzero(assignment.labels >= 0)
    angles[owner[known], assignment.labels[known]] = angle_of_atom[known]
    has[owner[matched], assignment.labels[matched]] = True
    return _Measured(
        distance=distance,
        radius=radius_of(distance, duplicates),
        n_atoms=np.bincount(owner, minlength=n_clients),
        n_unmatched=np.bincount(owner, weights=~matched, minlength=n_clients).astype(np.int64),
        n_copies=np.round(1 / duplicates).astype(np.int64),
        angle_of_atom=angle_of_atom,
        angle=group_medians(angle_of_atom, np.where(assignment.labels >= 0, owner, -1), n_clients, empty=90.0),
        angles=angles,
        has=has,
    )


def _judge(measured: _Measured, n_samples: IntArray) -> _Judged:
    distance, radius, r = measured.distance, measured.radius, measured.has.shape[1]
    expected = radius * _expected_excess(n_samples, distance, radius)
    far = (distance > np.maximum(OUTLYING_CUT, client_cut(r)) * radius) & (distance > CLOSE)
    few = expected > FEW_SAMPLES * radius
    explained = few & ((distance <= SAMPLES_SLACK * expected) | (n_samples < SAMPLES_NEEDED * r**2))
    surplus = np.maximum(0, measured.n_atoms - r)  # with more atoms than components, the surplus may be unmatched
    doubtful = far | (measured.n_unmatched > surplus)
    outlying = doubtful & ~explained
    noisy = distance > client_cut(r) * radius
    return _Judged(outlying, (noisy | doubtful) & ~outlying, few)


def _expected_excess(n_samples: IntArray, distance: Array, radius: float) -> Array:
    """Error that declared samples predict, in radii: sqrt(n_typical / n), at least one."""
    typical = n_samples[(distance <= radius) & (n_samples > 0)]
    if typical.size == 0:
        return np.ones(n_samples.size)
    ratio = np.median(typical) / np.maximum(n_samples, 1)
    return np.asarray(np.where(n_samples > 0, np.sqrt(np.maximum(ratio, 1.0)), 1.0))


def _reasons(admitted: Admitted, measured: _Measured, judged: _Judged) -> tuple[Reason, ...]:
    """Return the reason for each verdict; most clients simply agree."""
    outlying, unmatched, copied = judged.outlying, measured.n_unmatched > 0, measured.n_copies > 1
    agreeing = _agreeing_outliers(admitted.atoms, admitted.client_of_atom, np.flatnonzero(outlying), measured.distance)
    why = [Reason("agrees", {"angle": angle}) for angle in measured.angle.tolist()]
    for k in np.flatnonzero(outlying | judged.weak | unmatched | copied | ~measured.has.all(axis=1)).tolist():
        numbers = {
            "angle": float(measured.angle[k]),
            "n_atoms": int(measured.n_atoms[k]),
            "n_unmatched": int(measured.n_unmatched[k]),
            "missing": tuple(np.flatnonzero(~measured.has[k]).tolist()),
            "n_samples": int(admitted.n_samples[k]),
            "n_copies": int(measured.n_copies[k]),
            "n_agreeing": agreeing.get(k, 0),
        }
        if outlying[k]:
            kind = _kind_of_outlier(numbers)
        elif judged.weak[k]:
            kind = "few-samples" if judged.few_samples[k] and numbers["n_samples"] else "noisy"
        else:
            kind = "agrees"
        why[k] = Reason(kind, numbers)
    return tuple(why)


def _kind_of_outlier(numbers: Numbers) -> str:
    if numbers["n_agreeing"]:
        return "other-basis"
    if numbers["n_unmatched"] == numbers["n_atoms"]:
        return "no-match"
    return "unmatched-atoms" if numbers["n_unmatched"] else "far"


def _agreeing_outliers(atoms: Columns, owner: IntArray, outlying: IntArray, distances: Array) -> dict[int, int]:
    """For each outlying client, how many others agree with it on another basis: at half its distance or less."""
    compared = outlying[:MAX_COMPARED]
    if compared.size < 2:
        return {}
    inside = np.flatnonzero(np.isin(owner, compared))
    names = np.searchsorted(compared, owner[inside])
    theirs = columns_of(atoms.take(inside), names)
    found: dict[int, int] = {}
    for place, k in enumerate(compared):
        basis = theirs.take(np.flatnonzero(names == place))
        if basis.shape[1] > basis.shape[0] or np.linalg.cond(basis) > 1e6:
            continue
        apart = client_distances(assign_atoms(theirs, names, basis), names, compared.size)
        near = apart <= 0.5 * min(distances[k], 1.0)
        near[place] = False
        found[int(k)] = int(near.sum())
    return found


def _influence(
    assignment: Assignment, angle: Array, weights: Array, norms: Array, owner: IntArray, n_clients: int
) -> Array:
    """Largest angle by which a component turns when the client is left out, one reweighted mean later, in degrees.

    The centre c of total weight W without the atom x of weight w is W c - w x, up to scale.
    """
    labels = assignment.labels
    weighed = np.where(labels >= 0, weights, 0.0)
    totals = np.bincount(np.maximum(labels, 0), weights=weighed, minlength=norms.size)
    influence = np.zeros(n_clients)
    for first in range(0, n_clients, CLIENTS_AT_ONCE):
        own = slice(*np.searchsorted(owner, [first, first + CLIENTS_AT_ONCE]))
        label, w, theta = labels[own], weighed[own], np.radians(angle[own])
        left = totals[label] - w
        turned = np.degrees(np.arctan2(w * np.sin(theta), totals[label] * norms[label] - w * np.cos(theta)))
        turned[left <= 1e-12 * totals[label]] = 90.0  # nobody else supports it
        np.maximum.at(influence, owner[own], np.where(w > 0, np.minimum(turned, 90.0), 0.0))
    return influence

"""What the server thinks of every client, with the reason as a kind and its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.blocks.columns import Columns, columns_of
from fedica.blocks.groups import group_medians
from fedica.records import Reason, Trust
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
"""A client farther than so many radii is outlying, unless its samples explain it."""
FEWER = 1.5
"""A client has few samples when they let expect so many times the radius: less than half of what the others have."""
SAMPLES_SLACK = 3.0
"""How many times the error that falls as 1/sqrt(n_samples) is still explained by few samples."""
SAMPLES_NEEDED = 40.0
"""With fewer than so many times r^2 samples any local ICA may find anything: r^2 is what theory asks for at least."""
AT_ONCE = 50_000
"""Clients whose influence is worked out at a time."""
COMPARED = 60
"""Outlying clients looked at for agreement among themselves."""


def assess(admitted: Admitted, mixing: Array, norms: Array, weights: Array, assignment: Assignment) -> Trust:
    """Judge every client against the components.

    Parameters
    ----------
    admitted : Admitted
        All atoms.
    mixing : ndarray of shape (d, r)
        The components.
    norms : ndarray of shape (r,)
        Norms of the raw centres.
    weights : ndarray of shape (R,)
        How much each atom counted in its centre.
    assignment : Assignment
        The atoms against these components.

    Returns
    -------
    Trust
        A verdict and its reason for each client.
    """
    owner, n_clients, r = admitted.client_of_atom, len(admitted.clients), mixing.shape[1]
    duplicates = duplicate_weights(admitted.atoms, owner, assignment, r)
    distances = client_distances(assignment, owner, n_clients)
    radius = radius_of(distances, duplicates)
    matched = matched_atoms(assignment, weights, r)
    n_unmatched = np.bincount(owner, weights=~matched, minlength=n_clients).astype(np.int64)

    angle_of_atom = angles_to(admitted.atoms, mixing, assignment.labels)
    angles, has = np.full((n_clients, r), 90.0), np.zeros((n_clients, r), dtype=bool)
    known = np.flatnonzero(assignment.labels >= 0)
    angles[owner[known], assignment.labels[known]] = angle_of_atom[known]
    has[owner[matched], assignment.labels[matched]] = True
    angle = group_medians(angle_of_atom, np.where(assignment.labels >= 0, owner, -1), n_clients, empty=90.0)

    expected = radius * _expected_excess(admitted.n_samples, distances, radius)
    far = (distances > np.maximum(OUTLYING_CUT, client_cut(r)) * radius) & (distances > CLOSE)
    noisy = distances > client_cut(r) * radius
    few = expected > FEWER * radius
    explained = few & ((distances <= SAMPLES_SLACK * expected) | (admitted.n_samples < SAMPLES_NEEDED * r**2))
    n_atoms = np.bincount(owner, minlength=n_clients)
    doubtful = far | (n_unmatched > np.maximum(0, n_atoms - r))  # who found more than there are has some of its own
    outlying = doubtful & ~explained
    weak = (noisy | doubtful) & ~outlying

    copies = np.round(1 / duplicates).astype(np.int64)
    why = [Reason("agrees", {"angle": a}) for a in angle.tolist()]
    agreeing = _agreeing_outliers(admitted.atoms, owner, np.flatnonzero(outlying), distances)
    more_to_say = outlying | weak | ~has.all(axis=1) | (n_unmatched > 0) | (copies > 1)
    for k in np.flatnonzero(more_to_say).tolist():
        facts = {
            "angle": float(angle[k]),
            "n_atoms": int(n_atoms[k]),
            "n_unmatched": int(n_unmatched[k]),
            "missing": tuple(np.flatnonzero(~has[k]).tolist()),
            "n_samples": int(admitted.n_samples[k]),
            "n_copies": int(copies[k]),
            "n_agreeing": agreeing.get(k, 0),
        }
        why[k] = Reason(_kind(facts, outlying=bool(outlying[k]), weak=bool(weak[k]), few=bool(few[k])), facts)
    verdict = np.where(outlying, "outlying", np.where(weak, "weak", "trusted"))
    return Trust(
        clients=admitted.clients,
        verdict=tuple(verdict.tolist()),
        why=tuple(why),
        angle=angle,
        angles=angles,
        has=has,
        n_unmatched=n_unmatched,
        influence=_influence(assignment, angle_of_atom, weights, norms, owner, n_clients),
    )


def _expected_excess(n_samples: IntArray, distances: Array, radius: float) -> Array:
    """How many times the radius a client's declared samples let expect: sqrt(n_typical / n), at least one."""
    typical = n_samples[(distances <= radius) & (n_samples > 0)]
    if typical.size == 0:
        return np.ones(n_samples.size)
    ratio = np.median(typical) / np.maximum(n_samples, 1)
    return np.asarray(np.where(n_samples > 0, np.sqrt(np.maximum(ratio, 1.0)), 1.0))


def _agreeing_outliers(atoms: Columns, owner: IntArray, outlying: IntArray, distances: Array) -> dict[int, int]:
    """For each outlying client, how many others agree with it on another basis: at half its distance or less."""
    compared = outlying[:COMPARED]
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
        near = client_distances(assign_atoms(theirs, names, basis), names, compared.size) <= 0.5 * min(
            distances[k], 1.0
        )
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
    for first in range(0, n_clients, AT_ONCE):
        own = slice(*np.searchsorted(owner, [first, first + AT_ONCE]))
        label, w, theta = labels[own], weighed[own], np.radians(angle[own])
        left = totals[label] - w
        turned = np.degrees(np.arctan2(w * np.sin(theta), totals[label] * norms[label] - w * np.cos(theta)))
        turned[left <= 1e-12 * totals[label]] = 90.0  # nobody else supports it
        np.maximum.at(influence, owner[own], np.where(w > 0, np.minimum(turned, 90.0), 0.0))
    return influence


def _kind(facts: dict[str, Any], *, outlying: bool, weak: bool, few: bool) -> str:
    """Return the kind of reason for a verdict: the first that holds."""
    if outlying:
        if facts["n_agreeing"]:
            return "other-basis"
        if facts["n_unmatched"] == facts["n_atoms"]:
            return "no-match"
        return "unmatched-atoms" if facts["n_unmatched"] else "far"
    if weak:
        return "few-samples" if few and facts["n_samples"] else "noisy"
    return "agrees"

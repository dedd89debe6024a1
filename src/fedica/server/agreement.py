"""How far clients are from the components, which of their atoms match, how alike they are, and what they move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from fedica.arrays import Array, BoolArray, IntArray, polar
from fedica.blocks import Columns, Drawn, columns_of, group_medians, weighted_median
from fedica.server.assign import Assignment, assign_atoms

CLIENT_CUT = 1.8
"""A client farther than this many radii is noisy; see `client_cut`."""
ATOM_CUT = 2.5
"""An atom farther than this many times the median distance of its component does not match it."""
NEAR = float(np.tan(np.radians(15.0)))
"""An atom within 15 degrees of its component always matches it."""
MIN_RADIUS = 1e-7
"""Clients that agree to rounding agree: no radius is smaller."""
N_TURNED = 60
"""Random turns of clients' atoms that show what chance gives: of so many clients, or of fewer clients several times."""
CLIENTS_AT_ONCE = 50_000
"""Clients whose influence is worked out in one pass."""
HARDLY_ALIKE = 0.5
"""A client is never unlike the others that has this share of their likeness beyond chance."""
MIN_ATOMS = 4
"""Of fewer atoms a mean tells too little to be compared with chance."""
BY_CHANCE, BEYOND_CHANCE, BELOW_OTHERS = 2.0, 3.0, 2.3
"""A client within 2 deviations of chance is unlike the others if these are beyond 3, and 2.3 of their own above it."""
MIN_DEVIATION = 1e-3
"""Of cosines between clients: smaller differences mean nothing."""


@dataclass(frozen=True)
class Chance:
    """Likeness to the components by chance: of clients whose atoms are turned at random within their own spans.

    Parameters
    ----------
    typical, high : float
        Median cosine of a client's atoms: what is typical, and what one client in twenty exceeds.
    mean, deviation : float
        Mean cosine of a client's atoms: what is typical, and by how much it differs between clients.
    """

    typical: float
    high: float
    mean: float
    deviation: float


def client_distances(assignment: Assignment, owner: IntArray, n_clients: int) -> Array:
    """Median distance over the atoms of each client, (K,): a few failed atoms do not make a bad client."""
    return group_medians(assignment.distance, np.where(assignment.labels >= 0, owner, -1), n_clients, empty=np.inf)


def client_cut(n_components: int) -> float:
    """Radii beyond which a client is noisy: more for few components, where a median over a few atoms is uncertain."""
    return max(CLIENT_CUT, float(1 + 2.5 / np.sqrt(max(n_components * (n_components - 1), 1))))


def radius_of(distances: Array, weights: Array) -> float:
    """Weighted median of the distances of all clients. distances, weights : (K,)."""
    return max(weighted_median(distances, weights, empty=0.0), MIN_RADIUS)


def duplicate_weights(atoms: Columns, owner: IntArray, assignment: Assignment, n_components: int) -> Array:
    """One over the number of clients that sent the same atoms, (K,): independent fits never coincide.

    Two clients are the same when three random projections of all their atoms, matched and signed, agree to 1e-9. Where
    more than half of all clients agree to rounding there is no noise to be independent of, and each counts as one.
    """
    n_clients = int(owner[-1]) + 1
    if np.median(client_distances(assignment, owner, n_clients)) <= MIN_RADIUS:
        return np.ones(n_clients)
    directions = np.random.default_rng(0).standard_normal((3, atoms.shape[0], n_components))

    def of_block(block: Array, label: IntArray, sign: Array, own: IntArray) -> tuple[Array]:
        seen = np.where(label >= 0, sign, 0.0)
        projections = [np.einsum("db,db->b", block, g[:, label]) * seen for g in directions]
        return (np.stack([np.bincount(own - own[0], weights=p) for p in projections]),)

    (prints,) = atoms.each(of_block, assignment.labels, assignment.signs, owner)
    _, inverse, counts = np.unique(np.round(prints.T / 1e-9), axis=0, return_inverse=True, return_counts=True)
    return np.asarray(1 / counts[inverse.ravel()])


def matched_atoms(assignment: Assignment, weights: Array, n_components: int) -> BoolArray:
    """Whether each atom matches its component: within 15 degrees, or within the cut for the atoms that count, (R,).

    weights : (R,), how much each atom counts.
    """
    counting = np.where(weights > 0, assignment.labels, -1)
    typical = group_medians(assignment.distance, counting, n_components, empty=0.0)
    limit = np.maximum(ATOM_CUT * typical, NEAR)
    return np.asarray((assignment.labels >= 0) & (assignment.distance <= limit[assignment.labels]))


def angles_to(atoms: Columns, mixing: Array, labels: IntArray) -> Array:
    """Angle of each atom to its component in the space of the features, in degrees; 90 where it has none. (R,)."""

    def of_block(block: Array, label: IntArray) -> tuple[Array]:
        cosine = np.abs(np.einsum("db,db->b", block, mixing[:, label]))
        return (np.where(label >= 0, np.degrees(np.arccos(np.minimum(cosine, 1.0))), 90.0),)

    return np.asarray(atoms.each(of_block, labels)[0])


def client_likeness(angle_of_atom: Array, labels: IntArray, owner: IntArray, n_clients: int) -> tuple[Array, IntArray]:
    """Mean cosine of each client's atoms to the components that they are given to, and how many those are: (K,) each.

    angle_of_atom : (R,), degrees; labels : (R,), -1 where an atom is given to none.
    """
    given = labels >= 0
    counts = np.bincount(owner[given], minlength=n_clients)
    sums = np.bincount(owner[given], weights=np.cos(np.radians(angle_of_atom[given])), minlength=n_clients)
    return sums / np.maximum(counts, 1), counts


def unlike_others(likeness: Array, n_atoms: IntArray, within: float, chance: Chance, false_alarms: float) -> BoolArray:
    """Whether each client is much less like the components than the others are, (K,).

    That is: at most half as much beyond chance, and lower than clients like the others are but for a share of
    ``false_alarms``; or no better than chance while the others are clearly better. Clients that are found drop out of
    the comparison, so that several do not hide one another; half of them cannot be found.

    likeness, n_atoms : (K,), as from `client_likeness`; within : deviation of cosines between the atoms of one client.
    """
    found, spread = np.zeros(likeness.size, dtype=np.bool_), max(chance.deviation, MIN_DEVIATION)
    by_chance = (likeness < chance.mean + BY_CHANCE * spread) & (n_atoms >= MIN_ATOMS)
    while True:
        usual, deviation = _usual_likeness(likeness[~found])
        deviations = np.maximum(deviation, within / np.sqrt(np.maximum(n_atoms, 1)))
        n_compared = found.size - int(np.count_nonzero(found))
        reach = float(student_t.ppf(1 - false_alarms, max(n_compared - 1, 2)))
        hardly = likeness - chance.mean < HARDLY_ALIKE * (usual - chance.mean)
        more = found | (hardly & (usual - likeness > reach * deviations))
        if usual > chance.mean + BEYOND_CHANCE * spread:
            more |= by_chance & (usual - likeness > BELOW_OTHERS * deviation)
        if 2 * np.count_nonzero(more) >= likeness.size:
            return np.zeros_like(found)
        if np.array_equal(more, found):
            return found
        found = more


def _usual_likeness(likeness: Array) -> tuple[float, float]:
    """Median, and scaled median absolute deviation."""
    usual = float(np.median(likeness))
    return usual, max(1.4826 * float(np.median(np.abs(likeness - usual))), MIN_DEVIATION)


def chance_likeness(atoms: Columns, drawn: Drawn, mixing: Array) -> Chance:
    """Likeness of a client's atoms to their components if they were turned at random within the client's span.

    That is the null hypothesis of Hyvarinen and Ramkumar's test of components across subjects: a client's span may hold
    the components though its rotation means nothing. What it gives depends on d, on r_k and on how smooth atoms are.
    Of very many clients those drawn first are turned; few are turned several times each.
    """
    clients = drawn.order[:N_TURNED]
    turned, n_turns = [], -(-N_TURNED // clients.size)
    for first, last in np.searchsorted(drawn.owner, np.stack([clients, clients + 1], axis=1)).tolist():
        basis = np.linalg.qr(atoms.take(np.arange(first, last)))[0]
        m = basis.shape[1]
        turned += [basis @ polar(turn) for turn in np.random.default_rng(m).standard_normal((n_turns, m, m))]
    whose = np.repeat(np.arange(len(turned)), [basis.shape[1] for basis in turned])
    columns = columns_of(np.concatenate(turned, axis=1), whose)
    labels = assign_atoms(columns, whose, mixing).labels
    angles = angles_to(columns, mixing, labels)
    of_clients = group_medians(angles, np.where(labels >= 0, whose, -1), len(turned), empty=90.0)
    typical = float(np.median(angles[labels >= 0])) if (labels >= 0).any() else 90.0
    high = float(np.quantile(of_clients, 0.05))
    means, deviation = _usual_likeness(client_likeness(angles, labels, whose, len(turned))[0])
    return Chance(float(np.cos(np.radians(typical))), float(np.cos(np.radians(high))), means, deviation)


def client_influence(
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

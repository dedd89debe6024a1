"""How far clients are from the components, which of their atoms match, how alike they are, and what they move."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray
from fedica.blocks import Columns, group_medians, weighted_median
from fedica.server.assign import Assignment

CLIENT_CUT = 1.8
"""A client farther than this many radii is noisy; see `client_cut`."""
ATOM_CUT = 2.5
"""An atom farther than this many times the median distance of its component does not match it."""
NEAR = float(np.tan(np.radians(15.0)))
"""An atom within 15 degrees of its component always matches it."""
MIN_RADIUS = 1e-7
"""Clients that agree to rounding agree: no radius is smaller."""
BIWEIGHT_REACH = 9.0
"""Median absolute deviations at which a value ceases to count in `efficient_deviation`: the usual choice."""
NORMAL_MEDIAN = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""
CLIENTS_AT_ONCE = 50_000
"""Clients whose influence is worked out in one pass."""


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


def matched_atoms(assignment: Assignment, weights: Array, n_components: int, allowed: Array | float = 1.0) -> BoolArray:
    """Whether each atom matches its component: within 15 degrees, or within the cut for the atoms that count, (R,).

    weights : (R,), how much each atom counts; allowed : (R,), how many times as far it may be beyond these 15 degrees.
    """
    counting = np.where(weights > 0, assignment.labels, -1)
    typical = group_medians(assignment.distance, counting, n_components, empty=0.0)
    limit = np.maximum(allowed * ATOM_CUT * typical[assignment.labels], NEAR)
    return np.asarray((assignment.labels >= 0) & (assignment.distance <= limit))


def angles_to(atoms: Columns, mixing: Array, labels: IntArray) -> Array:
    """Angle of each atom to its component in the space of the features, in degrees; 90 where it has none. (R,)."""

    def of_block(block: Array, label: IntArray) -> tuple[Array]:
        cosine = np.abs(np.einsum("db,db->b", block, mixing[:, label]))
        return (np.where(label >= 0, np.degrees(np.arccos(np.minimum(cosine, 1.0))), 90.0),)

    return np.asarray(atoms.each(of_block, labels)[0])


def robust_deviation(values: Array) -> float:
    """Median absolute deviation, scaled to the standard deviation of so many normal values."""
    return values.size / max(values.size - 0.8, 0.5) * normal_deviation(values)


def efficient_deviation(values: Array) -> float:
    """Tukey's biweight as a standard deviation: nothing counts beyond nine median absolute deviations.

    Of a few values it varies a third less than `robust_deviation`, so that Student's quantiles are exceeded about as
    often as they say; but it follows values that are moderately far. So those in doubt should be left out.
    """
    n, away = values.size, values - np.median(values)
    reach = BIWEIGHT_REACH * float(np.median(np.abs(away)))
    if reach == 0:
        return 0.0
    u = np.minimum((away / reach) ** 2, 1.0)
    squares, slope = float(np.sum(away**2 * (1 - u) ** 4)), float(np.sum((1 - u) * (1 - 5 * u)))
    return float(np.sqrt(n / max(n - 1, 1) * n * squares)) / slope


def normal_deviation(values: Array, centre: float | None = None) -> float:
    """Median absolute deviation from a centre, their median by default, as that of very many normal values."""
    away = np.abs(values - (np.median(values) if centre is None else centre)) if values.size else np.zeros(1)
    return NORMAL_MEDIAN * float(np.median(away))


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

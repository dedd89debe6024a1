"""Consensus: Algorithm 1, and then the steps by which a minority of bad clients barely affects the result.

The numbers are those of the formulas in docs/method.md.

(C1) Two starts. Algorithm 1 on atoms whitened by their own scatter; and the one client whose nearer half of the other
     clients is closest, which fewer than half of the clients cannot forge.
(C2) Concentrate. Every client gives each component at most one atom. Average, for each component, the half of its atoms
     whose clients are nearest; repeat until the half stays the same. The start that ends with tighter halves is taken.
(C3) Weigh clients, then atoms. The radius is the median distance of all clients; clients that sent the same atoms share
     one vote. A client within the radius counts fully, one beyond it by the inverse of its squared distance (its noise,
     estimated from all its atoms), one beyond 1.8 radii not at all. An atom beyond 1.2 times the median of its
     component counts by the inverse of its distance (Huber), beyond 2.5 times not at all. Average with these weights,
     and repeat until nothing changes.
(C4) Finish. Where the mixing is declared orthogonal, take the nearest matrix with orthonormal columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray, polar, unit
from fedica.blocks import (
    Columns,
    Drawn,
    columns_of,
    draw_clients,
    group_medians,
    leading_directions,
    nearest_halves,
    split_by_group,
    weighted_median,
)
from fedica.records import Terms
from fedica.server.admit import Admitted
from fedica.server.agreement import (
    ATOM_CUT,
    MIN_RADIUS,
    client_cut,
    client_distances,
    duplicate_weights,
    radius_of,
)
from fedica.server.assign import Assignment, assign_atoms
from fedica.server.centres import group_means
from fedica.server.clusters import kmeans
from fedica.server.embedding import EMBEDDINGS, MARGIN, Embedding
from fedica.server.signs import align_signs

ATOM_FULL = 1.2
"""An atom within this many times the median distance of its component counts fully."""
MAX_CANDIDATES = 20
"""Clients tried as a start: with 45% of them bad, one try in nine million draws only bad ones."""
MAX_PANEL = 2000
"""Clients among whom the start is found; of more than these, a random panel."""
MAX_PANEL_BYTES = 2**26
"""Bytes of atoms that the panel keeps in full length."""
MAX_STEPS = 30


@dataclass(frozen=True, eq=False)
class Consensus:
    """What most clients agree on.

    Parameters
    ----------
    centres : ndarray of shape (d, r)
        The components.
    weights : ndarray of shape (R,)
        How much each atom counts.
    embedding : Embedding
        Of Algorithm 1, the first start.
    kmeans_bounds : tuple of float
        Objective and lower bound of its k-means.
    """

    centres: Array
    weights: Array
    embedding: Embedding
    kmeans_bounds: tuple[float, float]


def find_consensus(
    admitted: Admitted,
    n_components: int,
    client_weights: Array,
    *,
    affinity: str,
    n_init: int,
    rng: np.random.Generator,
) -> Consensus:
    """Find the components that most clients agree on, and weigh every atom by how well it agrees: (C1) to (C3).

    client_weights : (K,), from declared samples; all one by default.
    """
    atoms, owner, r = admitted.atoms, admitted.client_of_atom, n_components
    drawn = draw_clients(atoms, owner, rng)
    whiten = admitted.terms.mixing != "orthogonal"
    grouping_atoms = leading_directions(atoms, r).whitened(atoms) if whiten else atoms
    embedding = EMBEDDINGS[affinity](grouping_atoms, r)
    points = embedding.points.seen(unit, r).kept()  # scaled to one: rare components count as much
    clusters = kmeans(points, r, n_init=n_init, rng=rng, sample=drawn.sample())
    signs = align_signs(grouping_atoms, clusters.labels, r)
    first = unit(group_means(atoms, clusters.labels, r, signs=signs, weights=np.ones(owner.size)))  # (C1)
    kmeans_bounds = clusters.objective, clusters.lower_bound
    del clusters, signs, points  # one number for each of very many atoms takes memory

    panel_atoms, panel_owner, axes = _panel(atoms, owner, drawn, r)
    starts = [unit(first if axes is None else axes @ first), *_closest_client(panel_atoms, panel_owner, r, rng)]
    ends = [_concentrate(panel_atoms, panel_owner, start) for start in starts]
    tightest = min(ends, key=lambda end: _tightness(panel_atoms, panel_owner, end))  # the first on a tie
    reference = unit(tightest if axes is None else axes.T @ tightest)
    centres, weights = _reweigh(atoms, owner, reference, client_weights)
    return Consensus(centres, weights, embedding, kmeans_bounds)


def finish_consensus(centres: Array, terms: Terms) -> Array:
    """Return the centres, (d, r), as the nearest matrix with orthonormal columns where the mixing is orthogonal."""
    return polar(unit(centres)) if terms.mixing == "orthogonal" else centres  # (C4)


def _panel(atoms: Columns, owner: IntArray, drawn: Drawn, r: int) -> tuple[Columns, IntArray, Array | None]:
    """Return the atoms among which a start is found, their clients, and their axes, (p, d).

    They are the atoms of all clients, or of the clients drawn first where there are very many; all clients count in the
    last step. Long atoms that take too much memory are given along their leading directions: that is enough for a
    start. Without axes they are the atoms themselves.
    """
    d, _ = atoms.shape
    inside = drawn.atoms_of_first(MAX_PANEL) if int(owner[-1]) >= MAX_PANEL else np.arange(owner.size)
    numbered = np.cumsum(np.diff(owner[inside], prepend=owner[inside[0]]) != 0)
    if d <= r + MARGIN or 8 * d * inside.size <= MAX_PANEL_BYTES:
        return columns_of(atoms.take(inside), numbered), numbered, None
    directions = leading_directions(atoms, r, margin=MARGIN)
    return columns_of(unit(directions.coordinates(atoms).take(inside)), numbered), numbered, directions.axes


def _closest_client(atoms: Columns, owner: IntArray, r: int, rng: np.random.Generator) -> list[Array]:
    """Return the client with all r atoms whose nearer half of the clients is closest, (d, r), if there is one."""
    complete = np.flatnonzero(np.bincount(owner) == r)
    if complete.size > MAX_CANDIDATES:
        complete = np.sort(rng.choice(complete, MAX_CANDIDATES, replace=False))
    best, closest = np.inf, []
    for k in complete:
        candidate = atoms.take(np.flatnonzero(owner == k))
        if np.linalg.cond(candidate) > 1e6:  # copies of one atom span nothing
            continue
        reach = float(np.median(_mean_distances(assign_atoms(atoms, owner, candidate), owner)))  # (C1)
        if reach < best:
            best, closest = reach, [candidate]
    return closest


def _concentrate(atoms: Columns, owner: IntArray, reference: Array) -> Array:
    """Average the nearer half of each component's atoms, ordered by their clients, until the half stays the same."""
    r = reference.shape[1]
    before = np.empty(0)
    for _ in range(MAX_STEPS):
        assignment = assign_atoms(atoms, owner, reference)
        by_client = _mean_distances(assignment, owner)[owner] + 1e-9 * assignment.distance
        chosen = np.where(nearest_halves(by_client, assignment.labels, r), assignment.labels, -1)
        if np.array_equal(chosen, before):
            break
        before = chosen
        ones = np.ones(owner.size)
        reference = unit(group_means(atoms, chosen, r, signs=assignment.signs, weights=ones, otherwise=reference))
    return reference


def _tightness(atoms: Columns, owner: IntArray, reference: Array) -> float:
    """Mean over components of the median distance of their atoms: small where more than half agree closely."""
    assignment = assign_atoms(atoms, owner, reference)
    near = np.minimum(assignment.distance, 1.0)
    return float(group_medians(near, assignment.labels, reference.shape[1], empty=1.0).mean())


def _mean_distances(assignment: Assignment, owner: IntArray) -> Array:
    """Mean distance over the matched atoms of each client, each at most one: no bad atom goes unnoticed. (K,)."""
    matched = assignment.labels >= 0
    counts = np.bincount(owner, weights=matched)
    sums = np.bincount(owner, weights=np.where(matched, np.minimum(assignment.distance, 1.0), 0.0))
    return np.asarray(sums / np.maximum(counts, 1))


def _reweigh(atoms: Columns, owner: IntArray, reference: Array, client_weights: Array) -> tuple[Array, Array]:
    """Average all atoms, weighed by how well they agree, until nothing moves: centres (d, r), weights (R,)."""
    r = reference.shape[1]
    assignment = assign_atoms(atoms, owner, reference)
    duplicates = duplicate_weights(atoms, owner, assignment, r)
    for step in range(MAX_STEPS):
        weights = _agreement_weights(assignment, owner, r, duplicates) * (client_weights * duplicates)[owner]
        labels, signs = assignment.labels, assignment.signs
        centres = group_means(atoms, labels, r, signs=signs, weights=weights, otherwise=reference)  # (C3)
        moved, reference = np.abs(unit(centres) - reference).max(), unit(centres)
        if moved <= 1e-9 or step == MAX_STEPS - 1:
            break
        assignment = assign_atoms(atoms, owner, reference)
    return centres, weights


def _agreement_weights(assignment: Assignment, owner: IntArray, r: int, duplicates: Array) -> Array:
    """Weight of every atom, (R,): that of its client, times its own."""
    labels, distance = assignment.labels, assignment.distance
    of_client = client_distances(assignment, owner, duplicates.size)
    radius = radius_of(of_client, duplicates)
    inside = of_client <= client_cut(r) * radius
    weights = np.where(inside, np.minimum(1.0, (radius / np.maximum(of_client, radius)) ** 2), 0.0)[owner]  # (C3)
    counting = np.where(weights > 0, labels, -1)
    own = zip(split_by_group(distance, counting, r), split_by_group(duplicates[owner], counting, r), strict=True)
    typical = np.maximum([weighted_median(*one, empty=0.0) for one in own], MIN_RADIUS)
    excess = distance / typical[labels]
    weights *= np.where(excess <= ATOM_CUT, np.minimum(1.0, ATOM_FULL / np.maximum(excess, ATOM_FULL)), 0.0)  # (C3)
    weights[labels < 0] = 0.0

    orphaned = np.bincount(counting[counting >= 0], weights=weights[counting >= 0], minlength=r) == 0
    if orphaned.any():  # a component that only doubtful clients see: the nearer half of those
        near = nearest_halves(of_client[owner] + 1e-9 * distance, labels, r)
        weights[near & orphaned[labels] & (labels >= 0)] = 1.0
    return np.asarray(weights)

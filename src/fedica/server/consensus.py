"""Consensus: Algorithm 1, and then what makes it answer as if the bad clients were not there.

1. Two starts. Algorithm 1 on atoms whitened by their own scatter; and the one client whose nearer half of the other
   clients is closest, which fewer than half of the clients cannot forge.
2. Concentrate. Every client gives each component at most one atom. Average, for each component, the half of its atoms
   whose clients are nearest; repeat until the half stays the same. The start that ends with tighter halves is taken.
3. Decide on clients, then on atoms. The radius is the median distance of all clients; clients that sent the same atoms
   are one voice. A client within the radius counts fully, one beyond it by the inverse of its squared distance (its
   noise, estimated from all its atoms), one beyond 1.8 radii not at all. An atom beyond 1.2 times the median of its
   component counts by the inverse of its distance (Huber), beyond 2.5 times not at all. Average with these weights, and
   repeat until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray, unit
from fedica.blocks.columns import Columns, columns_of
from fedica.blocks.directions import leading_directions
from fedica.server.admit import Admitted
from fedica.server.assign import Relative, relative_to, standing_of
from fedica.server.clusters import kmeans
from fedica.server.embedding import EMBEDDINGS, MARGIN, Embedding
from fedica.server.group_medians import group_medians, nearest_halves, split_by_group, weighted_median
from fedica.server.sampling import Drawn, draw_clients
from fedica.server.signs import align_signs

CLIENT_CUT = 1.8
"""A client farther than so many radii does not count; see `client_cut`."""
ATOM_FULL, ATOM_CUT = 1.2, 2.5
"""An atom within so many times the median distance of its component counts fully; beyond the second, not at all."""
CANDIDATES = 20
"""Clients tried as a start: with 45% of them bad, one try in nine million draws only bad ones."""
PANEL = 2000
"""Clients among whom the start is found; with more than these, a random panel."""
PANEL_BYTES = 2**26
"""Bytes of atoms that the panel keeps in full length."""
SAMPLE = 30_000
"""Atoms among which the starts of k-means compete; with more than these, those of random clients."""
SMALLEST_RADIUS = 1e-7
"""Clients that agree to rounding agree."""
MOST_STEPS = 30


@dataclass(frozen=True, eq=False)
class Consensus:
    """Centres (d, r), the weight of every atom, the embedding of Algorithm 1, and how good its grouping was."""

    centres: Array
    weights: Array
    embedding: Embedding
    kmeans_objective: float
    kmeans_lower_bound: float


def find_consensus(
    admitted: Admitted,
    n_components: int,
    client_weights: Array,
    *,
    affinity: str,
    n_init: int,
    rng: np.random.Generator,
) -> Consensus:
    """Find the components that most clients agree on, and weigh every atom by how well it agrees.

    client_weights : (K,), from declared samples; all one unless asked for.
    """
    atoms, owner, r = admitted.atoms, admitted.client_of_atom, n_components
    drawn = draw_clients(atoms, owner, rng)
    whiten = admitted.terms.mixing != "orthogonal"
    grouping_atoms = leading_directions(atoms, r).whitened(atoms) if whiten else atoms
    embedding = EMBEDDINGS[affinity](grouping_atoms, r)
    points = embedding.points.seen(unit, r).kept()  # scaled to one: rare components count as much
    clusters = kmeans(points, r, n_init=n_init, rng=rng, sample=drawn.sample(SAMPLE))
    signs = align_signs(grouping_atoms, clusters.labels, r)
    starts = [unit(group_means(atoms, signs, clusters.labels, np.ones(owner.size), r))]
    proof = clusters.objective, clusters.lower_bound
    del clusters, signs, points  # one number for each of very many atoms is not little
    asked, asked_owner, axes = _panel(atoms, owner, drawn, r)
    starts = [unit(start if axes is None else axes @ start) for start in starts]
    starts += _closest_client(asked, asked_owner, r, rng)
    ends = [_concentrate(asked, asked_owner, start) for start in starts]
    tightest = min(ends, key=lambda end: _tightness(asked, asked_owner, end))  # the first on a tie
    reference = unit(tightest if axes is None else axes.T @ tightest)

    standing = standing_of(atoms, owner, reference)
    voices = share_of_voice(atoms, owner, standing, r)
    for step in range(MOST_STEPS):
        weights = _agreement(standing, owner, r, voices) * (client_weights * voices)[owner]
        centres = group_means(atoms, standing.signs, standing.labels, weights, r, otherwise=reference)
        moved, reference = np.abs(unit(centres) - reference).max(), unit(centres)
        if moved <= 1e-9 or step == MOST_STEPS - 1:
            break
        standing = standing_of(atoms, owner, reference)
    return Consensus(centres, weights, embedding, *proof)


def client_scores(standing: Relative, owner: IntArray, n_clients: int) -> Array:
    """Median distance over the atoms of each client: a few failed atoms do not make a bad client."""
    return group_medians(standing.distance, np.where(standing.labels >= 0, owner, -1), n_clients, empty=np.inf)


def client_cut(n_components: int) -> float:
    """Radii within which a client counts: more for few components, where a median over a few atoms is uncertain."""
    return max(CLIENT_CUT, float(1 + 2.5 / np.sqrt(max(n_components * (n_components - 1), 1))))


def radius_of(scores: Array, voices: Array) -> float:
    """Median distance of all clients, each counted with its share of voice."""
    return max(weighted_median(scores, voices, empty=0.0), SMALLEST_RADIUS)


def share_of_voice(atoms: Columns, owner: IntArray, standing: Relative, n_components: int) -> Array:
    """One over the number of clients that sent the same atoms: independent fits never coincide, so they are one voice.

    Two clients are the same when three random projections of all their atoms, matched and signed, agree to 1e-9. Where
    more than half of all clients agree to rounding there is no noise to be independent of, and each counts as one.
    """
    n_clients = int(owner[-1]) + 1
    if np.median(client_scores(standing, owner, n_clients)) <= SMALLEST_RADIUS:
        return np.ones(n_clients)
    directions = np.random.default_rng(0).standard_normal((3, atoms.shape[0], n_components))

    def of_block(block: Array, label: IntArray, sign: Array, own: IntArray) -> tuple[Array]:
        seen = np.where(label >= 0, sign, 0.0)
        projections = [np.einsum("db,db->b", block, g[:, label]) * seen for g in directions]
        return (np.stack([np.bincount(own - own[0], weights=p) for p in projections]),)

    (prints,) = atoms.each(of_block, standing.labels, standing.signs, owner)
    _, inverse, counts = np.unique(np.round(prints.T / 1e-9), axis=0, return_inverse=True, return_counts=True)
    return np.asarray(1 / counts[inverse.ravel()])


def _panel(atoms: Columns, owner: IntArray, drawn: Drawn, r: int) -> tuple[Array, IntArray, Array | None]:
    """Return the atoms of all clients, or of the clients drawn first where there are very many; and the axes, (p, d).

    Which half agrees best is settled among the panel; everybody is heard in the last step. Long atoms that are too many
    to be kept are seen along their leading directions: that is enough for a start. No axes: the atoms as they are.
    """
    d, _ = atoms.shape
    inside = drawn.atoms_of_first(PANEL) if int(owner[-1]) >= PANEL else np.arange(owner.size)
    numbered = np.cumsum(np.diff(owner[inside], prepend=owner[inside[0]]) != 0)
    if d <= r + MARGIN or 8 * d * inside.size <= PANEL_BYTES:
        return atoms.take(inside), numbered, None
    directions = leading_directions(atoms, r, margin=MARGIN)
    return unit(directions.coordinates(atoms).take(inside)), numbered, directions.axes


def _closest_client(atoms: Array, owner: IntArray, r: int, rng: np.random.Generator) -> list[Array]:
    """Return the client with all r atoms whose nearer half of the clients is closest, if there is one."""
    counts = np.bincount(owner)
    complete = np.flatnonzero(counts == r)
    if complete.size > CANDIDATES:
        complete = np.sort(rng.choice(complete, CANDIDATES, replace=False))
    best, closest = np.inf, []
    for k in complete:
        candidate = atoms[:, owner == k]
        if np.linalg.cond(candidate) > 1e6:  # copies of one atom span nothing
            continue
        reach = float(np.median(_mean_distance(relative_to(atoms, owner, candidate), owner)))
        if reach < best:
            best, closest = reach, [candidate]
    return closest


def _concentrate(atoms: Array, owner: IntArray, reference: Array) -> Array:
    """Average the nearer half of each component's atoms, ordered by their clients, until the half stays the same."""
    r = reference.shape[1]
    before = np.empty(0)
    for _ in range(MOST_STEPS):
        standing = relative_to(atoms, owner, reference)
        by_client = _mean_distance(standing, owner)[owner] + 1e-9 * standing.distance
        near = nearest_halves(by_client, standing.labels, r)
        chosen = np.where(near, standing.labels, -1)
        if np.array_equal(chosen, before):
            break
        before = chosen
        means = group_means(columns_of(atoms), standing.signs, standing.labels, near.astype(float), r, reference)
        reference = unit(means)
    return reference


def _tightness(atoms: Array, owner: IntArray, reference: Array) -> float:
    """Mean over components of the median distance of their atoms: small where more than half agree closely."""
    standing = relative_to(atoms, owner, reference)
    near = np.minimum(standing.distance, 1.0)
    return float(group_medians(near, standing.labels, reference.shape[1], empty=1.0).mean())


def _mean_distance(standing: Relative, owner: IntArray) -> Array:
    """Mean distance over the matched atoms of each client, each at most one: no bad atom goes unnoticed."""
    matched = standing.labels >= 0
    counts = np.bincount(owner, weights=matched)
    return np.bincount(owner, weights=np.where(matched, np.minimum(standing.distance, 1.0), 0.0)) / np.maximum(
        counts, 1
    )


def _agreement(standing: Relative, owner: IntArray, r: int, voices: Array) -> Array:
    """Weight of every atom: of its client, and then its own."""
    scores = client_scores(standing, owner, voices.size)
    radius = radius_of(scores, voices)
    of_client = np.where(
        scores <= client_cut(r) * radius, np.minimum(1.0, (radius / np.maximum(scores, radius)) ** 2), 0.0
    )
    weights = of_client[owner]
    counting = np.where(weights > 0, standing.labels, -1)
    own = zip(split_by_group(standing.distance, counting, r), split_by_group(voices[owner], counting, r), strict=True)
    medians = [weighted_median(distance, voice, empty=0.0) for distance, voice in own]
    typical = np.maximum(medians, SMALLEST_RADIUS)
    excess = standing.distance / typical[standing.labels]
    weights *= np.where(excess <= ATOM_CUT, np.minimum(1.0, ATOM_FULL / np.maximum(excess, ATOM_FULL)), 0.0)
    weights[standing.labels < 0] = 0.0

    orphaned = np.bincount(counting[counting >= 0], weights=weights[counting >= 0], minlength=r) == 0
    if orphaned.any():  # a component that only doubtful clients see: the nearer half of those
        near = nearest_halves(scores[owner] + 1e-9 * standing.distance, standing.labels, r)
        weights[near & orphaned[standing.labels] & (standing.labels >= 0)] = 1.0
    return np.asarray(weights)


def group_means(
    atoms: Columns, signs: Array, labels: IntArray, weights: Array, r: int, otherwise: Array | None = None
) -> Array:
    """Weighted mean of each group, Eq. (15): atoms (d, R) to (d, r); of ``otherwise`` where a group has no weight."""

    def of_block(block: Array, sign: Array, label: IntArray, weight: Array) -> tuple[Array, Array]:
        member = np.zeros((label.size, r))
        counting = np.flatnonzero(label >= 0)
        member[counting, label[counting]] = weight[counting]
        return block @ (sign[:, None] * member), member.sum(axis=0)

    sums, total = atoms.total(of_block, signs, labels, weights)
    means = np.asarray(sums / np.where(total > 0, total, 1.0))
    return means if otherwise is None else np.where(total > 0, means, otherwise)

"""Where consensus begins: candidates in which every client has one vote, and the choice among them.

The numbers are those of the formulas in docs/method.md.

(C1) Candidates: Algorithm 1 on all atoms; Algorithm 1 on at most r atoms of each client, seen in the span that most
     clients share; the same on the clients that know a part of the components; and the one client that the nearer half
     of the others agree with best. Where none of these is clearly better than chance, also Algorithm 1 on random
     handfuls of clients, and up to 20 single clients.
(C2) Concentrate. Every client gives each component at most one atom. Average, for each component, the half of its atoms
     whose clients are nearest; repeat until the half stays the same. The candidate is taken to which half of all
     clients are nearest: fewer than half of the clients cannot forge that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray, unit
from fedica.blocks import Columns, Directions, Drawn, columns_of, leading_directions, nearest_halves
from fedica.errors import GroupingError
from fedica.server.assign import Assignment, assign_atoms
from fedica.server.centres import group_means
from fedica.server.clusters import kmeans
from fedica.server.embedding import EMBEDDINGS, MARGIN, Embedding
from fedica.server.signs import align_signs

MAX_CANDIDATES = 20
"""Clients tried as a start: with 45% of them bad, one try in nine million draws only bad ones."""
MAX_PANEL = 2000
"""Clients among whom the start is found; of more than these, a random panel."""
MAX_FEATURES = 200
"""Longer atoms are seen along their leading directions, 3 r and ``MARGIN`` of them: enough for a start."""
MAX_SEARCHED = 10_000
"""With more atoms than this in the panel, fewer single clients are tried."""
MAX_HANDFULS = 10
"""Random handfuls of clients that are tried."""
UNCLEAR = 0.25
"""Half of the clients are farther from the components than this share of chance: then single atoms agree little."""
MAX_STEPS = 15
"""Steps of concentration."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """What Algorithm 1 finds.

    Parameters
    ----------
    means : ndarray of shape (d, r)
        Of the aligned atoms of each group, unit columns.
    embedding : Embedding
        Of the atoms.
    kmeans_bounds : tuple of float
        Objective and lower bound of its k-means.
    """

    means: Array
    embedding: Embedding
    kmeans_bounds: tuple[float, float]


def group_atoms(
    atoms: Columns,
    whitened: Columns,
    n_components: int,
    *,
    affinity: str,
    n_init: int,
    rng: np.random.Generator,
    sample: IntArray | None = None,
) -> Grouped:
    """Run Algorithm 1 on whitened atoms, and average the atoms themselves, (d, R): (C1). sample : as for `kmeans`."""
    r, embedding = n_components, EMBEDDINGS[affinity](whitened, n_components)
    points = embedding.points.seen(unit, r).kept()  # scaled to one: rare components count as much
    clusters = kmeans(points, r, n_init=n_init, rng=rng, sample=sample)
    signs = align_signs(whitened, clusters.labels, r)
    means = group_means(atoms, clusters.labels, r, signs=signs, weights=np.ones(clusters.labels.size))
    return Grouped(unit(means), embedding, (clusters.objective, clusters.lower_bound))


@dataclass(frozen=True, eq=False)
class Panel:
    """The atoms among which a start is found.

    Parameters
    ----------
    atoms : Columns
        (p, n), unit columns, of all clients, or of the clients drawn first where there are very many.
    coordinates : ndarray of shape (p, n)
        The same with the lengths that they have along the axes.
    owner : ndarray of shape (n,)
        Number of the client of each, ascending.
    columns : ndarray of shape (n,)
        Which of all atoms they are.
    axes : ndarray of shape (p, d), optional
        Long atoms are given along these directions: that is enough for a start.
    """

    atoms: Columns
    coordinates: Array
    owner: IntArray
    columns: IntArray
    axes: Array | None

    def seen(self, reference: Array) -> Array:
        """Return a reference (d, r) as the panel sees it, (p, r), unit columns."""
        return unit(reference if self.axes is None else self.axes @ reference)

    def in_features(self, reference: Array) -> Array:
        """Return a reference (p, r) in the space of the features, (d, r), unit columns."""
        return unit(reference if self.axes is None else self.axes.T @ reference)


def draw_panel(atoms: Columns, owner: IntArray, drawn: Drawn, n_components: int, directions: Directions) -> Panel:
    """Return the panel. atoms : (d, R); owner : (R,), ascending; directions : the leading ones, 3 r and more."""
    d, _ = atoms.shape
    inside = drawn.atoms_of_first(MAX_PANEL)  # in the drawn order: nothing random below follows the order of arrival
    numbered = np.cumsum(np.diff(owner[inside], prepend=owner[inside[0]]) != 0)
    if d <= max(MAX_FEATURES, 3 * n_components + MARGIN):
        taken = atoms.take(inside)
        return Panel(columns_of(taken, numbered), taken, numbered, inside, None)
    taken = directions.coordinates(atoms).take(inside)
    return Panel(columns_of(unit(taken), numbered), taken, numbered, inside, directions.axes)


def find_start(panel: Panel, first: Array, *, whiten: bool, n_init: int, rng: np.random.Generator) -> Array:
    """Return the reference, (d, r), unit columns, that half of the clients are nearest to: (C1), (C2).

    first : (d, r), the result of Algorithm 1; whiten : whether the mixing may be other than orthogonal.
    """
    atoms, owner, r = panel.atoms, panel.owner, first.shape[1]
    votes = _Votes.of(panel, r, whiten=whiten, n_init=n_init)
    complete = _complete_clients(atoms, owner, r, rng)
    closest = [min(complete, key=lambda c: half_distance(atoms, owner, c))] if complete else []
    best, reference = np.inf, panel.seen(first)
    chance = half_distance(atoms, owner, chance_basis(votes.span, rng))
    usual = (reference, *votes.all_and_partial(rng), *closest)
    for place, start in enumerate(chain(usual, votes.handfuls(rng), complete[:: 1 + owner.size // MAX_SEARCHED])):
        if place >= len(usual) and best <= UNCLEAR * chance:
            break
        end = concentrate(atoms, owner, start)
        score = half_distance(atoms, owner, end)
        if score < best:
            best, reference = score, end
    return panel.in_features(reference)


@dataclass(frozen=True, eq=False)
class _Votes:
    """At most r atoms of each client, in the span that most clients share.

    points : (q, m), unit columns; owner : (m,); span : (p, q), orthonormal columns; n_atoms : (K,), atoms sent.
    """

    points: Array
    owner: IntArray
    span: Array
    n_atoms: IntArray
    n_components: int
    whiten: bool
    n_init: int

    @classmethod
    def of(cls, panel: Panel, n_components: int, *, whiten: bool, n_init: int) -> _Votes:
        atoms, owner, r = panel.atoms.whole(), panel.owner, n_components
        span = _common_span(atoms, owner, r)
        inside = span.T @ atoms
        share = np.einsum("qn,qn->n", inside, inside)
        order = np.lexsort((-share, owner))  # of each client those first that lie most in the common span
        rank = np.empty(owner.size, dtype=np.int64)
        rank[order] = np.arange(owner.size) - np.searchsorted(owner, owner)
        kept = np.flatnonzero((rank < r) & (share > 1e-12))
        return cls(unit(inside[:, kept]), owner[kept], span, np.bincount(owner), r, whiten, n_init)

    def all_and_partial(self, rng: np.random.Generator) -> Iterator[Array]:
        """Algorithm 1 on the votes of all clients, and on those of the clients that know a part of the components."""
        partial = self.n_atoms < self.n_components
        if self.span.shape[0] > self.n_components or (self.n_atoms > self.n_components).any():
            yield from self._spectral(np.ones(self.n_atoms.size, dtype=np.bool_), rng)
        if self.n_atoms.size / 4 < partial.sum() < self.n_atoms.size:
            yield from self._spectral(partial, rng)

    def handfuls(self, rng: np.random.Generator) -> Iterator[Array]:
        """Algorithm 1 on a few random clients, who have each component about three times."""
        n_clients = self.n_atoms.size
        size = max(3, int(np.ceil(3 * self.n_components / max(1.0, self.owner.size / n_clients))))
        for _ in range(MAX_HANDFULS if n_clients > size else 0):
            chosen = np.zeros(n_clients, dtype=np.bool_)
            chosen[rng.choice(n_clients, size, replace=False)] = True
            yield from self._spectral(chosen, rng)

    def _spectral(self, clients: BoolArray, rng: np.random.Generator) -> Iterator[Array]:
        """Algorithm 1 on the votes of some clients, if they are enough: (p, r)."""
        r = self.n_components
        inside = clients[self.owner]
        if inside.sum() < 2 * r:
            return
        columns = columns_of(self.points[:, inside])
        whitened = leading_directions(columns, r).whitened(columns) if self.whiten else columns
        try:
            grouped = group_atoms(columns, whitened, r, affinity="squared", n_init=self.n_init, rng=rng)
        except GroupingError:  # too few distinct points among these clients
            return
        yield unit(self.span @ grouped.means)


def _common_span(atoms: Array, owner: IntArray, n_directions: int) -> Array:
    """Leading directions of the mean of the clients' projectors, (p, r): a client moves that mean by 1/K at most."""
    if atoms.shape[0] <= n_directions:
        return np.eye(atoms.shape[0])
    bounds = np.searchsorted(owner, np.arange(int(owner[-1]) + 2))
    bases = np.concatenate([_basis(own) for own in np.split(atoms, bounds[1:-1], axis=1)], axis=1)
    return leading_directions(columns_of(bases), n_directions).axes.T


def _basis(atoms: Array) -> Array:
    left, scale, _ = np.linalg.svd(atoms, full_matrices=False)
    return np.asarray(left[:, scale > 1e-6 * scale[0]])


def _complete_clients(atoms: Columns, owner: IntArray, r: int, rng: np.random.Generator) -> list[Array]:
    """Return the atoms of up to ``MAX_CANDIDATES`` random clients that sent r independent ones: (p, r) each."""
    complete = np.flatnonzero(np.bincount(owner) == r)
    if complete.size > MAX_CANDIDATES:
        complete = rng.choice(complete, MAX_CANDIDATES, replace=False)
    candidates = [atoms.take(np.flatnonzero(owner == k)) for k in complete]
    return [c for c in candidates if np.linalg.cond(c) < 1e6]  # copies of one atom span nothing


def concentrate(atoms: Columns, owner: IntArray, reference: Array) -> Array:
    """Average the nearer half of each component's atoms, ordered by their clients, until the half stays the same."""
    r = reference.shape[1]
    before = np.empty(0)
    for _ in range(MAX_STEPS):
        assignment = assign_atoms(atoms, owner, reference)
        by_client = _mean_sines(assignment, owner)[owner] + 1e-9 * assignment.distance
        chosen = np.where(nearest_halves(by_client, assignment.labels, r), assignment.labels, -1)
        if np.array_equal(chosen, before):
            break
        before = chosen
        ones = np.ones(owner.size)
        reference = unit(group_means(atoms, chosen, r, signs=assignment.signs, weights=ones, otherwise=reference))
    return reference


def half_distance(atoms: Columns, owner: IntArray, reference: Array) -> float:
    """Distance within which half of the clients are: the median of their mean squared sines."""
    return float(np.median(_mean_sines(assign_atoms(atoms, owner, reference), owner)))  # (C2)


def chance_basis(span: Array, rng: np.random.Generator) -> Array:
    """Return r random directions within the span of r columns, (p, r), alike in all directions of that span."""
    left = np.linalg.svd(span, full_matrices=False)[0]
    return unit(left @ rng.standard_normal((left.shape[1], left.shape[1])))


def _mean_sines(assignment: Assignment, owner: IntArray) -> Array:
    """Mean squared sine over the assigned atoms of each client: no bad atom goes unnoticed, none counts more than 1."""
    matched = assignment.labels >= 0
    counts = np.bincount(owner, weights=matched)
    squares = assignment.distance**2
    sums = np.bincount(owner, weights=np.where(matched, squares / (1 + squares), 0.0))
    return np.asarray(sums / np.maximum(counts, 1))

"""Group ICA: the common span of all clients, robustly; one spatial ICA in it; and who has which component."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.stats import beta

from fedica.arrays import Array, BoolArray, IntArray, polar
from fedica.blocks import rows_of
from fedica.errors import GroupingError
from fedica.ica import SOLVERS, Rotation, Whitened
from fedica.ica.fast import FastICAStep, fast_from, newton_steps
from fedica.server.admission import Admitted
from fedica.server.explained import shares
from fedica.server.group.counting import Counting, who_counts
from fedica.server.group.influence import Moved, Response, capped
from fedica.server.group.spans import Spans, spans_of

SOLVER = "auto"
"""The solver of the one ICA over features."""
MAX_ITER = 500
"""Its iterations."""
MAX_INIT, STARTED_COMPONENTS = 10, 200
"""Its random starts, of which the best is kept: from one alone it may end at a worse optimum. Fewer for many
components, whose runs take long: these many components in all."""
CHANCE = 0.01
"""A client has a direction when this much of it lies in its span in one of a hundred unrelated directions."""
SHARED_BY = 0.25
"""Directions that more than this share of the clients have come before all others."""
MAX_REFITS = 10
"""How often the common span is found anew with the clients that count."""
EXACT, MAX_EXACT = 1e-10, 10
"""Then it goes on to the optimum itself, which does not depend on the start, where that takes few steps."""
N_SWEEPS, SPARE = 3, 10
"""Sweeps over more maps than fit in memory, to find their common directions; and directions more than are wanted."""
MANY_MAPS = 2
"""Clients with more than this many times as many maps as the median client do not take part in choosing how many
components there are."""
MAX_CAPS = 3
"""How often clients that move a component too far are given less weight."""


@dataclass(frozen=True, eq=False)
class Group:
    """Components of a group, and the clients against them. K clients, r components, q >= r directions.

    Parameters
    ----------
    components : ndarray of shape (d, r)
        Orthonormal maps.
    eigenvalues : ndarray of shape (q,)
        Of the mean projector, along the leading directions.
    counting : Counting
        Who counts.
    weights : ndarray of shape (K,)
        Of each client in the mean projector.
    inside : ndarray of shape (K, r)
        c_ki: how much of component i lies in client k's span (G7).
    has : ndarray of bool of shape (K, r)
        Whether that is more than chance.
    chance : ndarray of shape (K,)
        c_ki of an unrelated direction.
    explained : ndarray of shape (K, r), optional
        Share of each client's variance that each component explains; see `explained_variance`.
    influence : ndarray of shape (K,)
        How far the component that moves most would move without the client, to first order, in degrees.
    """

    components: Array
    eigenvalues: Array
    counting: Counting
    weights: Array
    inside: Array
    has: BoolArray
    chance: Array
    explained: Array | None
    influence: Array


def find_group(admitted: Admitted, r: int, client_weights: Array, rng: np.random.Generator) -> Group:
    """Find r components of all clients together.

    client_weights : (K,), in the mean projector. Clients whose spans the others do not share are left out, and the rest
    refitted.
    """
    _check_spatial(admitted)
    whole = spans_of(admitted)
    first = client_weights / client_weights.sum()
    start = np.random.default_rng(0).standard_normal((whole.n_features, _n_directions(r) + SPARE))
    spans = _held(whole, first, start, N_SWEEPS)
    common = _common_span(spans, r, client_weights)
    turned = _turn(common, rng)
    for _ in range(MAX_CAPS):
        weights = capped(common.weights, turned.moved, turned.has)
        if np.allclose(weights, common.weights, rtol=0.01, atol=0):
            break
        found = _directions(spans, weights, _n_directions(r))
        common = _common(spans, found, r, common.counting, weights)
        turned = _turn(common, rng, turned)
    if spans is not whole:  # once more over all maps, with the weights that were found
        spans = _held(whole, common.weights, common.directions, 1)
        found = _directions(spans, common.weights, _n_directions(r))
        common = _common(spans, found, r, common.counting, common.weights)
        turned = _turn(common, rng, turned)
    for issue in turned.rotation.warnings:
        warnings.warn(issue, stacklevel=5)
    return Group(
        components=turned.components,
        eigenvalues=common.eigenvalues,
        counting=common.counting,
        weights=common.weights,
        inside=turned.inside,
        has=turned.has,
        chance=common.chance,
        explained=_explained(spans, admitted.grams, turned.components),
        influence=turned.moved.whole.max(axis=1),
    )


def _held(spans: Spans, weights: Array, start: Array, n_sweeps: int) -> Spans:
    """Return the spans; of more maps than fit in memory, what lies in a basis that holds the leading directions."""
    return spans if spans.fit_memory else spans.within(spans.krylov(weights, start, n_sweeps))


def _explained(spans: Spans, grams: Sequence[Array | None], components: Array) -> Array | None:
    """Return the share of each client's variance that each component explains, (K, r); see `explained_variance`."""
    if all(gram is None for gram in grams):
        return None
    parts = zip(spans.along(components), spans.products, grams, strict=True)
    return np.array([shares(coordinates, product, gram) for coordinates, product, gram in parts])


def choose_n_directions(admitted: Admitted, client_weights: Array) -> int:
    """Return how many directions of the mean projector stand above those of clients whose features are shuffled.

    Clients with many more maps than most are not asked: time and memory grow with the largest number.
    """
    _check_spatial(admitted)
    n_maps = np.bincount(admitted.client_of_atom)
    asked = np.flatnonzero(n_maps <= MANY_MAPS * np.median(n_maps))
    if asked.size < n_maps.size:
        admitted, client_weights = admitted.of_clients(asked), client_weights[asked]
    spans = spans_of(admitted)
    if not spans.fit_memory:
        raise GroupingError("with so many maps the number of components is not chosen. Give n_components.")
    common = _common_span(spans, 1, client_weights, n_directions=2 * int(max(n_maps[asked])))
    null = _shuffled(spans).leading(common.weights, 1)[1][0]
    return max(int((common.eigenvalues > null).sum()), 1)  # (G9)


def _check_spatial(admitted: Admitted) -> None:
    if admitted.terms.independence != "features":
        declared = admitted.terms.independence
        raise GroupingError(
            "method='group' needs maps that are independent over features (spatial ICA): a common span can then be "
            "turned by one ICA over features. For sources that are independent over samples the samples would be "
            f"needed, which stay at the clients. Expected independence='features'; got {declared!r}. Use "
            "method='consensus'."
        )


@dataclass(frozen=True, eq=False)
class _Directions:
    """The leading directions of a mean projector."""

    directions: Array  # (d, q)
    eigenvalues: Array  # (q,)
    inside: Array  # (K, q, q), each client's projector in these directions
    halves: tuple[Array, ...]  # (q, m_k) each, its square root


@dataclass(frozen=True, eq=False)
class _Common(_Directions):
    """The leading directions of the mean projector, and which r of them span the components."""

    leading: IntArray  # (r,)
    counting: Counting
    weights: Array  # (K,)
    chance: Array  # (K,)
    limits: Array  # (K,), what chance does not exceed
    unseen: Array  # (K, r, r), products of what each projector makes of the leading directions, beyond the q


def _common_span(spans: Spans, r: int, client_weights: Array, n_directions: int = 0) -> _Common:
    """Find the mean projector's leading directions, and leave out the clients that do not share them."""
    n_directions = n_directions or _n_directions(r)
    first: Counting | None = None
    weights = client_weights / client_weights.sum()
    for _ in range(MAX_REFITS):
        found = _directions(spans, weights, n_directions)
        counting = who_counts(found.inside, spans.sizes, spans.norms, spans.n_features)
        first = first or counting
        before, weights = weights, counting.weights(client_weights)
        if np.allclose(before, weights, rtol=0, atol=1e-12):  # the directions are those of the clients that count
            break
    counting = replace(counting, shared=(first or counting).shared)  # with the directions of those left out since
    return _common(spans, found, r, counting, weights)


def _n_directions(r: int) -> int:
    """Return how many leading directions are looked at, for r components."""
    return max(3 * r, r + 30)


def _directions(spans: Spans, weights: Array, n_directions: int) -> _Directions:
    """Return the leading directions of the mean projector of clients with these weights."""
    directions, eigenvalues = spans.leading(weights, n_directions)  # (G3)
    halves = [x @ t for x, t in zip(spans.along(directions), spans.factors, strict=True)]
    return _Directions(directions, eigenvalues, np.array([half @ half.T for half in halves]), tuple(halves))


def _common(spans: Spans, found: _Directions, r: int, counting: Counting, weights: Array) -> _Common:
    """Return the common span: which of the directions span the components."""
    along = np.einsum("kqq->kq", found.inside)
    chance = _chance(along, r, spans.sizes, spans.n_features)
    limits = _limits(spans.sizes, chance)
    has = along > limits[:, None]
    leading = _leading(found.eigenvalues, has[weights > 0], r)
    unseen = _unseen(spans, found, leading)
    return _Common(
        **vars(found), leading=leading, counting=counting, weights=weights, chance=chance, limits=limits, unseen=unseen
    )


def _unseen(spans: Spans, found: _Directions, leading: IntArray) -> Array:
    """Return the products of what each projector makes of the leading directions beyond the q, (K, r, r)."""
    own = [half[leading] for half in found.halves]
    squares = [x @ (t.T @ product @ t) @ x.T for x, t, product in zip(own, spans.factors, spans.products, strict=True)]
    return np.array(squares) - found.inside[:, leading] @ found.inside[:, :, leading]


@dataclass(frozen=True, eq=False)
class _Turned:
    """The one ICA, and the clients against its components."""

    rotation: Rotation
    components: Array  # (d, r)
    inside: Array  # (K, r)
    has: BoolArray  # (K, r)
    moved: Moved


def _turn(common: _Common, rng: np.random.Generator, before: _Turned | None = None) -> _Turned:
    """Find the components in the common span, and how much of each lies in every client's.

    before : components of a span that is near, from which the ICA then starts.
    """
    basis = common.directions[:, common.leading]
    solver, r = SOLVERS[SOLVER], common.leading.size
    white = Whitened(rows_of(basis * np.sqrt(len(basis))))
    if before is None:
        n_init = int(np.clip(STARTED_COMPONENTS // r, 1, MAX_INIT))
        rotation = solver.solve(white, n_init=n_init, tol=solver.tol, max_iter=MAX_ITER, rng=rng)
    else:
        rotation = fast_from(white, polar(basis.T @ before.components), tol=solver.tol, max_iter=MAX_ITER)
    exact = newton_steps(FastICAStep(white), rotation.matrix, goal=EXACT, max_iter=MAX_EXACT)
    rotation = replace(rotation, matrix=exact.matrix) if exact.settled else rotation
    own = common.inside[:, common.leading][:, :, common.leading]
    inside = np.einsum("ai,kab,bi->ki", rotation.matrix, own, rotation.matrix, optimize=True)  # (G7)
    response = Response.of(common.directions, common.eigenvalues, common.leading, rotation.matrix)
    moved = Moved.of(response, common.inside, common.unseen, common.weights)
    has = inside > common.limits[:, None]  # (G8)
    return _Turned(rotation, basis @ rotation.matrix, inside, has, moved)  # (G6)


def _leading(eigenvalues: Array, has: BoolArray, r: int) -> IntArray:
    """Return the r directions that span the components: those that many clients have, then the strongest others."""
    if eigenvalues.size < r:
        raise GroupingError(
            f"{r} components were wanted, but the spans of all clients together have {eigenvalues.size} directions. "
            f"Ask for n_components={eigenvalues.size} or fewer, or let clients send more maps."
        )
    is_shared = has.sum(axis=0) > max(SHARED_BY * len(has), 1)
    return np.sort(np.lexsort((-eigenvalues, ~is_shared))[:r])


def _chance(along: Array, r: int, sizes: Array, n_features: int) -> Array:
    """Return how much of an unrelated direction lies in each span, (K,): as of the typical one that was not taken.

    Maps are smooth, so that this is more than the trace over the number of features.
    """
    white = sizes / n_features
    unrelated = np.median(along[:, r:], axis=1) if along.shape[1] > r + 10 else white
    return np.clip(np.maximum(unrelated, white), 1e-12, 0.5)


def _limits(sizes: Array, chance: Array) -> Array:
    """Return what a span holds of an unrelated direction in all but `CHANCE` of the cases, (K,): a Beta law."""
    shape = np.maximum(sizes, 1e-6) / 2
    return np.asarray(beta.ppf(1 - CHANCE, shape, shape * (1 / chance - 1)))


def _shuffled(spans: Spans) -> Spans:
    """Return the spans with every client's features in an order of its own: unrelated, and each as before."""
    rng = np.random.default_rng(0)
    bounds = spans.bounds
    parts = [
        spans.atoms.take(np.arange(first, last))[rng.permutation(spans.atoms.shape[0])]
        for first, last in pairwise(bounds)
    ]
    return replace(spans, atoms=spans.atoms.in_same_blocks(np.concatenate(parts, axis=1)))

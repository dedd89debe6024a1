"""Group ICA: the common span of all clients, robustly; one spatial ICA in it; and who has which component."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.stats import beta

from fedica.arrays import Array, BoolArray, IntArray
from fedica.blocks import rows_of
from fedica.errors import GroupingError
from fedica.ica import SOLVERS, Whitened
from fedica.server.admission import Admitted
from fedica.server.group.counting import Counting, who_counts
from fedica.server.group.spans import Spans, spans_of

SOLVER = "auto"
"""The solver of the one ICA over features."""
MAX_ITER = 500
"""Its iterations."""
CHANCE = 0.01
"""A client has a direction when this much of it lies in its span in one of a hundred unrelated directions."""
SHARED_BY = 0.25
"""Directions that more than this share of the clients have come before all others."""
MAX_REFITS = 10
"""How often the common span is found anew with the clients that count."""


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
    explained : ndarray of shape (K,)
        Share of the variance that a client sent which lies in the components' span; NaN without strengths.
    influence : ndarray of shape (K,)
        Largest angle, in degrees, of a component to the common span without the client.
    """

    components: Array
    eigenvalues: Array
    counting: Counting
    weights: Array
    inside: Array
    has: BoolArray
    chance: Array
    explained: Array
    influence: Array


def find_group(admitted: Admitted, r: int, client_weights: Array, rng: np.random.Generator) -> Group:
    """Find r components of all clients together.

    client_weights : (K,), in the mean projector. Clients whose spans the others do not share are left out, and the rest
    refitted.
    """
    _check_spatial(admitted)
    spans = spans_of(admitted)
    common = _common_span(spans, r, client_weights)
    basis = common.directions[:, common.leading]
    solver = SOLVERS[SOLVER]
    white = Whitened(rows_of(basis * np.sqrt(len(basis))))
    rotation = solver.solve(white, n_init=solver.n_init, tol=solver.tol, max_iter=MAX_ITER, rng=rng)
    for issue in rotation.warnings:
        warnings.warn(issue, stacklevel=5)
    turn = rotation.matrix
    components = basis @ turn  # (G6)
    coordinates = spans.along(components)
    inside = np.array([((x @ t) ** 2).sum(axis=1) for x, t in zip(coordinates, spans.factors, strict=True)])  # (G7)
    return Group(
        components=components,
        eigenvalues=common.eigenvalues,
        counting=common.counting,
        weights=common.weights,
        inside=inside,
        has=inside > _limits(spans.sizes, common.chance)[:, None],  # (G8)
        chance=common.chance,
        explained=_explained(spans, coordinates),
        influence=_influence(common, turn),
    )


def choose_n_directions(admitted: Admitted, client_weights: Array) -> int:
    """Return how many directions of the mean projector stand above those of clients whose features are shuffled."""
    _check_spatial(admitted)
    spans = spans_of(admitted)
    if not spans.fit_memory:
        raise GroupingError("with so many maps the number of components is not chosen. Give n_components.")
    common = _common_span(spans, 1, client_weights, n_directions=2 * int(max(np.bincount(admitted.client_of_atom))))
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
class _Common:
    """The leading directions of the mean projector, and which r of them span the components."""

    directions: Array  # (d, q)
    eigenvalues: Array  # (q,)
    inside: Array  # (K, q, q), each client's projector in these directions
    leading: IntArray  # (r,)
    counting: Counting
    weights: Array  # (K,)
    chance: Array  # (K,)


def _common_span(spans: Spans, r: int, client_weights: Array, n_directions: int = 0) -> _Common:
    """Find the mean projector's leading directions, and leave out the clients that do not share them."""
    n_directions = n_directions or max(3 * r, r + 30)
    n_features = spans.atoms.shape[0]
    first: Counting | None = None
    weights = client_weights / client_weights.sum()
    for _ in range(MAX_REFITS):
        directions, eigenvalues = spans.leading(weights, n_directions)  # (G3)
        halves = [x @ t for x, t in zip(spans.along(directions), spans.factors, strict=True)]
        inside = np.array([half @ half.T for half in halves])
        counting = who_counts(inside, spans.sizes, spans.norms, n_features)
        first = first or counting
        before, weights = weights, counting.weights(client_weights)
        if np.allclose(before, weights, rtol=0, atol=1e-12):  # the directions are those of the clients that count
            break
    counting = replace(counting, shared=(first or counting).shared)  # with the directions of those left out since
    along = np.einsum("kqq->kq", inside)
    chance = _chance(along, r, spans.sizes, n_features)
    has = along > _limits(spans.sizes, chance)[:, None]
    leading = _leading(eigenvalues, has[weights > 0], r)
    return _Common(directions, eigenvalues, inside, leading, counting, weights, chance)


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


def _explained(spans: Spans, coordinates: list[Array]) -> Array:
    """Return the share of each client's variance that lies in the components' span, (K,); NaN without strengths."""
    variances = [
        np.nan if half is None else float(((x @ half) ** 2).sum())
        for x, half in zip(coordinates, spans.halves, strict=True)
    ]
    return np.array(variances) / np.maximum(spans.totals, 1e-300)


def _influence(common: _Common, turn: Array) -> Array:
    """Return the largest angle of a component to the common span without each client, in degrees, (K,)."""
    mean = np.einsum("k,kij->ij", common.weights, common.inside)
    components = np.eye(len(mean))[:, common.leading] @ turn
    influence = np.zeros(len(common.weights))
    for k in np.flatnonzero(common.weights).tolist():
        values, vectors = np.linalg.eigh(mean - common.weights[k] * common.inside[k])
        kept = vectors[:, np.sort(np.argsort(-values)[: turn.shape[1]])]
        left = np.sqrt(np.maximum(1 - ((kept.T @ components) ** 2).sum(axis=0), 0.0))
        influence[k] = np.degrees(np.arcsin(min(float(left.max()), 1.0)))
    return influence


def _shuffled(spans: Spans) -> Spans:
    """Return the spans with every client's features in an order of its own: unrelated, and each as before."""
    rng = np.random.default_rng(0)
    bounds = spans.bounds
    parts = [
        spans.atoms.take(np.arange(first, last))[rng.permutation(spans.atoms.shape[0])]
        for first, last in pairwise(bounds)
    ]
    return replace(spans, atoms=spans.atoms.in_same_blocks(np.concatenate(parts, axis=1)))

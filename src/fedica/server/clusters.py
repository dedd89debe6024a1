"""Step 4: k-means on the embedded atoms, with a lower bound on its objective."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from scipy.linalg import qr

from fedica.arrays import Array, IntArray
from fedica.blocks import Columns, membership
from fedica.errors import GroupingError
from fedica.threads import one_openmp_thread

MAX_SWEEPS = 50


@dataclass(frozen=True, eq=False)
class Clusters:
    """A grouping of points, its objective, and a lower bound of all groupings."""

    labels: IntArray  # (R,), group of each point, 0 to r - 1; none is empty
    objective: float  # sum of squared distances to the group means
    lower_bound: float  # proven: every grouping into r groups has at least this objective (Algorithm 2)


def kmeans(
    points: Columns, n_clusters: int, *, n_init: int, rng: np.random.Generator, sample: IntArray | None = None
) -> Clusters:
    """Minimise sum_i ||q_i - theta_sigma(i)||^2 over centres theta and labels sigma, Eq. (11).

    points : (p, R), one per column. The best of n_init random starts and one deterministic start is returned. Of very
    many points a sample (of these columns) is grouped so, and its centres are the one start for all of them.

    Raises
    ------
    GroupingError
        If the points are fewer than n_clusters distinct ones, so that a group would be empty.
    """
    KMeans = import_module("sklearn.cluster").KMeans  # imported here: it loads a hundred modules
    competing = np.ascontiguousarray((points.whole() if sample is None else points.take(sample)).T)
    if len(competing) < n_clusters:
        check_no_empty(np.arange(len(competing)), n_clusters)
    starts = [
        KMeans(n_clusters, init=random_points, n_init=n_init, random_state=int(rng.integers(2**31 - 1))),
        KMeans(n_clusters, init=spread_out_points(competing, n_clusters), n_init=1),
    ]
    with warnings.catch_warnings(), one_openmp_thread():
        warnings.simplefilter("ignore")  # too few distinct points: an error below
        runs = [start.fit(competing) for start in starts]
    best = min(runs, key=lambda run: float(run.inertia_))  # the first on a tie
    if sample is None:
        labels, objective = np.asarray(best.labels_, dtype=np.int64), float(best.inertia_)
    else:
        labels, objective = _lloyd(points, np.asarray(best.cluster_centers_, dtype=np.float64).T)
    check_no_empty(labels, n_clusters)
    return Clusters(labels, objective, kmeans_lower_bound(points, n_clusters))


def _lloyd(points: Columns, centres: Array) -> tuple[IntArray, float]:
    """Lloyd's iteration on all points from given centres, (p, r): labels, and the sum of squared distances.

    It stops, as scikit-learn's does, when no label changes or the centres move by less than 1e-4 of the spread.
    """
    r = centres.shape[1]

    def assign(block: Array, centres: Array) -> tuple[tuple[IntArray], tuple[Array, Array, Array, Array]]:
        nearness = block.T @ centres - 0.5 * np.einsum("pr,pr->r", centres, centres)
        labels = np.argmax(nearness, axis=1)
        member = membership(labels, r)
        squares = np.einsum("pb,pb->p", block, block)
        best = nearness[np.arange(labels.size), labels].sum()
        return (labels,), (block @ member, member.sum(axis=0), squares, best)

    labels = np.empty(0, dtype=np.int64)
    for _ in range(MAX_SWEEPS):
        before, now = labels, centres
        (labels,), (sums, counts, squares, best) = points.sweep(lambda block, c=now: assign(block, c))
        centres = np.where(counts > 0, sums / np.maximum(counts, 1), now)
        spread = squares.sum() / labels.size - ((sums.sum(axis=1) / labels.size) ** 2).sum()
        if np.array_equal(labels, before) or ((centres - now) ** 2).sum() <= 1e-4 * spread / points.shape[0]:
            break
    return labels, max(float(squares.sum() - 2 * best), 0.0)


def random_points(points: Array, n_clusters: int, random_state: np.random.RandomState) -> Array:
    """Choose r of the points at random, those that are far from the others with more probability: k-means++.

    The same choice as scikit-learn's, number by number, without the checks that it repeats for every candidate: those
    are most of the time where points are few. points : (R, p); result : (r, p).
    """
    n, n_tried = len(points), 2 + int(np.log(n_clusters))
    squares = np.einsum("np,np->n", points, points)

    def distances(own: IntArray) -> Array:
        return np.asarray(np.maximum(squares[own, None] + squares - 2 * points[own] @ points.T, 0.0))

    chosen = np.empty(n_clusters, dtype=np.int64)
    chosen[0] = random_state.choice(n, p=np.full(n, 1 / n))
    nearest = distances(chosen[:1])[0]
    left = nearest.sum()
    for c in range(1, n_clusters):
        tried = np.searchsorted(np.cumsum(nearest), random_state.uniform(size=n_tried) * left).clip(max=n - 1)
        nearer = np.minimum(nearest, distances(tried))
        sums = nearer.sum(axis=1)
        best = int(np.argmin(sums))
        chosen[c], nearest, left = tried[best], nearer[best], sums[best]
    return np.ascontiguousarray(points[chosen])


def spread_out_points(points: Array, n_clusters: int) -> Array:
    """Choose r of the points as far from linearly dependent as pivoted QR finds them. points : (R, p)."""
    _, pivots = qr(points.T, mode="r", pivoting=True)
    return np.ascontiguousarray(points[pivots[:n_clusters]])


def kmeans_lower_bound(points: Columns, n_clusters: int) -> float:
    """Sum of the squared trailing singular values of the centred points, beyond the first n_clusters - 1.

    The group means span at most n_clusters - 1 dimensions around the overall mean, and no projection on so few
    dimensions leaves less than these singular values (Eckart and Young; Ding and He 2004).
    """
    sums, squares = points.total(lambda block: (block.sum(axis=1), block @ block.T))
    scatter = squares - np.outer(sums, sums) / points.shape[1]
    values = np.linalg.eigvalsh(scatter)
    return float(np.maximum(values[: max(sums.size - n_clusters + 1, 0)], 0).sum())


def check_no_empty(labels: IntArray, n_clusters: int) -> None:
    """Refuse a grouping with an empty group."""
    n_found = int(np.count_nonzero(np.bincount(labels[labels >= 0], minlength=n_clusters)))
    if n_found < n_clusters:
        raise GroupingError(
            f"the {labels.size} atoms form {n_found} groups; {n_clusters} components were wanted. "
            f"Ask for n_components={n_found}, or add clients that see the others."
        )

"""Step 4: k-means on the embedded atoms, with a proof of how good it is."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr
from sklearn.cluster import KMeans

from fedica.arrays import Array, IntArray
from fedica.errors import GroupingError

SAMPLE = 30_000
"""Points among which the starts compete; with more than these, a random sample."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """A grouping of points, its objective, and what no grouping can go below.

    Parameters
    ----------
    labels : ndarray of shape (R,)
        Group of each point, 0 to r - 1; none is empty.
    objective : float
        Sum of squared distances to the group means.
    lower_bound : float
        Proven: every grouping into r groups has at least this objective (Algorithm 2).
    """

    labels: IntArray
    objective: float
    lower_bound: float


def kmeans(points: Array, n_clusters: int, *, n_init: int, rng: np.random.Generator) -> Clusters:
    """Minimise sum_i ||q_i - theta_sigma(i)||^2 over centres theta and labels sigma, Eq. (11).

    points : (R, r), one a row. The best of n_init random starts and of one deterministic start is returned. Of very
    many points a random sample is grouped so, and its centres are the one start for all of them.

    Raises
    ------
    GroupingError
        If the points are fewer than n_clusters distinct ones, so that a group would be empty.
    """
    sample = points
    if points.shape[0] > SAMPLE:
        sample = points[np.sort(rng.choice(points.shape[0], SAMPLE, replace=False))]
    starts = [
        KMeans(n_clusters, init="k-means++", n_init=n_init, random_state=int(rng.integers(2**31 - 1))),
        KMeans(n_clusters, init=spread_out_points(sample, n_clusters), n_init=1),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few distinct points: said below, as an error
        runs = [start.fit(sample) for start in starts]
        best = min(runs, key=lambda run: float(run.inertia_))  # the first on a tie
        if sample is not points:
            best = KMeans(n_clusters, init=best.cluster_centers_, n_init=1).fit(points)
    labels = np.asarray(best.labels_, dtype=np.int64)
    check_no_empty(labels, n_clusters)
    return Clusters(labels, float(best.inertia_), kmeans_lower_bound(points, n_clusters))


def spread_out_points(points: Array, n_clusters: int) -> Array:
    """Choose r of the points that are as far from linearly dependent as pivoted QR can tell. points : (R, r)."""
    _, pivots = qr(points.T, mode="r", pivoting=True)
    return np.ascontiguousarray(points[pivots[:n_clusters]])


def kmeans_lower_bound(points: Array, n_clusters: int) -> float:
    """Sum of the squared trailing singular values of the centred points, beyond the first n_clusters - 1.

    The group means span at most n_clusters - 1 dimensions around the overall mean, and no projection on so few
    dimensions leaves less than these singular values (Eckart and Young; Ding and He 2004).
    """
    centred = points - points.mean(axis=0)
    values = np.linalg.eigvalsh(centred.T @ centred)
    return float(np.maximum(values[: max(points.shape[1] - n_clusters + 1, 0)], 0).sum())


def check_no_empty(labels: IntArray, n_clusters: int) -> None:
    """Refuse a grouping with an empty group."""
    n_found = np.unique(labels[labels >= 0]).size
    if n_found < n_clusters:
        raise GroupingError(
            f"the {labels.size} atoms form {n_found} groups; {n_clusters} components were wanted. "
            f"Ask for n_components={n_found}, or add clients that see the others."
        )

"""Which clients' second messages count: a robust centre of the steps that they ask for.

(R4) A client's distance is the mean square of its steps less the centre's, each over its expected error. The centre is
     a geometric median, then the mean of the clients that count: those within a cut of the typical distance, less
     minorities that share a deviation and stand apart along it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import chi2

from fedica.arrays import Array, BoolArray
from fedica.blocks import weighted_median
from fedica.server.refinement.steps import Steps

DEVIATIONS = 4.0
"""A client counts whose log distance is within this many deviations of the typical one."""
MAX_EXCESS = 4.0
"""However much clients differ, none counts whose squared distance is more than this times the typical one."""
FALSE_ALARMS = 1e-4
"""Unless one client in so many is as far by chance."""
MAX_SHARED = 5
"""Shared deviations that are looked for, one after the other."""
BEYOND_EDGE = 5.0
"""An eigenvalue is beyond chance this many deviations (Tracy and Widom) above the edge (Marchenko and Pastur)."""
APART = 4.0
"""Distance between two groups over their own spread; the halves of one Gaussian cloud have 2.7."""
MIN_CLIENTS = 4
"""With fewer clients nobody can be told from the others."""
MIN_SHARING = 8
"""With fewer clients no shared deviation is looked for: any three of seven may agree."""


def agreeing_clients(steps: Steps) -> BoolArray:
    """Tell which clients' steps agree, (K,). Nobody weighs more than the median client here."""
    n = steps.n_samples
    weights = np.minimum(n, np.median(n))
    counts = np.ones(n.size, dtype=np.bool_)
    if n.size < MIN_CLIENTS:
        return counts
    centre, apart = geometric_median(steps, weights), np.zeros(n.size, dtype=np.bool_)
    for _ in range(20):
        near = within_cut(steps, centre, weights) & ~apart
        apart |= shared_minorities(steps, weights * near)  # once seen apart, for good: without it the others are nearer
        kept = near & ~apart
        if (kept == counts).all():
            break
        counts, centre = kept, steps.mean(weights * kept)
    return counts


def geometric_median(steps: Steps, weights: Array, max_iter: int = 100, tol: float = 1e-6) -> Array:
    """Minimise the sum of the clients' distances over the centre, (p,), by Weiszfeld's iteration."""
    capped = replace(steps, n_samples=weights)
    centre = capped.mean(weights)
    for _ in range(max_iter):
        pull = weights / np.sqrt(np.maximum(capped.distances(centre), 1e-12))
        before, centre = centre, capped.mean(pull)
        if np.abs(centre - before).max() <= tol * np.abs(centre).max():
            break
    return centre


def within_cut(steps: Steps, centre: Array, weights: Array) -> BoolArray:
    """Tell which clients are as near to the centre as clients like the others are, (K,)."""
    p = np.maximum(steps.has.sum(axis=1), 1)
    log = np.log(np.maximum(steps.distances(centre), 1e-12))
    typical = weighted_median(log, weights, empty=0.0)
    among_clients = 1.4826 * weighted_median(np.abs(log - typical), weights, empty=0.0)
    by_chance = np.log(chi2.ppf(1 - FALSE_ALARMS, p) / p)
    return np.asarray(log <= typical + np.maximum(by_chance, min(DEVIATIONS * among_clients, np.log(MAX_EXCESS))))


def shared_minorities(steps: Steps, weights: Array) -> BoolArray:
    """Tell which clients share a deviation that independent errors do not explain, and stand apart, (K,)."""
    apart = np.zeros(weights.size, dtype=np.bool_)
    for _ in range(MAX_SHARED):
        used = np.flatnonzero((weights > 0) & ~apart)
        if used.size < MIN_SHARING:
            break
        centre = steps.mean(weights * ~apart)
        z = np.where(steps.has, steps.values - centre, 0.0)[used] * np.sqrt(weights[used])[:, None]
        z /= np.sqrt(np.median((z**2).sum(axis=1)) / steps.has.shape[1])
        values, vectors = np.linalg.eigh(z @ z.T / z.shape[1])
        if values[-1] <= largest_by_chance(*z.shape):
            break
        lighter = _lighter_part(vectors[:, -1] * np.sqrt(values[-1] * z.shape[1]), weights[used])
        if lighter is None:
            break
        apart[used[lighter]] = True
    return apart


def largest_by_chance(n: int, p: int) -> float:
    """Largest eigenvalue that n independent errors in p dimensions have, over p."""
    edge = (np.sqrt(p) + np.sqrt(n)) ** 2
    deviation = (np.sqrt(p) + np.sqrt(n)) * (1 / np.sqrt(p) + 1 / np.sqrt(n)) ** (1 / 3)
    return float((edge + BEYOND_EDGE * deviation) / p)


def _lighter_part(position: Array, weights: Array) -> BoolArray | None:
    """Split weighted points on a line in two; return the lighter part if the two stand apart. position : (n,)."""
    order = np.argsort(position, kind="stable")
    x, w = position[order], weights[order]
    left, total = np.cumsum(w)[:-1], w.sum()
    sums, squares = np.cumsum(w * x), np.cumsum(w * x * x)
    right = total - left
    means = sums[:-1] / left, (sums[-1] - sums[:-1]) / right
    within = np.maximum(squares[-1] - left * means[0] ** 2 - right * means[1] ** 2, 1e-300) / total
    gap = (means[1] - means[0]) / np.sqrt(within)
    cut = int(np.argmax(gap))
    if gap[cut] <= APART:
        return None
    bound = (x[cut] + x[cut + 1]) / 2
    return np.asarray(position < bound if left[cut] < right[cut] else position > bound)

"""Which clients' second messages count: a robust centre of the steps that they ask for.

(R4) A client's distance is the mean square of its steps less the centre's, each over its expected error. The centre is
     a geometric median, then the mean of the clients that count: those within a cut of the typical distance, less
     minorities that share a deviation and stand apart along it.
(R11) So do minorities that share what their first messages do not explain (R10), which are seen sooner; and the clients
     whose two messages are unlike each other, where most are alike, if together these ask for another step.
(R9) Clients that the first message showed outlying count if each is within the cut and all of them together ask for
     what the others ask for: the square of the difference of the two means is within what their errors explain.
(R12) No client counts whose sources look otherwise than the others': by deviation, E[g(y_i) y_i] or E[g'(y_i)].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import chi2

from fedica.arrays import Array, BoolArray
from fedica.blocks import weighted_median
from fedica.server.agreement import NORMAL_MEDIAN, normal_deviation
from fedica.server.refinement.own_fits import Unexplained
from fedica.server.refinement.shared import MAX_SHARED, MIN_SHARING, Shared, shared_deviation
from fedica.server.refinement.steps import Statistics, Steps

DEVIATIONS = 4.0
"""A client counts whose log distance is within this many deviations of the typical one."""
MAX_EXCESS = 4.0
"""However much clients differ, none counts whose squared distance is more than this times the typical one."""
FALSE_ALARMS = 1e-4
"""Unless one client in so many is as far by chance."""
BEYOND_EDGE = 3.0
"""An eigenvalue is beyond chance this many deviations (Tracy and Widom) above the edge (Marchenko and Pastur)."""
APART = 4.0
"""Distance between two groups over their own spread; the halves of a Gaussian cloud have 2.7, of a uniform one 3.5."""
APART_IN_FEW = 3.6
"""The same where it is looked at in few values, which errors of the others do not blur."""
HALVES, HALVES_OF_FEW = 2.9, 50.0
"""The same for what first messages do not explain: the halves of n Gaussian values have 2.9 + 50 / n in one of 200."""
MIN_PART, APART_ALONE = 0.1, 4.3
"""But a part below this share, which is the tail of the others more often, must be this far apart."""
MIN_LIKENESS = 0.4
"""Clients' messages are compared where the cosine of the median client's two is at least this."""
CONTRADICTING = 1e-3
"""They count if their mean differs from the others' by no more than it does by chance in one federation of so many."""
READMITTED = 3.0
"""Outlying clients count if the squared difference of their mean is at most so many deviations above the expected."""
IMPLAUSIBLE = 5.0
"""Sources that differ from the other clients' by more than so many deviations, in the mean square, do not count."""
MIN_CLIENTS = 4
"""With fewer clients nobody can be told from the others."""


def agreeing_clients(steps: Steps, centre: Array, left: Unexplained) -> BoolArray:
    """Tell which clients' steps agree, (K,). Nobody weighs more than the median client here.

    centre : (p,), their geometric median; left : what the clients' first messages do not explain of their steps.
    """
    n = steps.n_samples
    weights = np.minimum(n, np.median(n))
    counts = np.ones(n.size, dtype=np.bool_)
    if n.size < MIN_CLIENTS:
        return counts
    apart = np.zeros(n.size, dtype=np.bool_)
    for _ in range(20):
        near = within_cut(steps, centre, weights) & ~apart
        apart |= contradicting_clients(steps, left.likeness, weights * near)
        others = weights * (near & ~apart)
        apart |= shared_minorities(steps, others) | unexplained_minorities(left.steps, others)
        # Who is once seen apart is so for good: without it the others are nearer.
        kept = near & ~apart
        if (kept == counts).all():
            break
        counts, centre = kept, steps.mean(weights * kept)
    return counts


def plausible_clients(statistics: Statistics) -> BoolArray:
    """Tell whose sources look like those of the other clients, (K,), by what no step is compared by.

    These are the deviation, E[g(y_i) y_i] over it, and E[g'(y_i)] of each source: a few clients that tell other ones
    could otherwise turn the sign of a step. Of each of the three the mean square over sources of a client's differences
    from the medians counts, over the deviation among clients.
    """
    n, has = statistics.n_samples, statistics.has
    plausible = np.ones(n.size, dtype=np.bool_)
    if n.size < MIN_CLIENTS:
        return plausible
    deviations = np.sqrt(np.maximum(np.einsum("kii->ki", statistics.covariance), 1e-24))
    for told in (np.log(deviations), statistics.diagonal / deviations, statistics.slopes):
        typical = np.array([np.median(told[own, i]) if own.any() else 0.0 for i, own in enumerate(has.T)])
        away = np.where(has, np.abs(told - typical), 0.0)
        usual = np.array([normal_deviation(away[own, i], centre=0.0) for i, own in enumerate(has.T)])
        squares = np.sum((away / np.maximum(usual, 0.5 / np.sqrt(n)[:, None])) ** 2, axis=1)
        plausible &= squares <= IMPLAUSIBLE**2 * np.maximum(has.sum(axis=1), 1)  # (R12)
    return plausible


def geometric_median(steps: Steps, max_iter: int = 100, tol: float = 1e-6) -> Array:
    """Minimise the sum of the clients' distances over the centre, (p,), by Weiszfeld's iteration."""
    weights = np.minimum(steps.n_samples, np.median(steps.n_samples))
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
    among_clients = NORMAL_MEDIAN * weighted_median(np.abs(log - typical), weights, empty=0.0)
    by_chance = np.log(chi2.ppf(1 - FALSE_ALARMS, p) / p)
    return np.asarray(log <= typical + np.maximum(by_chance, min(DEVIATIONS * among_clients, np.log(MAX_EXCESS))))


def shared_minorities(steps: Steps, weights: Array) -> BoolArray:
    """Tell which clients share a deviation that independent errors do not explain, and stand apart, (K,)."""

    def part(shared: Shared, own: Array) -> BoolArray | None:
        lighter = _lighter_part(shared.position, own, APART)
        return _lighter_part(shared.sparse, own, APART_IN_FEW) if lighter is None else lighter

    return _parts_apart(steps, weights, part)


def unexplained_minorities(left: Steps, weights: Array) -> BoolArray:
    """Tell which clients share what their first messages do not explain, and stand apart, (K,)."""  # (R11)

    def part(shared: Shared, own: Array) -> BoolArray | None:
        lighter = _lighter_part(shared.position, own, HALVES + HALVES_OF_FEW / own.size)
        if lighter is not None and lighter.mean() < MIN_PART:
            return _lighter_part(shared.position, own, APART_ALONE)
        return lighter

    return _parts_apart(left, weights, part)


def _parts_apart(steps: Steps, weights: Array, part: Callable[[Shared, Array], BoolArray | None]) -> BoolArray:
    """Tell which clients are in parts that stand apart along deviations that clients share, one after the other, (K,).

    part : from a deviation and the weights of the clients that count, (n,), to those that stand apart, if any do.
    """
    apart = np.zeros(weights.size, dtype=np.bool_)
    for kind in steps.kinds:
        for _ in range(MAX_SHARED):
            used = np.flatnonzero((weights > 0) & ~apart)
            shared = shared_deviation(steps, weights * ~apart, kind, BEYOND_EDGE)
            lighter = None if shared is None else part(shared, weights[used])
            if lighter is None:
                break
            apart[used[lighter]] = True
    return apart


def contradicting_clients(steps: Steps, likeness: Array, weights: Array) -> BoolArray:
    """Tell which clients' two messages are unlike each other, if together these ask for another step, (K,).

    likeness, weights : (K,).
    """  # (R11)
    used = weights > 0
    typical = weighted_median(likeness[used], weights[used], empty=0.0)
    unlike = used & (likeness < typical / 2)
    if typical >= MIN_LIKENESS and np.count_nonzero(used) >= MIN_SHARING:
        distances = steps.distances(steps.mean(weights * ~unlike))
        dispersion = [max(1.0, weighted_median(distances, weights * part, empty=1.0)) for part in (~unlike, unlike)]
        for square, p in _differences(steps, weights * ~unlike, weights * unlike, dispersion):
            if square > chi2.ppf(1 - CONTRADICTING, p):
                return np.asarray(unlike)
    return np.zeros(weights.size, dtype=np.bool_)


def readmitted_clients(steps: Steps, counts: BoolArray, outlying: BoolArray) -> BoolArray:
    """Tell which outlying clients agree with those that count, each and all together, (K,)."""  # (R9)
    weights = np.minimum(steps.n_samples, np.median(steps.n_samples))
    centre = steps.mean(weights * counts)
    near = within_cut(steps, centre, weights * counts) & outlying
    dispersion = max(1.0, float(np.median(steps.distances(centre)[counts])))
    for square, p in _differences(steps, weights * counts, weights * near, (dispersion, dispersion)):
        if square > p + READMITTED * np.sqrt(2 * p):
            return np.zeros(counts.size, dtype=np.bool_)
    return near


def _differences(
    steps: Steps, weights: Array, others: Array, dispersion: Sequence[float]
) -> Iterator[tuple[float, int]]:
    """Yield for each kind the squared difference of two means over what is expected, and of how many values it is.

    weights, others : (K,); dispersion : squared errors of the clients of each over those that samples explain.
    """
    difference = (steps.mean(others) - steps.mean(weights)) ** 2
    expected = dispersion[0] * steps.expected_errors(weights) + dispersion[1] * steps.expected_errors(others)
    for kind in steps.kinds:
        known = np.isfinite(expected[kind])
        yield float(np.sum(difference[kind][known] / expected[kind][known])), max(int(known.sum()), 1)


def _lighter_part(position: Array, weights: Array, apart: float) -> BoolArray | None:
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
    if gap[cut] <= apart:
        return None
    bound = (x[cut] + x[cut + 1]) / 2
    return np.asarray(position < bound if left[cut] < right[cut] else position > bound)

"""Deviations that clients share beyond what independent errors explain, and what these may have moved their mean by.

(R8) Independent errors of K clients in p values give eigenvalues up to an edge; one beyond it tells of a deviation that
     clients share. Its variance over clients is the spike l of the model: K/p times the covariance has the eigenvalue
     (1 + l)(1 + p/(K l)), and the eigenvector the squared cosine c = (1 - p/(K l^2)) / (1 + p/(K l)) with it. A part of
     the clients that causes a step is seen along the step itself, with far fewer of them: there clients differ by more
     than elsewhere. Two fifths of the clients that cause a variance v move the mean by the root of 2 v / 3; and no part
     of them by more than the step along the deviation, over the root of c. All this is looked for in what the clients'
     first messages do not explain (R10), then in the steps themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import chi2

from fedica.arrays import Array, BoolArray, IntArray, unit
from fedica.server.refinement.steps import Steps

MAX_SHARED = 5
"""Shared deviations that are looked for, one after the other."""
CONTESTED_EDGE = 2.5
"""A deviation may have moved the mean if its eigenvalue is this many deviations (Tracy and Widom) beyond the edge: few
honest federations have one."""
UNEXPLAINED_EDGE = 1.5
"""The same for what first messages do not explain: one in 50 honest federations is beyond it, and loses little."""
SPARSE = 0.5
"""A deviation is looked at in its largest values alone, those above this share of the largest, if they have this share
of its square: where few pairs of sources are turned, clients stand apart there first."""
FEW = 0.1
"""And if they are at most this share of all values."""
MIN_SHARING = 8
"""With fewer clients no shared deviation is looked for: any three of seven may agree."""
ALONG_STEP = 3.5
"""Clients differ along the step by more than elsewhere if their variance is this many deviations above the others'."""


@dataclass(frozen=True, eq=False)
class Contested:
    """Deviations that parts of the clients share and may have given to the mean.

    directions : (m, p), unit rows, in the values of the steps; square : what they may have moved the mean by, squared,
    in the sources; hidden : the part of it that is expected outside the directions, which errors have turned;
    along_step : whether one of the directions was found from the step itself: without it little of the step is left.
    """

    directions: Array
    square: float
    hidden: float
    along_step: bool


def contested(steps: Steps, left: Steps, weights: Array) -> Contested:
    """Find deviations that clients share, and what these may have moved the mean by.

    left : what first messages do not explain of the steps; weights : (K,), zero for clients that do not count.
    """
    mean, errors = steps.mean(weights), np.where(weights @ steps.has > 0, steps.expected_errors(weights), 0.0)
    found: list[Shared] = []
    for (seen, beyond), kind in product(((left, UNEXPLAINED_EDGE), (steps, CONTESTED_EDGE)), steps.kinds):
        before = len(found)
        while len(found) < before + MAX_SHARED:
            others = seen.without(one.direction for one in found)
            n_off = sum(bool(one.direction[kind].any()) for one in found)
            shared = shared_deviation(others, weights, kind, beyond, n_off)
            if shared is None and len(found) == before:
                shared = _along_step(others, mean, weights, kind, n_off)
            if shared is None:
                break
            found.append(shared)
    moved, hidden = 0.0, 0.0
    for one in found:
        along = ((one.direction @ mean) ** 2 + one.direction**2 @ errors) * (steps.in_sources @ one.direction**2)
        most = min(2 * one.square / 3, float(along) / max(one.captured, 1e-300))  # (R8)
        moved, hidden = moved + most, hidden + most * (1 - one.captured)
    directions = np.array([one.direction for one in found]).reshape(-1, mean.size)
    return Contested(directions, moved, hidden, any(one.along_step for one in found))


@dataclass(frozen=True, eq=False)
class Shared:
    """A deviation that independent errors do not explain.

    position, sparse : (n,), where each client that counts stands along it, and along its largest values alone;
    direction : (p,), of length one; square : its variance over clients, in the sources; captured : the squared cosine
    that the direction is expected to have with the true one; along_step : whether it was found from the step.
    """

    position: Array
    sparse: Array
    direction: Array
    square: float
    captured: float
    along_step: bool


def shared_deviation(steps: Steps, weights: Array, kind: slice, beyond: float, n_off: int = 0) -> Shared | None:
    """Return the largest deviation that clients share in one kind of values, if it is beyond chance.

    beyond : how many deviations above the edge; n_off : directions along which the steps have nothing.
    """  # (R8)
    z, has, columns = _deviations(steps, weights, kind)
    n, p = z.shape[0], z.shape[1] - n_off
    if n < MIN_SHARING or p <= n_off:
        return None
    values, vectors = np.linalg.eigh(z @ z.T)
    known = has.sum(axis=1) * (p / z.shape[1])
    typical = np.median((z**2).sum(axis=1) / np.maximum(known, 1)) * p / chi2.median(p)
    others = values[:-1].sum() / max(known.sum() - p * largest_by_chance(n, p, 0.0), 1.0)  # without the deviation
    noise = max(min(typical, others), 1e-300)
    largest = values[-1] / (noise * p)
    if largest <= largest_by_chance(n, p, beyond):
        return None
    both = max(largest - 1 - n / p, 0.0)  # (n/p) l + 1/l, of a spike l
    spike = (both + np.sqrt(max(both**2 - 4 * n / p, 0.0))) * p / (2 * n)
    direction = np.zeros(steps.values.shape[1])
    direction[columns] = unit((z.T @ vectors[:, -1])[:, None]).ravel()
    square = spike * noise * (steps.in_sources @ direction**2) / np.median(weights[weights > 0])
    captured = max(1 - p / (n * spike**2), 0.0) / (1 + p / (n * spike)) if spike > 0 else 0.0
    position = vectors[:, -1] * np.sqrt(largest * p)
    return Shared(position, z @ _largest_values(direction[columns]), direction, float(square), captured, False)


def _along_step(steps: Steps, mean: Array, weights: Array, kind: slice, n_off: int) -> Shared | None:
    """Return the deviation by which clients differ along the step, if they differ more there than elsewhere.

    mean : (p,), the step; the rest as in `shared_deviation`.
    """  # (R8)
    z, has, columns = _deviations(steps, weights, kind)
    n, p, step = z.shape[0], z.shape[1] - n_off, mean[columns]
    if n < MIN_SHARING or p < 2 or p <= n_off or not step.any():
        return None
    along = step / np.linalg.norm(step)
    everywhere = max(float((z**2).sum() / has.sum()) * z.shape[1] / p, 1e-300)
    position = z @ along
    excess = float(position @ position) / (n * everywhere) - 1
    if excess <= ALONG_STEP * np.sqrt(2 / n):
        return None
    turned = z.T @ position / (n * everywhere)  # a power step: nearer to the deviation than the step is
    captured = max(1 - ((1 + excess) * p / n + 1) / float(turned @ turned), 0.0)
    direction = np.zeros(steps.values.shape[1])
    direction[columns] = unit(turned[:, None]).ravel()
    variance = excess * everywhere / np.median(weights[weights > 0]) / float(direction[columns] @ along) ** 2
    square = variance * float(steps.in_sources @ direction**2)
    return Shared(z @ direction[columns], np.zeros(n), direction, square, captured, True)


def _deviations(steps: Steps, weights: Array, kind: slice) -> tuple[Array, BoolArray, IntArray]:
    """Return what clients that count differ from their mean by, over the expected error, (n, p).

    Beside it where it is known, (n, p), zero elsewhere; and the values that any of them has, (p,).
    """
    used, columns = np.flatnonzero(weights > 0), np.flatnonzero(weights @ steps.has)
    columns = columns[(columns >= kind.start) & (columns < kind.stop)]
    has = steps.has[np.ix_(used, columns)]
    z = np.where(has, steps.values[np.ix_(used, columns)] - steps.mean(weights)[columns], 0.0)
    return z * np.sqrt(weights[used])[:, None], has, columns


def _largest_values(direction: Array) -> Array:
    """Return a unit vector with its largest values alone, if these are few and have most of its square; else zero."""
    large = np.where(np.abs(direction) >= SPARSE * np.abs(direction).max(), direction, 0.0)
    few = np.count_nonzero(large) <= FEW * direction.size and large @ large >= SPARSE
    return large / np.linalg.norm(large) if few else np.zeros_like(direction)


def largest_by_chance(n: int, p: int, beyond: float) -> float:
    """Largest eigenvalue of n independent errors in p dimensions, over p: so many deviations above the edge."""
    edge = (np.sqrt(p) + np.sqrt(n)) ** 2
    deviation = (np.sqrt(p) + np.sqrt(n)) * (1 / np.sqrt(p) + 1 / np.sqrt(n)) ** (1 / 3)
    return float((edge + beyond * deviation) / p)

"""How far atoms may be from their components: variances of clients and components, and the weights that they give.

(C3) The logarithm of an atom's squared distance is that of its component plus that of its client plus a rest. Clients
     differ by more than chance explains only as far as the data show: their part is shrunken by that share. The rest
     has the spread of a mean of p squares, p the dimension of the errors; what it has beyond is a heavy tail, and gives
     the degrees of freedom of Student weights. A client beyond the others, or an atom beyond its client's and its
     component's distance, loses its weight smoothly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import norm
from scipy.stats import t as student_t

from fedica.arrays import Array, IntArray
from fedica.blocks import group_medians
from fedica.server.agreement import normal_deviation
from fedica.server.assign import Assignment

MAX_GAIN = 8.0
"""No client counts more than this many times the typical one, however near it is."""
MAX_NEARER = 3.0
"""Nor does one gain by being nearer than this many deviations between clients."""
CLIENT_CUT = 4.0
"""A client this many deviations beyond the typical one does not count; more of them where few clients tell them."""
MAX_CLIENT_CUT = 8.0
"""However few clients there are, one this many deviations beyond does not count."""
ATOM_CUT = 4.0
"""An atom at this many times the distance of its client and component does not count."""
MIN_FREEDOM = 4.0
"""Fewest degrees of freedom: with fewer a component would follow its nearest atoms alone."""
MIN_CLIENTS = 10
"""Fewer clients do not tell by how much clients differ, nor of a heavy tail. With 10 or more, K of them do not rule out
a tail of K degrees of freedom."""
FEW_DIFFER = 0.5
"""Variance that logarithms of squared errors are taken to have among so few clients. At most half of a logarithm counts
then: that is a geometric median, which never follows one client alone."""
HALF_COUNTS = 5.0
"""Of K clients, ten or more, at most the share K / (K + 5) of a logarithm counts."""
MEDIAN_VARIANCE = np.pi / 2
"""Variance of a median over that of a mean."""
COSINES = 1.25
"""Squared cosines of random directions in p dimensions have the median 0.455 / (p - 1.25), for p = 3 and more."""
SHORT = 0.9
"""The logarithm of a mean of squares is skewed: its squared median absolute deviation is about this of its variance."""
FEW_FREEDOM = 10.0
"""Degrees of freedom where clients are few: in many dimensions they cost nothing if there is no heavy tail."""
TINY = 1e-14
"""Squared distances below this are rounding."""


@dataclass(frozen=True, eq=False)
class Spreads:
    """Squared distances of atoms, as a product of a client's part and a component's. Logarithms.

    Parameters
    ----------
    of_component : ndarray of shape (r,)
        Typical squared distance of each component's atoms.
    of_client : ndarray of shape (K,)
        How much farther each client is than the typical one.
    deviation : ndarray of shape (K,)
        By how much ``of_client`` differs between clients that are alike.
    shrunken : ndarray of shape (K,)
        ``of_client`` as far as clients differ by more than chance.
    freedom : float
        Degrees of freedom of the rest; K without a heavy tail.
    """

    of_component: Array
    of_client: Array
    deviation: Array
    shrunken: Array
    freedom: float


def measure_spreads(
    assignment: Assignment, owner: IntArray, n_clients: int, n_components: int, *, dimension: float, alike: bool
) -> Spreads:
    """Fit the two-way table of squared distances by medians.

    Parameters
    ----------
    assignment : Assignment
        The atoms against a reference.
    owner : ndarray of shape (R,)
        The client of each atom.
    n_clients, n_components : int
        K, r.
    dimension : float
        Of an atom's error, as the squared cosines of errors tell it where dimensions are many.
    alike : bool
        Whether clients are taken to be alike, without a heavy tail: no client or atom then gains by being near.
    """
    known = np.flatnonzero(assignment.labels >= 0)
    client, component = owner[known], assignment.labels[known]
    log = np.log(np.maximum(assignment.distance[known] ** 2, TINY))
    of_component = group_medians(log, component, n_components, empty=0.0)
    of_client = group_medians(log - of_component[component], client, n_clients, empty=0.0)
    level = float(np.median(of_client))
    of_client, of_component = of_client - level, of_component + level
    rest = log - of_component[component] - of_client[client]
    p = _true_dimension(dimension, n_components, n_clients)
    n_atoms = np.maximum(np.bincount(client, minlength=n_clients), 1)
    lost = min((n_clients + n_components - 1) / max(known.size, 1), 0.7)  # of the table's freedom, by the fit
    variance = normal_deviation(rest) ** 2 / (1 - lost)
    expected = float(polygamma(1, p / 2))  # of the logarithm of a mean of p squares
    by_chance = MEDIAN_VARIANCE * max(variance, expected) / n_atoms
    beyond_chance = normal_deviation(of_client) ** 2 - (1 + 2.3 / np.sqrt(n_clients)) * float(np.median(by_chance))
    few = n_clients < MIN_CLIENTS
    between = FEW_DIFFER if few else max(beyond_chance, 0.0)
    most = 0.5 if few else n_clients / (n_clients + HALF_COUNTS)
    share = np.minimum(between / (between + by_chance), most)  # (C3)
    rest += (of_client * (1 - share))[client]  # what is not of the clients
    lost = min((np.sum(share) + n_components - 1) / max(known.size, 1), 0.7)
    beyond = normal_deviation(rest) ** 2 / (1 - lost) / SHORT - expected
    nearest = min(MAX_NEARER * np.sqrt(between), np.log(MAX_GAIN))
    return Spreads(
        of_component=of_component,
        of_client=of_client,
        deviation=np.sqrt(np.maximum(normal_deviation(of_client) ** 2, by_chance)),
        shrunken=np.zeros(n_clients) if alike else np.maximum(of_client * share, -nearest),  # (C3)
        freedom=_freedom(0.0 if alike else beyond, expected, n_clients),
    )


def agreement_weights(assignment: Assignment, owner: IntArray, spreads: Spreads, *, dimension: float) -> Array:
    """Weight of every atom, (R,): that of its client, times its own."""
    labels, squares = assignment.labels, assignment.distance**2
    p = _true_dimension(dimension, spreads.of_component.size, spreads.of_client.size)
    cut = min(student_t.isf(norm.sf(CLIENT_CUT), max(spreads.of_client.size - 1, 2)), MAX_CLIENT_CUT)
    excess = np.maximum(spreads.of_client / spreads.deviation, 0.0) / cut
    of_client = np.where(excess < 1, (1 - excess**4) ** 2, 0.0) * np.exp(-spreads.shrunken)  # (C3)
    typical = np.exp(spreads.of_component[labels] + spreads.shrunken[owner])
    ratio = squares / np.maximum(typical, TINY)
    mean_over_median = np.exp(np.log(p / 2) - digamma(p / 2))
    student = (spreads.freedom + p) / (spreads.freedom + p * ratio / mean_over_median)  # (C3)
    cosine = 1 / np.sqrt(1 + squares)  # what is left of an atom along its component
    weights = of_client[owner] * np.where(ratio <= ATOM_CUT**2, student, 0.0) * cosine
    return np.asarray(np.where(labels >= 0, weights, 0.0))


def _true_dimension(told: float, n_components: int, n_clients: int) -> float:
    """Return p: that of the squared cosines is too low where dimensions are few, and r - 1 of them are within r.

    Few clients keep what they tell, the lower weight of atoms that are far.
    """
    return told if n_clients < MIN_CLIENTS else min(told + COSINES, max(told, n_components - 1.0))


def _freedom(variance: float, expected: float, n_clients: int) -> float:
    """Degrees of freedom whose heavy tail adds this variance to a logarithm: trigamma(nu / 2) = variance."""
    if n_clients < MIN_CLIENTS:
        return FEW_FREEDOM
    if variance <= 0.15 * expected + 0.02:
        return float(n_clients)
    half = 0.5 + 1 / variance
    for _ in range(20):  # Newton, on the reciprocal of the trigamma function (Smyth 2004)
        value = float(polygamma(1, half))
        half = max(half + value * (1 - value / variance) / float(polygamma(2, half)), 1e-3)
    return float(np.clip(2 * half, MIN_FREEDOM, n_clients))

"""How alike a client's atoms and the components are, what chance gives, and who is much less alike than the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import t as student_t

from fedica.arrays import Array, BoolArray, IntArray, polar
from fedica.blocks import Columns, Drawn, columns_of, group_medians
from fedica.matching import match_similarity
from fedica.server.agreement import angles_to, efficient_deviation
from fedica.server.assign import assign_atoms

N_TURNED = 60
"""Random turns of clients' atoms that show what chance gives: of so many clients, or of fewer clients several times."""
HARDLY_ALIKE = 0.5
"""A client is never unlike the others that has this share of their likeness beyond chance."""
MIN_ATOMS = 4
"""Of fewer atoms a mean tells too little to be compared with chance."""
BY_CHANCE, BEYOND_CHANCE = 2.0, 3.0
"""A client within 2 deviations of chance is no better than chance; others beyond 3 are clearly better."""
FREEDOM_LOST = 3
"""Degrees of freedom that the median and `efficient_deviation` cost: then 1.0% to 1.3% of all normal values exceed the
quantile that 1% should, from six clients on."""
MAX_SPANS = 1000
"""Clients whose own spans are measured; of more clients, the typical span stands for the spans of the others."""
MIN_DEVIATION = 1e-3
"""Of cosines between clients: smaller differences mean nothing."""


@dataclass(frozen=True)
class Chance:
    """Likeness to the components by chance: of clients whose atoms are turned at random within their own spans.

    Parameters
    ----------
    typical, high : float
        Median cosine of a client's atoms: what is typical, and what one client in twenty exceeds.
    mean : float
        Mean cosine of a client's atoms: what is typical.
    own, deviation : ndarray of shape (K,)
        Mean cosine of each client's atoms in its own span, and by how much it differs between turns.
    inside : ndarray of shape (K,)
        Share of the components that lies in each client's span, whatever its atoms are in it, beyond what a random span
        has: 0 for a random one, 1 for one that holds them, as does the whole space.
    """

    typical: float
    high: float
    mean: float
    own: Array
    deviation: Array
    inside: Array


def client_likeness(angle_of_atom: Array, labels: IntArray, owner: IntArray, n_clients: int) -> tuple[Array, IntArray]:
    """Mean cosine of each client's atoms to the components that they are given to, and how many those are: (K,) each.

    angle_of_atom : (R,), degrees; labels : (R,), -1 where an atom is given to none.
    """
    given = labels >= 0
    counts = np.bincount(owner[given], minlength=n_clients)
    sums = np.bincount(owner[given], weights=np.cos(np.radians(angle_of_atom[given])), minlength=n_clients)
    return sums / np.maximum(counts, 1), counts


def unlike_others(likeness: Array, n_atoms: IntArray, within: float, chance: Chance, false_alarms: float) -> BoolArray:
    """Whether each client is much less like the components than the others are, (K,).

    That is: at most half as much beyond chance, or no better than chance while the others are clearly better; and lower
    than clients like the others are but for a share of ``false_alarms``. Clients for which one of these may hold do not
    count in what is usual, as long as more than half remain, and those that are found drop out of the comparison: so
    several do not hide one another. Half of them cannot be found.

    likeness, n_atoms : (K,), as from `client_likeness`; within : deviation of cosines between the atoms of one client.
    """
    beyond, spread = likeness - chance.own, np.maximum(chance.deviation, MIN_DEVIATION)
    by_chance = (beyond < BY_CHANCE * spread) & (n_atoms >= MIN_ATOMS)
    clear = ~by_chance & (beyond >= HARDLY_ALIKE * np.median(beyond))
    compared = clear if 2 * np.count_nonzero(clear) > clear.size else np.ones_like(clear)
    found = np.zeros_like(clear)
    while True:
        usual, deviation = float(np.median(likeness[compared])), efficient_deviation(likeness[compared])
        deviations = np.maximum(np.maximum(deviation, spread), within / np.sqrt(np.maximum(n_atoms, 1)))
        freedom = max(int(np.count_nonzero(compared)) - FREEDOM_LOST, 2)
        hardly = beyond < HARDLY_ALIKE * np.median(beyond[compared])
        if np.median(beyond[compared] / spread[compared]) > BEYOND_CHANCE:
            hardly |= by_chance
        more = found | (hardly & (usual - likeness > student_t.ppf(1 - false_alarms, freedom) * deviations))
        if 2 * np.count_nonzero(more) >= likeness.size:
            return np.zeros_like(found)
        if np.array_equal(more, found):
            return found
        found, compared = more, compared & ~more


def chance_likeness(atoms: Columns, drawn: Drawn, mixing: Array) -> Chance:
    """Likeness of a client's atoms to their components if they were turned at random within the client's span.

    That is the null hypothesis of Hyvarinen and Ramkumar's test of components across subjects: a client's span may hold
    the components though its rotation means nothing. What it gives depends on d, on r_k and on how smooth atoms are.
    Of very many clients those drawn first are turned; few are turned several times each. A client that has less of the
    components in its span has less likeness by chance, in proportion.
    """
    clients = drawn.order[:MAX_SPANS]
    n_turned = min(N_TURNED, clients.size)
    n_turns = -(-N_TURNED // n_turned)
    turned, in_spans = [], np.empty((clients.size, 3))
    for k, basis in enumerate(_bases(atoms, drawn, clients)):
        in_spans[k], m = _chance_in_span(basis, mixing), basis.shape[1]
        if k < n_turned:
            turned += [basis @ polar(turn) for turn in np.random.default_rng(m).standard_normal((n_turns, m, m))]
    whose = np.repeat(np.arange(len(turned)), [basis.shape[1] for basis in turned])
    columns = columns_of(np.concatenate(turned, axis=1), whose)
    labels = assign_atoms(columns, whose, mixing).labels
    angles = angles_to(columns, mixing, labels)
    of_clients = group_medians(angles, np.where(labels >= 0, whose, -1), len(turned), empty=90.0)
    typical = float(np.median(angles[labels >= 0])) if (labels >= 0).any() else 90.0
    means = client_likeness(angles, labels, whose, len(turned))[0]
    expected = np.maximum(np.repeat(in_spans[:n_turned, 0], n_turns), MIN_DEVIATION)
    in_spans[:, :2] *= np.median(means / expected)  # components are not orthogonal
    own = np.tile(np.median(in_spans, axis=0), (drawn.order.size, 1))
    own[clients] = in_spans
    return Chance(
        typical=float(np.cos(np.radians(typical))),
        high=float(np.cos(np.radians(np.quantile(of_clients, 0.05)))),
        mean=float(np.median(means)),
        own=own[:, 0],
        deviation=own[:, 1],
        inside=own[:, 2],
    )


def _bases(atoms: Columns, drawn: Drawn, clients: IntArray) -> Iterator[Array]:
    """Orthonormal basis of the span of each client's atoms, (d, r_k)."""
    for first, last in np.searchsorted(drawn.owner, np.stack([clients, clients + 1], axis=1)).tolist():
        yield np.linalg.qr(atoms.take(np.arange(first, last)))[0]


def _chance_in_span(basis: Array, mixing: Array) -> tuple[float, float, float]:
    """Mean cosine by chance in a client's span, its deviation between turns, and the share of the components inside.

    The first two are as for orthogonal components: one whose part in the span is as long as s has s times the cosine
    that a component inside it has. The share is beyond that of a random span, r_k / d of the squared length.
    """
    n_given, by_chance = min(basis.shape[1], mixing.shape[1]), basis.shape[1] / basis.shape[0]
    lengths = np.sort(np.linalg.norm(basis.T @ mixing, axis=0))[-n_given:]
    length, squared = float(lengths.mean()), float((lengths**2).mean())
    inside = (squared - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0
    mean, spread = _turned_likeness(basis.shape[1], n_given)
    return length * mean, length * spread, inside


@lru_cache(maxsize=1024)
def _turned_likeness(n_atoms: int, n_components: int) -> tuple[float, float]:
    """Mean cosine of orthonormal atoms turned at random, one to one with components in their span; its deviation."""
    turns = np.random.default_rng(n_atoms).standard_normal((N_TURNED, n_atoms, n_atoms))
    cosines = np.concatenate([polar(turn)[:, :n_components] for turn in turns])
    found = match_similarity(cosines, np.repeat(np.arange(N_TURNED), n_atoms))
    means = found.cosines.reshape(N_TURNED, n_atoms).sum(axis=1) / n_components
    return float(means.mean()), float(means.std())

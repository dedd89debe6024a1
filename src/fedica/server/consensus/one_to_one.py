"""Components to which clients' atoms are matched one to one, each atom weighed by how well it matches.

(C6) From a start, every client gives each component at most one atom; the component becomes the mean of its atoms,
     weighed by their squared cosines, until no match changes. An atom that fits nowhere is given to some component, but
     hardly counts there. The objective is the sum of squared cosines over clients: two alike components in one group
     lose, because a client has an atom for each of them. Several starts end in optima between which the clients do not
     decide: all ends that are within one standard error of the highest are averaged, matched to it one to one, a
     component of theirs weighed by its squared cosine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fedica.arrays import Array, IntArray, unit
from fedica.matching import Match, match, match_similarity

MAX_STEPS = 20
"""Steps from one start; they settle in about five."""
POWER = 2
"""Weight of an atom, and of a component where several answers are averaged: this power of its cosine."""
ROUNDING = 1e-9
"""Share of the objective by which equal ends may differ."""
MAX_LOSS = 1.0
"""Standard errors, over clients, by which an end may be below the highest one to be averaged with it."""


def matched_one_to_one(atoms: Array, owner: IntArray, starts: Iterable[Array]) -> Array:
    """Return the mean of the ends, (p, r), unit columns, at which the sum of squared cosines is about largest.

    atoms : (p, n), not longer than one; owner : (n,), ascending, the client of each; starts : (p, r) each.
    """
    clients = np.cumsum(np.diff(owner, prepend=owner[0]) != 0)
    return _mean_of_best([_climb(atoms, clients, start) for start in starts])


def _climb(atoms: Array, clients: IntArray, components: Array) -> tuple[Array, Array]:
    """Match and average until no match changes. Return the components and each client's sum of squared cosines."""
    before = np.empty(0, dtype=np.int64)
    for _ in range(MAX_STEPS):
        found = match_similarity(atoms.T @ components, clients)
        if np.array_equal(found.labels, before):
            break
        before = found.labels
        components = _means(atoms, found, components)
    return components, np.asarray(np.bincount(clients, weights=np.square(found.cosines)), dtype=np.float64)


def _mean_of_best(ends: Iterable[tuple[Array, Array]]) -> Array:
    """Average the ends that are not clearly below the highest: (p, r), unit columns.

    ends : components, (p, r), and each client's sum of squared cosines, (K,).
    """
    ordered = sorted(ends, key=lambda end: -float(end[1].sum()))
    highest = ordered[0][1]
    return mean_components([components for components, shown in ordered if _as_high(shown, highest)])


def _as_high(shown: Array, highest: Array) -> bool:
    """Whether a sum over clients is within ``MAX_LOSS`` standard errors of the highest one. (K,) each."""
    loss = highest - shown
    standard_error = np.sqrt(loss.size) * loss.std()
    return bool(loss.sum() <= MAX_LOSS * standard_error + ROUNDING * highest.sum())  # (C6)


def mean_components(answers: Sequence[Array]) -> Array:
    """Average answers: each matched to the first one to one, its components weighed by their squared cosines to it.

    answers : (p, r) each, unit columns. Returns unit columns in the order and with the signs of the first.
    """
    total = answers[0].copy()
    for components in answers[1:]:
        found = match(components, answers[0])
        total[:, found.labels] += components * found.signs * found.cosines**POWER
    return unit(total)


def _means(atoms: Array, found: Match, components: Array) -> Array:
    """Return the weighted means of the matched atoms, unit columns; a component without any stays as it is."""
    matched = np.flatnonzero(found.labels >= 0)
    member = np.zeros((atoms.shape[1], components.shape[1]))
    member[matched, found.labels[matched]] = (found.signs * found.cosines**POWER)[matched]
    means = atoms @ member
    return np.where(np.linalg.norm(means, axis=0) > 1e-12, unit(means), components)

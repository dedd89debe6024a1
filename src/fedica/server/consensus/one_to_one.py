"""Components to which clients' atoms are matched one to one, each atom weighed by how well it matches.

(C6) From a start, every client gives each component at most one atom; the component becomes the mean of its atoms,
     weighed by their squared cosines, until no match changes. An atom that fits nowhere is given to some component, but
     hardly counts there. The objective is the sum of squared cosines, and the start that ends highest wins: two alike
     components in one group lose, because a client has an atom for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedica.arrays import Array, IntArray, unit
from fedica.matching import Match, match_similarity

MAX_STEPS = 20
"""Steps from one start; they settle in about five."""
POWER = 2
"""Weight of an atom: this power of its cosine."""


def matched_one_to_one(atoms: Array, owner: IntArray, starts: Iterable[Array]) -> Array:
    """Return the components, (p, r), unit columns, at which the sum of squared cosines is largest.

    atoms : (p, n), not longer than one; owner : (n,), ascending, the client of each; starts : (p, r) each.
    """
    clients = np.cumsum(np.diff(owner, prepend=owner[0]) != 0)
    return max((_climb(atoms, clients, start) for start in starts), key=lambda end: end[1])[0]


def _climb(atoms: Array, clients: IntArray, components: Array) -> tuple[Array, float]:
    """Match and average until no match changes. Return the components and the sum of squared cosines."""
    before = np.empty(0, dtype=np.int64)
    for _ in range(MAX_STEPS):
        found = match_similarity(atoms.T @ components, clients)
        if np.array_equal(found.labels, before):
            break
        before = found.labels
        components = _means(atoms, found, components)
    return components, float(np.square(found.cosines).sum())


def _means(atoms: Array, found: Match, components: Array) -> Array:
    """Return the weighted means of the matched atoms, unit columns; a component without any stays as it is."""
    matched = np.flatnonzero(found.labels >= 0)
    member = np.zeros((atoms.shape[1], components.shape[1]))
    member[matched, found.labels[matched]] = (found.signs * found.cosines**POWER)[matched]
    means = atoms @ member
    return np.where(np.linalg.norm(means, axis=0) > 1e-12, unit(means), components)

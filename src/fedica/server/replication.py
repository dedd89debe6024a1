"""Which components replicate: clients are tested against components in which they had no part.

The clients are halved, and each is compared with the components of the other half. By chance its atoms are turned at
random within its own span: the null hypothesis of Hyvarinen and Ramkumar's test of components across subjects. Then a
component has, in an orthonormal basis of that span, the coordinates of a random direction. The numbers are those of
docs/method.md.

(T1) In coordinates in which the components are orthonormal: of a component s and a client, the largest squared
     coordinate of s in the basis nearest to the client's atoms, over the squared length of s within their span; where
     a client has one atom left, its squared cosine to s, beside a random direction in r dimensions. p is the
     probability of as much by chance.
(T2) The sum over clients of -log p, no p below 0.01, so that no few clients decide; against sums for random p. The sums
     of the two halves rise together, for what the one half happens to share with the other, the other shares with the
     one: so random sums of the halves are added in the order of their size.
(T3) Components are tested in the order of that sum. A component that passes at ``alpha`` over the number of components
     left (Holm's rule) replicates, and its atom is taken from each client: the others are compared within what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray, unit
from fedica.blocks import draw_clients
from fedica.errors import GroupingError
from fedica.matching import match
from fedica.server.admission import Admitted
from fedica.server.consensus import find_consensus

ALPHA = 0.05
"""Probability of a false discovery that is allowed, over all components."""
N_RANDOM = 4000
"""Random directions, and random sums, with which others are compared."""
MIN_P = 0.01
"""No client counts for more than this probability."""
MIN_SCALE = 0.2
"""Directions in which the components have less than this length are not stretched further."""
MIN_CLIENTS, MAX_CLIENTS = 6, 200
"""Clients that can be tested in halves, and of how many the halves are made."""


def replicating_components(
    admitted: Admitted, mixing: Array, *, n_init: int, rng: np.random.Generator
) -> BoolArray | None:
    """Tell which components, (d, r), replicate across clients, (r,); None where there are too few clients to tell."""
    chosen = draw_clients(admitted.atoms, admitted.client_of_atom, rng).order[:MAX_CLIENTS]
    if chosen.size < MIN_CLIENTS:
        return None
    halves: list[list[_Client]] = []
    try:
        for own, other in ((chosen[::2], chosen[1::2]), (chosen[1::2], chosen[::2])):
            found = consensus_of(admitted, np.sort(other), mixing.shape[1], n_init=n_init, rng=rng)
            halves.append(_compared(admitted, own, found[:, np.argsort(match(found, mixing).labels)]))
    except GroupingError:  # too few distinct atoms in one half
        return None
    return _step_down(halves, mixing.shape[1], rng)


def consensus_of(
    admitted: Admitted, clients: IntArray, n_components: int, *, n_init: int, rng: np.random.Generator
) -> Array:
    """Return the r components, (d, r), that some clients, in ascending order, agree on."""
    some = admitted.of_clients(clients)
    ones = np.ones(clients.size)
    return unit(find_consensus(some, n_components, ones, affinity="squared", n_init=n_init, rng=rng).centres)


@dataclass(eq=False)
class _Client:
    """Atoms x of a client against components s of others: gram = x'x, (m, m); along = x's, (m, r); left : (m,)."""

    gram: Array
    along: Array
    left: BoolArray

    def chance(self) -> Array:
        """Probability, (r,), that random atoms would show as much of every component as the atoms left do: (T1)."""
        if self.left.sum() > 1:
            shown = self.coordinates().max(axis=0)
        else:
            shown = np.square(self.along[self.left][0]) / self.gram[self.left, self.left]
        random = _shown_at_random(int(self.left.sum()), self.along.shape[1])
        return np.asarray((1 + N_RANDOM - np.searchsorted(random, shown)) / (1 + N_RANDOM))

    def coordinates(self) -> Array:
        """Squared coordinates of every component in the basis nearest to the atoms left, over their sum: (m', r)."""
        values, vectors = np.linalg.eigh(self.gram[np.ix_(self.left, self.left)])
        kept = values > 1e-9 * values[-1]
        root = vectors[:, kept] / np.sqrt(values[kept]) @ vectors[:, kept].T
        squares = np.square(root @ self.along[self.left])
        return np.asarray(squares / np.maximum(squares.sum(axis=0), 1e-300))

    def take_atom(self, component: int) -> None:
        """Leave out the atom that is nearest to a component."""
        nearest = np.argmax(self.coordinates()[:, component])
        self.left[np.flatnonzero(self.left)[nearest]] = False


def _compared(admitted: Admitted, clients: IntArray, components: Array) -> list[_Client]:
    """Compare clients with components, (d, r), in coordinates in which these are orthonormal, as rotations need."""
    left, scale, right = np.linalg.svd(components, full_matrices=False)
    stretch = (1 / np.maximum(scale, MIN_SCALE) - 1)[:, None]
    compared = []
    for k in clients:
        atoms = admitted.atoms.take(np.flatnonzero(admitted.client_of_atom == k))
        atoms = unit(atoms + left @ (stretch * (left.T @ atoms)))
        along = atoms.T @ (left @ right)
        compared.append(_Client(atoms.T @ atoms, along, np.ones(atoms.shape[1], dtype=np.bool_)))
    return compared


def _step_down(halves: list[list[_Client]], n_components: int, rng: np.random.Generator) -> BoolArray:
    """Accept components one after the other, (r,), until none of those left passes: (T3)."""
    replicates = np.zeros(n_components, dtype=np.bool_)
    while not replicates.all():
        halves = [[client for client in half if client.left.any()] for half in halves]
        if not all(halves):
            break
        best, chance = _likeliest(halves, replicates, rng)
        if chance * (n_components - replicates.sum()) > ALPHA:
            break
        replicates[best] = True
        for half in halves:
            for client in half:
                client.take_atom(best)
    return replicates


def _likeliest(halves: list[list[_Client]], replicates: BoolArray, rng: np.random.Generator) -> tuple[int, float]:
    """Return the component that clients show most, of those left, and the probability of that by chance: (T2)."""
    sums, random = np.zeros(replicates.size), np.zeros(N_RANDOM)
    for half in halves:
        sums -= np.log(np.maximum([client.chance() for client in half], MIN_P)).sum(axis=0)
        random -= np.sort(np.log(np.maximum(rng.random((N_RANDOM, len(half))), MIN_P)).sum(axis=1))
    best = int(np.argmax(np.where(replicates, -np.inf, sums)))
    return best, float((1 + (random >= sums[best]).sum()) / (1 + N_RANDOM))


@cache
def _shown_at_random(n_atoms: int, n_components: int) -> Array:
    """Return what random atoms show of a component, ascending, (N_RANDOM,): (T1) of random directions."""
    n_directions = n_atoms if n_atoms > 1 else max(n_components, 2)
    squares = np.square(np.random.default_rng(n_directions).standard_normal((N_RANDOM, n_directions)))
    largest = squares.max(axis=1) if n_atoms > 1 else squares[:, 0]
    return np.sort(largest / squares.sum(axis=1))

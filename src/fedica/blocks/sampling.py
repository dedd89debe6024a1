"""A random order of the clients that depends on what they sent, and on nothing else.

Where there are very many atoms, those of some clients determine the start. Which clients these are may depend neither
on names nor on the order of arrival, and no client may be able to choose: each gets a number from its own atoms and
from the sum of all atoms, which nobody knows beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, IntArray
from fedica.blocks.columns import Columns

Bits = NDArray[np.uint64]
MAX_SAMPLE = 30_000
"""Atoms among which the starts of k-means compete; of more than these, those of random clients."""
RESOLUTION = 2.0**26
"""Entries are compared to 1.5e-8: rounding, or another order of sums, draws the same clients."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Clients in a random order. owner : (R,), ascending; order : (K,)."""

    owner: IntArray
    order: IntArray

    def atoms_of_first(self, n_clients: int) -> IntArray:
        """Columns of the first clients, one client after the other."""
        chosen = self.order[:n_clients]
        first = np.searchsorted(self.owner, chosen, side="left")
        counts = np.searchsorted(self.owner, chosen, side="right") - first
        offset = np.repeat(first - (np.cumsum(counts) - counts), counts)
        return np.asarray(offset + np.arange(offset.size))

    def sample(self) -> IntArray | None:
        """Columns of the first clients that have ``MAX_SAMPLE`` atoms together; None if that is all of them."""
        if self.owner.size <= MAX_SAMPLE:
            return None
        reached = np.cumsum(np.bincount(self.owner)[self.order])
        return self.atoms_of_first(int(np.searchsorted(reached, MAX_SAMPLE)) + 1)


def draw_clients(atoms: Columns, owner: IntArray, rng: np.random.Generator) -> Drawn:
    """Put the clients in a random order. atoms : (d, R); owner : (R,), ascending."""
    (digests,) = atoms.each(_digests, owner)
    key = np.add.reduce(_mixed(digests), dtype=np.uint64) ^ np.uint64(rng.integers(2**63))
    return Drawn(owner, np.argsort(_mixed(digests ^ key), kind="stable"))


def _digests(block: Array, owner: IntArray) -> tuple[Bits]:
    """One number from the atoms of each client of a block, in whatever order the atoms are, with whatever signs."""
    entries = np.rint(block * RESOLUTION).astype(np.int64).view(np.uint64)
    odd = _mixed(np.arange(block.shape[0], dtype=np.uint64)) | np.uint64(1)
    sums = np.add.reduce(entries * odd[:, None], axis=0, dtype=np.uint64)
    of_atom = _mixed(np.minimum(sums, -sums))  # of -x it is the other one of the two
    first = np.flatnonzero(np.diff(owner, prepend=owner[0] - 1))
    return (np.add.reduceat(of_atom, first),)


def _mixed(bits: Bits) -> Bits:
    """Spread every bit over all bits (splitmix64)."""
    with np.errstate(over="ignore"):
        bits = bits + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(bits ^ (bits >> np.uint64(31)))

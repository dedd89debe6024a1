"""Any number of contributions in bounded memory: beyond a limit their atoms are kept in temporary files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from fedica.arrays import Array
from fedica.blocks.arrays import release_pages
from fedica.records import Contribution

SPOOL_BYTES = 2**28
"""Bytes of atoms that are kept in memory; further ones go to files."""
FILE_BYTES = 2**26
"""Bytes of atoms in one temporary file."""


class Spool:
    """Temporary files for atoms: they have no name, and vanish with the last array that reads them."""

    def __init__(self) -> None:
        self.used = False

    def kept(self, contributions: Iterable[Contribution]) -> Iterator[Contribution]:
        """Yield the contributions; beyond `SPOOL_BYTES` their atoms lie in files."""
        in_memory, waiting, n_waiting = 0, [], 0
        for item in contributions:
            if in_memory <= SPOOL_BYTES:
                in_memory += item.atoms.nbytes
                yield item
                continue
            waiting.append(item)
            n_waiting += item.atoms.nbytes
            if n_waiting > FILE_BYTES:
                yield from self._in_file(waiting)
                waiting, n_waiting = [], 0
        if waiting:
            yield from self._in_file(waiting)

    def joined(self, blocks: Sequence[Array]) -> Array:
        """Return all columns side by side, (d, R), in a file of their own."""
        n_columns = sum(block.shape[1] for block in blocks)
        rows = _mapped((n_columns, blocks[0].shape[0]))
        row = 0
        for k, block in enumerate(blocks):
            rows[row : row + block.shape[1]] = block.T
            row += block.shape[1]
            if k % 1000 == 0:
                release_pages(rows)
            release_pages(block)
        release_pages(rows)
        return rows.T

    def _in_file(self, contributions: list[Contribution]) -> Iterator[Contribution]:
        """Yield the contributions with their atoms in one file."""
        self.used = True
        numbers = _mapped((sum(c.atoms.size for c in contributions),))
        start = 0
        for contribution in contributions:
            own = numbers[start : start + contribution.atoms.size].reshape(contribution.atoms.shape)
            own[...] = contribution.atoms
            start += own.size
            yield replace(contribution, atoms=own)
        release_pages(numbers)


def _mapped(shape: tuple[int, ...]) -> np.memmap[Any, np.dtype[np.float64]]:
    with TemporaryFile() as file:  # the mapping keeps it open
        return np.memmap(file, dtype=np.float64, mode="w+", shape=shape)

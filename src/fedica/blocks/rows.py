"""A client's data as blocks of rows, so that every sum over samples is written once for data of any size.

All of a client's mathematics is sums over samples. Each is written as ``blocks.total(part_of)``: an array in memory
and a memory-mapped file (here), any source that can be read again (`source`) and a cluster (`dask_blocks`) give the
same sums, each in its own way and always in the same order.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, IntArray
from fedica.threads import in_order

BLOCK_BYTES = 2**20
"""Float64 bytes of one block: a megabyte, about a core's own cache; with less, threads wait for one another."""
RELEASE_BYTES = 2**26
"""After reading this much of a memory-mapped file its pages are given back: else they count as memory in use."""

Part = TypeVar("Part")
Sums = tuple[Array, ...]


def add(total: Sums, part: Sums) -> Sums:
    """Add the sums of one part to the total, in place."""
    for own, other in zip(total, part, strict=True):
        np.add(own, other, out=own)
    return total


class Blocks(ABC):
    """Rows of samples that can be read several times, a block at a time.

    Attributes
    ----------
    n_samples : int
        How many rows there are.
    n_features : int
        How many columns there are.
    dtype : numpy.dtype
        What the rows are stored as.
    n_passes : int
        How often the rows have been read so far.
    in_memory : bool
        Whether the rows are in memory anyway.
    """

    n_samples: int
    n_features: int
    dtype: np.dtype[Any]
    n_passes: int = 0
    in_memory: bool = False

    @abstractmethod
    def _read(self) -> Iterator[NDArray[Any]]:
        """Yield the rows in order, as (b, n_features) arrays of any real dtype; nobody writes to them."""

    def __iter__(self) -> Iterator[NDArray[Any]]:
        self.n_passes += 1
        yield from self._read()

    def total(
        self, part_of: Callable[[NDArray[Any]], Part], *, merge: Callable[[Part, Part], Part], work: float
    ) -> Part:
        """Merge part_of(block) over all blocks, in one pass and in the order of the rows.

        Parameters
        ----------
        part_of : callable
            From a block to its part of the sum. It may run in other threads and, for data on a cluster, in other
            processes: it must not hold on to the blocks themselves.
        merge : callable
            From the total so far and the next part to their total; it may change the first in place.
        work : float
            Roughly how many floating point operations that is in all.
        """
        return reduce(merge, in_order(part_of, self, work=work))

    def take(self, rows: IntArray, function: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Return function(these rows), applied to pieces of them, in one pass. rows : sorted, distinct."""
        pieces, start = [], 0
        for block in self:
            first, last = np.searchsorted(rows, [start, start + block.shape[0]])
            if last > first:
                pieces.append(function(block[rows[first:last] - start]))
            start += block.shape[0]
        return np.concatenate(pieces)


class ArrayBlocks(Blocks):
    """Blocks of an array in memory or of a memory-mapped one, which is never loaded whole.

    Parameters
    ----------
    array : ndarray of shape (n_samples, n_features)
        The data, of any real dtype and memory order.
    block_rows : int, optional
        Rows of one block; by default as many as fill `BLOCK_BYTES`.
    """

    def __init__(self, array: NDArray[Any], block_rows: int | None = None) -> None:
        self.array = array
        self.n_samples, self.n_features = array.shape
        self.dtype = array.dtype
        self.in_memory = mapped_file(array) is None
        self._block_rows = block_rows or max(64, BLOCK_BYTES // (8 * self.n_features))

    def _read(self) -> Iterator[NDArray[Any]]:
        file, unreleased = mapped_file(self.array), 0
        for start in range(0, self.n_samples, self._block_rows):
            block = self.array[start : start + self._block_rows]
            yield block
            unreleased += block.nbytes
            if unreleased >= RELEASE_BYTES:
                unreleased = _release(file)
        _release(file)

    def take(self, rows: IntArray, function: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Return function(these rows), applied to pieces of them. rows : sorted, distinct."""
        self.n_passes += 1
        file, pieces = mapped_file(self.array), []
        for start in range(0, rows.size, self._block_rows):
            pieces.append(function(np.asarray(self.array[rows[start : start + self._block_rows]])))
            _release(file)
        return np.concatenate(pieces)


def mapped_file(array: NDArray[Any]) -> mmap.mmap | None:
    """Return the file that an array is mapped from, if its pages can be given back and read again.

    A copy-on-write map is left alone: what was written to it exists nowhere else.
    """
    shared = False
    owner: Any = array
    while isinstance(owner, np.ndarray):
        shared = shared or (isinstance(owner, np.memmap) and owner.mode != "c")
        owner = owner.base
    return owner if shared and isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None


def _release(file: mmap.mmap | None) -> int:
    """Give the pages of a mapped file back to the system, which reads them again when they are touched; return 0."""
    if file is not None:
        file.madvise(mmap.MADV_DONTNEED)
    return 0

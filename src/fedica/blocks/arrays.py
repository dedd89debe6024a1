"""Data that is read by blocks: the items along one axis, rows of samples or columns of atoms, wherever they lie.

All mathematics of fedica is sums over items, and a few numbers for each. Both are written once, as a function of a
block, for arrays in memory and in mapped files (here), for iterables (`iterables`) and on clusters (`dask_arrays`). One
thread, or one task of a cluster, handles a chunk of a few blocks before it reports. Results are merged in the order of
the items, so that they do not depend on the number of threads.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import starmap
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import IntArray
from fedica.blocks.cuts import Parts, cut, items_at_once
from fedica.progress import counting
from fedica.threads import in_order

RELEASE_BYTES = 2**26
"""After reading this much of a memory-mapped file its pages are given back: else they count as memory in use."""
TOLD_WORK = 1e10
"""Of passes over samples with fewer operations, which take less than a second, nothing is told."""

Part = TypeVar("Part")
PartOf = Callable[..., Part]
Merge = Callable[[Part, Part], Part]
Function = Callable[[NDArray[Any]], NDArray[Any]]


def add(total: Parts, part: Parts) -> Parts:
    """Add every array of one part to that of the total, in place."""
    for own, other in zip(total, part, strict=True):
        np.add(own, other, out=own)
    return total


class Blocks(ABC):
    """Items that can be read several times, a block at a time."""

    shape: tuple[int, int]  # rows and columns: of a client's data, samples and features
    dtype: np.dtype[Any]  # as the numbers are stored
    axis: int = 0  # along which the items lie: 0 for rows, 1 for columns
    in_memory: bool = False  # whether all of them are in memory anyway
    n_passes: int = 0  # how often they have been read so far

    @property
    def n_samples(self) -> int:
        """Rows."""
        return self.shape[0]

    @property
    def n_features(self) -> int:
        """Columns."""
        return self.shape[1]

    @abstractmethod
    def chunks(self, along: Parts = ()) -> Iterator[list[Parts]]:
        """Yield the chunks in order: lists of blocks, each with its parts of ``along``. Nobody writes to the blocks."""

    @abstractmethod
    def take(self, items: IntArray, function: Function) -> NDArray[Any]:
        """Return function(these items), applied to pieces of them, in one pass. items : ascending, distinct."""

    def __iter__(self) -> Iterator[NDArray[Any]]:
        self.n_passes += 1
        for chunk in self.chunks():
            for block, *_ in chunk:
                yield block

    def total(self, part_of: PartOf[Part], *, merge: Merge[Part], work: float) -> Part:
        """Merge part_of(block) over all blocks, in one pass and in order; the arguments are those of `parts`."""
        return reduce(merge, self.parts(part_of, merge=merge, work=work))

    def parts(self, part_of: PartOf[Part], *along: NDArray[Any], merge: Merge[Part], work: float) -> Iterator[Part]:
        """Merge part_of(block, *parts of along) over the blocks of each chunk; yield these in order, in one pass.

        ``part_of`` may run in other threads and, for data on a cluster, in other processes: it must not hold on to the
        block. ``along`` has one entry per item on the last axis. ``merge`` takes the total so far, which it may change
        in place, and the next part. ``work`` is roughly the number of floating point operations in all.
        """
        self.n_passes += 1
        chunks = self._told(self.chunks(along)) if self.axis == 1 or work > TOLD_WORK else self.chunks(along)
        try:
            yield from in_order(lambda chunk: reduce(merge, starmap(part_of, chunk)), chunks, work=work)
        finally:
            self.release()

    def release(self) -> None:  # noqa: B027 - only mapped files have something to give back
        """Give back what a pass leaves in memory: threads work on blocks after the last one was read."""

    def _told(self, chunks: Iterator[list[Parts]]) -> Iterable[list[Parts]]:
        """Return the chunks, and tell how much of the pass is done."""
        axis, what = self.axis, ("samples", "atoms")[self.axis]
        return counting(
            chunks,
            self.shape[axis],
            f", pass {self.n_passes} over {self.shape[axis]:,} {what}",
            lambda chunk: sum(block.shape[axis] for block, *_ in chunk),
        )


class ArrayBlocks(Blocks):
    """Blocks of an array in memory, or of a memory-mapped one or `StoredAtoms`, which are never loaded whole.

    array : (n_rows, n_columns), of any real dtype and memory order. bounds : where blocks begin, and the number of
    items at the end. blocks_of_chunk : how many blocks one thread handles before it reports.
    """

    def __init__(self, array: Any, bounds: IntArray, *, axis: int = 0, blocks_of_chunk: int = 1) -> None:
        self.array, self.axis = array, axis
        self.shape, self.dtype = (int(array.shape[0]), int(array.shape[1])), array.dtype
        self.in_memory = isinstance(array, np.ndarray) and mapped_file(array) is None
        self._bounds, self._blocks_of_chunk = bounds, blocks_of_chunk

    def chunks(self, along: Parts = ()) -> Iterator[list[Parts]]:
        """Yield the chunks in order: lists of blocks, which are views of the array."""
        unreleased = 0
        for first in range(0, self._bounds.size - 1, self._blocks_of_chunk):
            blocks = list(cut(self.array, self._bounds[first : first + self._blocks_of_chunk + 1], self.axis, along))
            yield blocks
            unreleased += sum(block.nbytes for block, *_ in blocks)
            if unreleased >= RELEASE_BYTES:
                release_pages(self.array)
                unreleased = 0
        release_pages(self.array)

    def release(self) -> None:
        """Give the pages of a mapped file back."""
        release_pages(self.array)

    def take(self, items: IntArray, function: Function) -> NDArray[Any]:
        """Return function(these items), applied to pieces of them; no others are read."""
        self.n_passes += 1
        return take_from(self.array, items, function, self.axis)


def take_from(array: NDArray[Any], items: IntArray, function: Function, axis: int) -> NDArray[Any]:
    """Return function(these rows or columns of an array), applied to pieces of them."""
    pieces, size = [], items_at_once(array.shape, axis)
    for start in range(0, max(items.size, 1), size):
        own = items[start : start + size]
        pieces.append(function(np.asarray(array[own] if axis == 0 else array[:, own])))
        release_pages(array)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=axis)


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


def release_pages(array: NDArray[Any]) -> None:
    """Give the pages of a mapped file back to the system, which reads them again when they are touched."""
    file = mapped_file(array)
    if file is not None:
        file.madvise(mmap.MADV_DONTNEED)

"""All atoms side by side, read a block of whole clients at a time: the same sums for data of any size.

Every step of the server is a few sweeps over the columns of a (p, R) matrix. `Columns` is that matrix, wherever it
lies: in memory, in a memory-mapped file that is never loaded whole, or in a Dask array on a cluster. A sweep goes over
chunks of columns, which are computed side by side, and within a chunk over blocks, which stay near the processor. Sums
are taken in the order of the chunks, so that they do not depend on the number of threads.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, IntArray
from fedica.threads import in_order

BLOCK_BYTES = 2**21
"""Bytes of the columns of one block, unless they are few and long."""
MOST_COLUMNS, FEWEST_COLUMNS = 2048, 32
"""Columns of one block, at most and at least."""
BLOCKS_PER_CHUNK, CHUNK_BYTES = 16, 2**23
"""Blocks that one thread handles before it reports, and the bytes that they may have together."""
KEEP_BYTES = 2**28
"""A view of the columns up to this size is computed once and kept; a larger one is computed again in every sweep."""

View = Callable[[Array], Array]
Parts = tuple[NDArray[Any], ...]
Swept = tuple[Parts, Parts]
ChunkSwept = tuple[list[Parts], Parts]
Work = Callable[..., Swept]
ChunkWork = Callable[[NDArray[Any], IntArray, Parts], ChunkSwept]


class Source(Protocol):
    """Where columns lie, cut into chunks."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    @property
    def bounds(self) -> IntArray:
        """Where blocks begin, and the number of columns at the end."""
        ...

    def run(self, work: ChunkWork, along: Parts) -> Iterator[ChunkSwept]:
        """Yield work(chunk, bounds of its blocks, parts of ``along``) for every chunk, in order."""
        ...

    def take(self, columns: IntArray) -> NDArray[Any]:
        """Return these columns."""
        ...


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Columns of an array in memory, or of a memory-mapped one.

    Parameters
    ----------
    array : ndarray of shape (p, R)
        The columns, of any real dtype and memory order.
    bounds : ndarray
        Where blocks begin, and R at the end.
    """

    array: NDArray[Any]
    bounds: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.array.shape[0]), int(self.array.shape[1])

    def run(self, work: ChunkWork, along: Parts) -> Iterator[ChunkSwept]:
        """Yield work(chunk, bounds of its blocks, parts of ``along``) for every chunk, in order."""
        mapped = mapping_of(self.array)

        def of_chunk(bounds: IntArray) -> ChunkSwept:
            own = slice(int(bounds[0]), int(bounds[-1]))
            chunk = self.array[:, own]
            if mapped is not None:
                chunk = np.array(chunk)
                mapped.madvise(mmap.MADV_DONTNEED)  # pages that were read must not pile up
            return work(chunk, bounds - bounds[0], tuple(a[..., own] for a in along))

        yield from in_order(of_chunk, chunks_of(self.bounds, self.shape[0]), work=20.0 * self.array.size)

    def take(self, columns: IntArray) -> NDArray[Any]:
        """Return these columns."""
        taken = np.array(self.array[:, columns])
        if (mapped := mapping_of(self.array)) is not None:
            mapped.madvise(mmap.MADV_DONTNEED)
        return taken


@dataclass(frozen=True, eq=False)
class Columns:
    """A (p, R) matrix of float64 that is read by blocks, as often as need be.

    Parameters
    ----------
    source : Source
        Where the columns lie.
    n_rows : int
        p, of what is seen.
    view : callable, optional
        What is seen of a block of the source: (rows of the source, b) to (p, b). By default the block itself.
    """

    source: Source
    n_rows: int
    view: View | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns: (p, R)."""
        return self.n_rows, self.source.shape[1]

    def seen(self, view: View, n_rows: int) -> Columns:
        """Return the same columns seen through a function of a block, (p, b) to (n_rows, b); nothing is computed."""
        before = self.view
        return Columns(self.source, n_rows, view if before is None else lambda block: view(before(block)))

    def sweep(self, work: Work, *along: NDArray[Any]) -> Swept:
        """Go over all blocks once.

        Parameters
        ----------
        work : callable
            ``work(block, *parts)`` returns two tuples of arrays: the first are joined along their last axis, the second
            are summed. It may run in another thread or process.
        *along : ndarray
            One number, or more, for each column on the last axis: ``parts`` are those of the block.

        Returns
        -------
        joined, summed : tuple of ndarray
            Over all blocks, in order.
        """
        view = self.view

        def of_chunk(chunk: NDArray[Any], bounds: IntArray, parts: Parts) -> ChunkSwept:
            results = []
            for start, stop in pairwise(bounds.tolist()):
                block = np.asarray(chunk[:, start:stop], dtype=np.float64)
                seen = block if view is None else view(block)
                results.append(work(seen, *(p[..., start:stop] for p in parts)))
            return [r[0] for r in results], _add(r[1] for r in results)

        joined: list[Parts] = []

        def sums() -> Iterator[Parts]:
            for each, total in self.source.run(of_chunk, along):
                joined.extend(each)
                yield total

        summed = _add(sums())
        return _join(joined), summed

    def each(self, work: Callable[..., Parts], *along: NDArray[Any]) -> Parts:
        """Join ``work(block, *parts)``, a tuple of arrays, along the last axis."""
        return self.sweep(lambda block, *parts: (work(block, *parts), ()), *along)[0]

    def total(self, work: Callable[..., Parts], *along: NDArray[Any]) -> Parts:
        """Sum ``work(block, *parts)``, a tuple of arrays, over the blocks."""
        return self.sweep(lambda block, *parts: ((), work(block, *parts)), *along)[1]

    def take(self, columns: IntArray) -> Array:
        """Return these columns, in this order, as an array."""
        ordered, back = np.unique(columns, return_inverse=True)
        size = max(FEWEST_COLUMNS, CHUNK_BYTES // (8 * self.source.shape[0]))
        pieces = []
        for start in range(0, max(ordered.size, 1), size):
            piece = np.asarray(self.source.take(ordered[start : start + size]), dtype=np.float64)
            pieces.append(piece if self.view is None else self.view(piece))
        taken = pieces[0] if len(pieces) == 1 else np.hstack(pieces)
        return taken if np.array_equal(ordered, columns) else np.asarray(taken[:, back])

    def whole(self) -> Array:
        """Return all columns as one array."""
        if self.view is None and isinstance(self.source, ArraySource):
            return np.asarray(self.source.array, dtype=np.float64)
        return np.asarray(self.each(lambda block: (block,))[0])

    def kept(self) -> Columns:
        """Compute what is seen once and keep it, unless it is too large for that."""
        if self.view is None or 8 * self.n_rows * self.shape[1] > KEEP_BYTES:
            return self
        return Columns(ArraySource(self.whole(), self.source.bounds), self.n_rows)


def columns_of(array: NDArray[Any], owner: IntArray | None = None) -> Columns:
    """Columns of an array, in blocks of whole clients. array : (p, R); owner : (R,), ascending; None: any block."""
    return Columns(ArraySource(array, block_bounds(array.shape, owner)), int(array.shape[0]))


def block_bounds(shape: tuple[int, ...], owner: IntArray | None) -> IntArray:
    """Cut (p, R) columns into blocks of a good size that split no client; the last bound is R."""
    n_rows, n_columns = shape
    size = int(np.clip(BLOCK_BYTES // (8 * n_rows), FEWEST_COLUMNS, MOST_COLUMNS))
    wanted = np.arange(0, n_columns, size)
    if owner is not None:
        wanted = np.unique(np.searchsorted(owner, owner[wanted], side="left"))
    return np.append(wanted, n_columns).astype(np.int64)


def chunks_of(bounds: IntArray, n_rows: int) -> Iterator[IntArray]:
    """Bounds of the blocks of each chunk."""
    bytes_of_block = 8 * n_rows * int(np.diff(bounds).max())
    n_blocks = int(np.clip(CHUNK_BYTES // bytes_of_block, 1, BLOCKS_PER_CHUNK))
    for first in range(0, bounds.size - 1, n_blocks):
        yield bounds[first : first + n_blocks + 1]


def mapping_of(array: NDArray[Any]) -> mmap.mmap | None:
    """Return the shared mapping of a file that an array is a view of, if it is one."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.mode == "c":  # its own changes live in the pages alone
            return None
        base = base.base
    return base if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None


def _join(pieces: list[Parts]) -> Parts:
    """Join tuples of arrays, one after the other, along the last axis."""
    if len(pieces) == 1:
        return pieces[0]
    return tuple(np.concatenate(column, axis=-1) for column in zip(*pieces, strict=True))


def _add(pieces: Iterator[Parts]) -> Parts:
    """Sum tuples of arrays in the order in which they come."""
    total: list[NDArray[Any]] = []
    for piece in pieces:
        if not total:
            total = [np.array(p) for p in piece]
        else:
            for sum_so_far, addend in zip(total, piece, strict=True):
                np.add(sum_so_far, addend, out=sum_so_far)
    return tuple(total)

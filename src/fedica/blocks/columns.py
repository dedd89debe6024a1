"""All atoms side by side, wherever they lie: a matrix whose columns are read by blocks of whole clients.

Every step of the server is a few sweeps over the columns of a (p, R) matrix: sums over them, and a few numbers for
each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, IntArray
from fedica.blocks.arrays import ArrayBlocks, Blocks, add
from fedica.blocks.cuts import Parts, block_bounds, blocks_of_chunk
from fedica.blocks.rows import is_dask

KEEP_BYTES = 2**28
"""A view of the columns up to this size is computed once and kept; a larger one is computed again in every sweep."""

View = Callable[[NDArray[Any]], Array]
Swept = tuple[Parts, Parts]


def as_float64(block: NDArray[Any]) -> Array:
    """Return the numbers of a block in double precision."""
    return np.asarray(block, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Columns:
    """A (p, R) matrix of float64 that is read by blocks, as often as need be."""

    blocks: Blocks
    bounds: IntArray  # where blocks begin, and R at the end
    n_rows: int  # p, of what is seen
    view: View = as_float64  # what is seen of a block: (rows of the blocks, b) to (p, b)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns: (p, R)."""
        return self.n_rows, self.blocks.shape[1]

    def seen(self, view: View, n_rows: int) -> Columns:
        """Return the same columns seen through a function of a block, (p, b) to (n_rows, b); nothing is computed."""
        before = self.view
        return replace(self, n_rows=n_rows, view=lambda block: view(before(block)))

    def in_same_blocks(self, array: NDArray[Any]) -> Columns:
        """Return the columns of another array, (q, R), in the same blocks."""
        return _columns(array, self.bounds)

    def sweep(self, work: Callable[..., Swept], *along: NDArray[Any]) -> Swept:
        """Go over all blocks once, in order; return the arrays that are joined and those that are summed.

        ``work(block, *parts)`` returns two tuples of arrays: the first are joined along their last axis, the second are
        summed. It may run in another thread or process. ``along`` has one number, or more, for each column on the last
        axis: ``parts`` are those of the block.
        """
        view = self.view

        def of_block(block: NDArray[Any], *parts: NDArray[Any]) -> tuple[list[Parts], Parts]:
            joined, summed = work(view(block), *parts)
            return [joined], tuple(np.array(s) for s in summed)  # copies: sums are added up in place

        n_operations = 20.0 * self.blocks.shape[0] * self.blocks.shape[1]
        joined, summed = reduce(_merge, self.blocks.parts(of_block, *along, merge=_merge, work=n_operations))
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
        taken = self.blocks.take(ordered, self.view)
        return taken if np.array_equal(ordered, columns) else np.asarray(taken[:, back])

    def whole(self) -> Array:
        """Return all columns as one array."""
        if self.view is as_float64 and isinstance(self.blocks, ArrayBlocks):
            return as_float64(self.blocks.array)
        return np.asarray(self.each(lambda block: (block,))[0])

    def kept(self) -> Columns:
        """Compute what is seen once and keep it, unless it is too large for that."""
        if self.view is as_float64 or 8 * self.n_rows * self.shape[1] > KEEP_BYTES:
            return self
        return self.in_same_blocks(self.whole())


def columns_of(array: Any, owner: IntArray | None = None) -> Columns:
    """Columns of an array or of a Dask array, in blocks of whole clients.

    array : (p, R); owner : (R,), ascending, the client of each column; None: columns of an array, in any blocks.
    """
    if is_dask(array):
        columns: Columns = import_module("fedica.blocks.dask_arrays").columns_of_dask(array, owner)
        return columns
    return _columns(array, block_bounds(array.shape, owner))


def _columns(array: NDArray[Any], bounds: IntArray) -> Columns:
    blocks = ArrayBlocks(array, bounds, axis=1, blocks_of_chunk=blocks_of_chunk(bounds, array.shape[0]))
    return Columns(blocks, bounds, array.shape[0])


def _merge(total: tuple[list[Parts], Parts], part: tuple[list[Parts], Parts]) -> tuple[list[Parts], Parts]:
    """Append what is joined and add what is summed, in place."""
    total[0].extend(part[0])
    return total[0], add(total[1], part[1])


def _join(pieces: list[Parts]) -> Parts:
    """Join tuples of arrays, one after the other, along the last axis."""
    if len(pieces) == 1:
        return pieces[0]
    return tuple(np.concatenate(column, axis=-1) for column in zip(*pieces, strict=True))

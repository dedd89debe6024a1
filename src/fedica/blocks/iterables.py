"""Iterables of blocks: whatever yields rows anew each time it is iterated, as files, queries and lists of arrays do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import IntArray, check_unmasked
from fedica.blocks.arrays import ArrayBlocks, Blocks, Function
from fedica.blocks.cuts import Parts, row_bounds, rows_of_block
from fedica.errors import DataError


def is_iterable_of_blocks(X: object) -> bool:
    """Tell an iterable of blocks from an array-like: a sequence of two-dimensional arrays, or another plain iterable.

    A nested list of numbers, a DataFrame, a sparse matrix and whatever converts itself to an array are array-likes.
    """
    if isinstance(X, list | tuple):
        return bool(X) and getattr(X[0], "ndim", 0) == 2
    array_like = any(hasattr(X, name) for name in ("__array__", "__array_interface__", "__dataframe__", "toarray"))
    return isinstance(X, Iterable) and not array_like and not isinstance(X, str | bytes)


class IterableBlocks(Blocks):
    """Rows of an iterable whose ``iter()`` starts anew every time and yields the same rows, (b, n_features).

    Blocks may differ in length. If it has a ``shape``, that is believed; else one more pass counts the rows (none for a
    list).
    """

    def __init__(self, blocks: Iterable[Any]) -> None:
        if iter(blocks) is blocks:
            raise DataError(
                f"fit reads its data several times; a {type(blocks).__name__} can be read once. Give a list of blocks, "
                "an object whose iter() starts anew, or an array; or feed the blocks to partial_fit one by one."
            )
        self._iterable = blocks
        first = self._first_block()
        self.shape, self.dtype = (len(first), first.shape[1]), first.dtype
        shape = getattr(blocks, "shape", None)
        n_rows = sum(len(block) for block in self._checked()) if shape is None else int(shape[0])
        self.shape = n_rows, self.n_features
        self.n_passes = int(shape is None and not isinstance(blocks, list | tuple))

    def _first_block(self) -> NDArray[Any]:
        for block in self._iterable:
            return as_block(block)
        raise DataError("an iterable of blocks must yield at least one; got none.")

    def _checked(self) -> Iterator[NDArray[Any]]:
        for number, raw in enumerate(self._iterable):
            block = as_block(raw)
            if block.shape[1] != self.n_features:
                raise DataError(
                    f"all blocks must have the same features; block {number} has {block.shape[1]}, "
                    f"block 0 has {self.n_features}."
                )
            yield block

    def chunks(self, along: Parts = ()) -> Iterator[list[Parts]]:
        """Yield the rows in order: every block of the iterable, cut into blocks of a good size."""
        n_seen = 0
        for block in self._checked():
            yield from ArrayBlocks(block, row_bounds(len(block), rows_of_block(self.n_features))).chunks(along)
            n_seen += len(block)
        if n_seen != self.n_samples:
            raise DataError(
                f"an iterable of blocks must yield the same rows every time; expected {self.n_samples} rows, got "
                f"{n_seen}. Use partial_fit for data that cannot be read again."
            )

    def take(self, items: IntArray, function: Function) -> NDArray[Any]:
        """Return function(these rows), applied to pieces of them, in one pass. items : ascending, distinct."""
        pieces, start = [], 0
        for block in self:
            first, last = np.searchsorted(items, [start, start + len(block)])
            if last > first:
                pieces.append(function(block[items[first:last] - start]))
            start += len(block)
        return np.concatenate(pieces)


@dataclass(frozen=True, eq=False)
class EachBlock:
    """A function of every block of an iterable, computed when it is iterated; itself an iterable of blocks."""

    blocks: Iterable[Any]
    function: Callable[[Any], NDArray[Any]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return map(self.function, self.blocks)


def as_block(raw: object) -> NDArray[Any]:
    """Return a block as a two-dimensional array of real numbers."""
    check_unmasked(raw, "a block")
    block = np.asarray(raw)
    if block.ndim != 2 or block.dtype.kind not in "fiub":
        raise DataError(
            f"a block must be a two-dimensional array of real numbers, (rows, features); got {block.dtype} of shape "
            f"{block.shape}."
        )
    return block

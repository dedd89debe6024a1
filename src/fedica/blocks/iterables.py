"""Sources of blocks: whatever yields rows anew every time it is iterated, as files, queries and lists of arrays do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.blocks.rows import ArrayBlocks, Blocks
from fedica.errors import DataError


def is_source(X: object) -> bool:
    """Tell a source of blocks from an array-like: a sequence of two-dimensional arrays, or another plain iterable.

    A nested list of numbers, a DataFrame, a sparse matrix and whatever converts itself to an array are array-likes.
    """
    if isinstance(X, list | tuple):
        return bool(X) and getattr(X[0], "ndim", 0) == 2
    array_like = any(hasattr(X, name) for name in ("__array__", "__array_interface__", "__dataframe__", "toarray"))
    return isinstance(X, Iterable) and not array_like and not isinstance(X, str | bytes)


class SourceBlocks(Blocks):
    """Blocks of a source that can be read again.

    Parameters
    ----------
    source : iterable of array-like of shape (b, n_features)
        Its ``iter()`` starts anew every time and yields the same rows. Blocks may differ in length. If it has a
        ``shape``, that is believed; else one more pass counts the rows (nothing for a list).
    """

    def __init__(self, source: Iterable[Any]) -> None:
        if iter(source) is source:
            raise DataError(
                f"fit reads its data several times; a {type(source).__name__} can be read once. Give a list of blocks, "
                "an object whose iter() starts anew, or an array; or feed the blocks to partial_fit one by one."
            )
        self._source = source
        self.n_features, self.dtype = self._first_block()
        shape = getattr(source, "shape", None)
        if shape is not None:
            self.n_samples = int(shape[0])
        else:
            self.n_samples = sum(block.shape[0] for block in self._checked())
            self.n_passes = 0 if isinstance(source, list | tuple) else 1

    def _first_block(self) -> tuple[int, np.dtype[Any]]:
        for block in self._source:
            first = as_block(block)
            return int(first.shape[1]), first.dtype
        raise DataError("a source of blocks must yield at least one; none came.")

    def _checked(self) -> Iterator[NDArray[Any]]:
        for number, raw in enumerate(self._source):
            block = as_block(raw)
            if block.shape[1] != self.n_features:
                raise DataError(
                    f"all blocks must have the same features; block {number} has {block.shape[1]}, "
                    f"block 0 has {self.n_features}."
                )
            yield block

    def _read(self) -> Iterator[NDArray[Any]]:
        n_seen = 0
        for block in self._checked():
            yield from ArrayBlocks(block)
            n_seen += block.shape[0]
        if n_seen != self.n_samples:
            raise DataError(
                f"a source must yield the same rows every time; {n_seen} rows came where {self.n_samples} were "
                "expected. Use partial_fit for data that cannot be read again."
            )


@dataclass(frozen=True, eq=False)
class EachBlock:
    """A function of every block of a source, computed when it is iterated; a source itself."""

    source: Iterable[Any]
    function: Callable[[Any], NDArray[Any]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return map(self.function, self.source)


def as_block(raw: object) -> NDArray[Any]:
    """Return a block as a two-dimensional array of real numbers."""
    block = np.asarray(raw)
    if block.ndim != 2 or block.dtype.kind not in "fiub":
        raise DataError(
            f"a block must be a two-dimensional array of real numbers, (rows, features); {block.dtype} of shape "
            f"{block.shape} came."
        )
    return block

"""A client whose data lies on a cluster: the same sums as tasks on the rows of a Dask array.

Every chunk of rows becomes one task that sums its blocks; the parts are merged by a tree whose shape depends on the
chunks alone. So neither the order in which workers finish nor the death of one, whose tasks are run again, changes a
bit of the result. Only sums and drawn rows travel, never the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import NDArray

from fedica.arrays import IntArray
from fedica.blocks.rows import ArrayBlocks, Blocks, Part
from fedica.errors import DataError

BRANCHES = 8
"""How many parts one task of the tree merges."""


class DaskBlocks(Blocks):
    """Blocks of a Dask array, read where its chunks are.

    Parameters
    ----------
    array : dask.array.Array of shape (n_samples, n_features)
        Chunked along rows; chunks of columns are joined first. Chunks of unknown length are counted in one more pass.
        Every pass computes the array again: ``persist()`` it first if that is dear and the cluster has the memory.
    """

    def __init__(self, array: Any) -> None:
        array = check_dask_array(array)
        self.n_features, self.dtype = int(array.shape[1]), array.dtype
        lengths = [float(length) for length in array.chunks[0]]
        chunks = list(array.to_delayed().ravel())
        if np.isnan(lengths).any():
            lengths = list(compute(*[delayed(len)(chunk) for chunk in chunks]))
            self.n_passes = 1
        filled = [(int(length), chunk) for length, chunk in zip(lengths, chunks, strict=True) if length]
        self._lengths = np.array([length for length, _ in filled], dtype=np.int64)
        self._chunks = [chunk for _, chunk in filled]
        self.n_samples = int(self._lengths.sum())

    def _read(self) -> Iterator[NDArray[Any]]:
        for chunk in self._chunks:
            yield from ArrayBlocks(np.asarray(chunk.compute()))

    def total(
        self, part_of: Callable[[NDArray[Any]], Part], *, merge: Callable[[Part, Part], Part], work: float
    ) -> Part:
        """Merge part_of(block) over all blocks: one task a chunk, then a tree of merges."""
        self.n_passes += 1
        fold = delayed(_Fold(part_of, merge), traverse=False)  # sent once, not with every task
        parts = [delayed(_over_chunk)(chunk, fold) for chunk in self._chunks]
        while len(parts) > 1:
            parts = [delayed(_merged)(parts[i : i + BRANCHES], fold) for i in range(0, len(parts), BRANCHES)]
        (total,) = compute(*parts)
        return total  # type: ignore[no-any-return]

    def take(self, rows: IntArray, function: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Return function(these rows), applied where they are. rows : sorted, distinct."""
        self.n_passes += 1
        shared = delayed(_Apply(function), traverse=False)
        ends = np.cumsum(self._lengths)
        pieces = [
            delayed(_taken)(chunk, own - start, shared)
            for chunk, start, own in zip(
                self._chunks, ends - self._lengths, np.split(rows, np.searchsorted(rows, ends[:-1])), strict=True
            )
            if own.size
        ]
        return np.concatenate(compute(*pieces))


def check_dask_array(X: Any) -> Any:
    """Return X as a two-dimensional Dask array of real numbers whose rows are whole, or say what it is instead."""
    if not isinstance(X, da.Array):
        raise DataError(
            f"of Dask's collections a client takes arrays; {type(X).__name__} came. A Dask DataFrame gives one by "
            "to_dask_array()."
        )
    if X.ndim != 2 or X.dtype.kind not in "fiub" or np.isnan(X.shape[1]):
        raise DataError(
            "a Dask array must be two-dimensional, of real numbers, with a known number of features (columns); "
            f"{X.dtype} of shape {X.shape} came."
        )
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


@dataclass(frozen=True)
class _Fold:
    """How to sum the blocks of a chunk, and how to merge the sums of chunks."""

    part_of: Callable[[NDArray[Any]], Any]
    merge: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class _Apply:
    function: Callable[[NDArray[Any]], NDArray[Any]]


def _over_chunk(chunk: Any, fold: _Fold) -> Any:
    return reduce(fold.merge, map(fold.part_of, ArrayBlocks(np.asarray(chunk))))


def _merged(parts: list[Any], fold: _Fold) -> Any:
    return reduce(fold.merge, parts[1:], deepcopy(parts[0]))  # a task must leave its inputs as they are


def _taken(chunk: Any, rows: IntArray, shared: _Apply) -> NDArray[Any]:
    return ArrayBlocks(np.asarray(chunk)).take(rows, shared.function)

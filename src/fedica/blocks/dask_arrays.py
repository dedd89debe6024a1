"""Data on a cluster: the same sums as tasks on the chunks of a Dask array.

Every chunk becomes one task that goes over its blocks. What comes of the chunks is put together in their order, so that
neither the order in which workers finish nor the death of one, whose tasks are run again, changes a bit of the result.
Only sums, the few numbers for each item that a step asks for, and drawn items travel; the data stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial, reduce
from itertools import pairwise, starmap
from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import NDArray

from fedica.arrays import IntArray
from fedica.blocks.arrays import Blocks, Function, Merge, Part, PartOf, take_from
from fedica.blocks.columns import Columns
from fedica.blocks.cuts import Parts, block_bounds, cut, row_bounds, rows_of_block
from fedica.errors import DataError

BRANCHES = 8
"""How many parts one task of the tree merges."""


class DaskBlocks(Blocks):
    """Blocks of a Dask array, read where its chunks are.

    Every pass computes the array again: ``persist()`` it first if that is expensive and the cluster has the memory.
    array : (n_rows, n_columns), chunked along the axis alone. bounds : where the blocks of each chunk begin within it,
    and its length at the end.
    """

    def __init__(self, array: Any, bounds: Sequence[IntArray], *, axis: int) -> None:
        filled = [(own, chunk) for own, chunk in zip(bounds, array.to_delayed().ravel(), strict=True) if own[-1]]
        self._bounds, self._chunks = [own for own, _ in filled], [chunk for _, chunk in filled]
        self._ends = np.cumsum([0, *(own[-1] for own in self._bounds)])
        n_items, n_others = int(self._ends[-1]), int(array.shape[1 - axis])
        self.shape = (n_items, n_others) if axis == 0 else (n_others, n_items)
        self.dtype, self.axis = array.dtype, axis

    def chunks(self, along: Parts = ()) -> Iterator[list[Parts]]:
        """Yield the chunks in order, one after the other, computed here."""
        for chunk, bounds, parts in zip(self._chunks, self._bounds, self._of_chunks(along), strict=True):
            yield list(cut(np.asarray(chunk.compute()), bounds, self.axis, parts))

    def parts(self, part_of: PartOf[Part], *along: NDArray[Any], merge: Merge[Part], work: float) -> Iterator[Part]:
        """Yield part_of(block, *parts of along) merged over the blocks of each chunk: one task per chunk."""
        self.n_passes += 1
        yield from compute(*self._tasks(part_of, merge, along))

    def total(self, part_of: PartOf[Part], *, merge: Merge[Part], work: float) -> Part:
        """Merge part_of(block) over all blocks: one task per chunk, then a tree of merges."""
        self.n_passes += 1
        parts, shared = self._tasks(part_of, merge, ()), _sent_once(merge)
        while len(parts) > 1:
            parts = [delayed(_merged)(shared, parts[i : i + BRANCHES]) for i in range(0, len(parts), BRANCHES)]
        (total,) = compute(*parts)
        return total  # type: ignore[no-any-return]

    def take(self, items: IntArray, function: Function) -> NDArray[Any]:
        """Return function(these items), applied where they are. items : ascending, distinct."""
        self.n_passes += 1
        take = _sent_once(partial(take_from, function=function, axis=self.axis))
        wanted = np.split(items, np.searchsorted(items, self._ends[1:-1]))
        pieces = [
            delayed(_run)(take, chunk, own - start)
            for chunk, start, own in zip(self._chunks, self._ends, wanted, strict=False)
            if own.size or not items.size
        ]
        return np.concatenate(compute(*pieces), axis=self.axis)

    def _of_chunks(self, along: Parts) -> Iterator[Parts]:
        for start, stop in pairwise(self._ends):
            yield tuple(np.ascontiguousarray(a[..., start:stop]) for a in along)

    def _tasks(self, part_of: PartOf[Part], merge: Merge[Part], along: Parts) -> list[Any]:
        fold = _sent_once(partial(_fold, part_of, merge, self.axis))
        chunks = zip(self._chunks, self._bounds, self._of_chunks(along), strict=True)
        return [delayed(_run)(fold, chunk, bounds, parts) for chunk, bounds, parts in chunks]


def rows_of_dask(array: Any) -> DaskBlocks:
    """Return the rows of a Dask array, (n_samples, n_features); chunks of unknown length cost one pass more."""
    array = check_dask_array(array)
    lengths: Sequence[float] = array.chunks[0]
    unknown = bool(np.isnan(lengths).any())
    if unknown:
        lengths = compute(*[delayed(len)(chunk) for chunk in array.to_delayed().ravel()])
    blocks = DaskBlocks(array, [row_bounds(int(length), rows_of_block(array.shape[1])) for length in lengths], axis=0)
    blocks.n_passes = int(unknown)
    return blocks


def columns_of_dask(array: Any, owner: IntArray) -> Columns:
    """Return the columns of a Dask array, chunked anew where a chunk splits a client.

    array : (p, R); owner : (R,), ascending.
    """
    ends = np.cumsum(array.chunks[1])[:-1]
    cuts = np.unique(np.searchsorted(owner, owner[ends], side="left")) if ends.size else ends
    edges = np.unique(np.concatenate([[0], cuts, [owner.size]]))
    whole = array.rechunk({0: -1, 1: tuple(np.diff(edges).tolist())})
    bounds = np.union1d(block_bounds(array.shape, owner), edges).astype(np.int64)
    inside = [bounds[(bounds >= start) & (bounds <= stop)] - start for start, stop in pairwise(edges)]
    return Columns(DaskBlocks(whole, inside, axis=1), bounds, int(array.shape[0]))


def check_dask_array(X: Any) -> Any:
    """Return X as a two-dimensional Dask array of real numbers whose rows are whole, or say what it is instead."""
    if not isinstance(X, da.Array):
        raise DataError(
            f"of Dask's collections a client takes arrays; got {type(X).__name__}. A Dask DataFrame gives one by "
            "to_dask_array()."
        )
    if X.ndim != 2 or X.dtype.kind not in "fiub" or np.isnan(X.shape[1]):
        raise DataError(
            "a Dask array must be two-dimensional, of real numbers, with a known number of features (columns); "
            f"got {X.dtype} of shape {X.shape}."
        )
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _sent_once(function: Callable[..., Any]) -> Any:
    return delayed(function, traverse=False)  # as an argument that tasks share; else it would be sent with each of them


def _run(function: Callable[..., Any], chunk: Any, *given: Any) -> Any:
    return function(np.asarray(chunk), *given)


def _fold(
    part_of: PartOf[Part], merge: Merge[Part], axis: int, chunk: NDArray[Any], bounds: IntArray, along: Parts
) -> Part:
    return reduce(merge, starmap(part_of, cut(chunk, bounds, axis, along)))


def _merged(merge: Merge[Part], parts: list[Part]) -> Part:
    return reduce(merge, parts[1:], deepcopy(parts[0]))  # a task must leave its inputs as they are

"""Atoms on a cluster: the sweeps of the server as tasks on the chunks of a Dask array.

Every chunk of columns becomes one task that goes over its blocks; its sums, and the few numbers for each atom that a
step asks for, come back and are put together in the order of the chunks. So neither the order in which workers finish
nor the death of one, whose tasks are run again, changes a bit of the result. The atoms themselves stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import NDArray

from fedica.arrays import IntArray
from fedica.blocks.columns import ChunkSwept, ChunkWork, Columns, Parts, block_bounds


@dataclass(frozen=True, eq=False)
class DaskSource:
    """Columns of a Dask array.

    Parameters
    ----------
    array : dask.array.Array of shape (p, R)
        Chunked along columns, never within a client. Every sweep computes it again: ``persist()`` it first if that is
        dear and the cluster has the memory.
    bounds : ndarray
        Where blocks begin, and R at the end; every chunk begins with a block.
    """

    array: Any
    bounds: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.array.shape[0]), int(self.array.shape[1])

    def run(self, work: ChunkWork, along: Parts) -> Iterator[ChunkSwept]:
        """Yield work(chunk, bounds of its blocks, parts of ``along``) for every chunk, in order."""
        shared = delayed(_Apply(work), traverse=False)  # sent once, not with every task
        ends = np.cumsum(self.array.chunks[1])
        tasks = []
        for chunk, start, stop in zip(self.array.to_delayed()[0], ends - self.array.chunks[1], ends, strict=True):
            inside = self.bounds[(self.bounds >= start) & (self.bounds <= stop)]
            parts = tuple(np.ascontiguousarray(a[..., start:stop]) for a in along)
            tasks.append(delayed(_of_chunk)(shared, chunk, _Given(inside - start, parts)))
        yield from compute(*tasks)

    def take(self, columns: IntArray) -> NDArray[Any]:
        """Return these columns. columns : ascending."""
        return np.asarray(self.array[:, columns].compute())


@dataclass(frozen=True)
class _Apply:
    work: ChunkWork


@dataclass(frozen=True)
class _Given:
    bounds: IntArray
    parts: Parts


def _of_chunk(shared: _Apply, chunk: Any, given: _Given) -> ChunkSwept:
    return shared.work(np.asarray(chunk), given.bounds, given.parts)


def columns_of_dask(array: Any, owner: IntArray) -> Columns:
    """Columns of a Dask array, chunked anew where a chunk splits a client. array : (p, R); owner : (R,), ascending."""
    ends = np.cumsum(array.chunks[1])[:-1]
    cuts = np.unique(np.searchsorted(owner, owner[ends], side="left")) if ends.size else ends
    edges = np.unique(np.concatenate([[0], cuts, [owner.size]]))
    whole = array.rechunk({0: -1, 1: tuple(np.diff(edges).tolist())})
    bounds = np.union1d(block_bounds(array.shape, owner), edges)
    return Columns(DaskSource(whole, bounds.astype(np.int64)), int(array.shape[0]))

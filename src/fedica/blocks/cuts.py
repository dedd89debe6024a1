"""How rows and columns are cut: into blocks that stay near the processor, and chunks of a few blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import IntArray

ROW_BLOCK_BYTES, MIN_ROWS = 2**20, 64
"""Float64 bytes of a block of rows, about a core's own cache (with less, threads wait for one another); fewest rows."""
COLUMN_BLOCK_BYTES, MIN_COLUMNS, MAX_COLUMNS = 2**21, 32, 2048
"""Float64 bytes of a block of columns, and how many columns it has, at least and at most."""
CHUNK_BYTES, MAX_BLOCKS = 2**23, 16
"""Float64 bytes of the columns of one chunk, and how many blocks it has at most."""

Parts = tuple[NDArray[Any], ...]


def cut(array: NDArray[Any], bounds: IntArray, axis: int, along: Parts) -> Iterator[Parts]:
    """Yield the blocks of an array between these bounds, each with its parts of ``along`` (last axis)."""
    for start, stop in pairwise(bounds.tolist()):
        block = array[start:stop] if axis == 0 else array[:, start:stop]
        yield block, *(a[..., start:stop] for a in along)


def row_bounds(n_rows: int, block_rows: int) -> IntArray:
    """Cut rows into blocks of this many; the last bound is the number of rows."""
    return np.append(np.arange(0, n_rows, block_rows, dtype=np.int64), n_rows)


def rows_of_block(n_columns: int) -> int:
    """Return how many rows a block has."""
    return max(MIN_ROWS, ROW_BLOCK_BYTES // (8 * max(n_columns, 1)))


def block_bounds(shape: tuple[int, ...], owner: IntArray | None) -> IntArray:
    """Cut (p, R) columns into blocks that split no client; the last bound is R. owner : (R,), ascending, or None."""
    n_rows, n_columns = shape
    size = int(np.clip(COLUMN_BLOCK_BYTES // (8 * n_rows), MIN_COLUMNS, MAX_COLUMNS))
    wanted = np.arange(0, n_columns, size)
    if owner is not None:
        wanted = np.unique(np.searchsorted(owner, owner[wanted], side="left"))
    return np.append(wanted, n_columns).astype(np.int64)


def blocks_of_chunk(bounds: IntArray, n_rows: int) -> int:
    """Return how many of these blocks of columns make a chunk."""
    return int(np.clip(CHUNK_BYTES // (8 * n_rows * int(np.diff(bounds).max())), 1, MAX_BLOCKS))


def items_at_once(shape: tuple[int, int], axis: int) -> int:
    """Return how many rows, or columns, are taken out at once."""
    return rows_of_block(shape[1]) if axis == 0 else max(MIN_COLUMNS, CHUNK_BYTES // (8 * shape[0]))

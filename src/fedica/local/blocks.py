"""A client's data as blocks of rows, so that every sum over samples is written once for data of any size.

All of a client's mathematics is sums over samples. Each is written ``for block in blocks``: an array in memory, a
memory-mapped file and, later, any source that can be read again give the same sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import IntArray

BLOCK_BYTES = 2**19
"""Float64 bytes of one block: half a megabyte, so that a block and its product stay in a core's own cache."""


class Blocks(Protocol):
    """Rows of samples that can be read several times, a block at a time."""

    @property
    def n_samples(self) -> int:
        """How many rows there are."""
        ...

    @property
    def n_features(self) -> int:
        """How many columns there are."""
        ...

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Yield the rows in order, as (b, n_features) arrays of any real dtype; nobody writes to them."""
        ...

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return these rows. rows : sorted, distinct."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """Blocks of an array in memory or of a memory-mapped one, which is never loaded whole.

    Parameters
    ----------
    array : ndarray of shape (n_samples, n_features)
        The data, of any real dtype and memory order.
    block_rows : int, optional
        Rows of one block; by default as many as fill `BLOCK_BYTES`.
    """

    array: NDArray[Any]
    block_rows: int | None = None

    @property
    def n_samples(self) -> int:
        """How many rows there are."""
        return int(self.array.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns there are."""
        return int(self.array.shape[1])

    def __iter__(self) -> Iterator[NDArray[Any]]:
        rows = self.block_rows or max(64, BLOCK_BYTES // (8 * self.n_features))
        for start in range(0, self.n_samples, rows):
            yield self.array[start : start + rows]

    def take(self, rows: IntArray) -> NDArray[Any]:
        """Return these rows. rows : sorted, distinct."""
        return np.asarray(self.array[rows])

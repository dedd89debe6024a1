"""Data wherever it lies: read it as blocks, and send it through an affine map without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array
from fedica.blocks.iterables import EachBlock, SourceBlocks, as_block, is_source
from fedica.blocks.rows import ArrayBlocks, Blocks
from fedica.errors import DataError
from fedica.ica.whitening import not_finite_sentence


def is_dask(X: object) -> bool:
    """Whether X is one of Dask's collections; Dask is imported by whoever made it, never here."""
    return hasattr(X, "__dask_graph__")


def beyond_arrays(X: object) -> Blocks | None:
    """Return the blocks of a Dask array or of a source of blocks; ``None`` for an array-like."""
    if is_dask(X):
        blocks: Blocks = import_module("fedica.blocks.dask_rows").DaskBlocks(X)
        return blocks
    return SourceBlocks(X) if is_source(X) else None  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Unmix:
    """The map ``S = (X - mean) @ components.T``, for rows of the features that were fitted.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        What to subtract.
    components : ndarray of shape (r, d)
        How to unmix.
    """

    mean: Array
    components: Array

    def rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Unmix rows in memory, (b, d) -> (b, r); float32 stays float32. What is not finite is refused."""
        sources = np.subtract(rows, self.mean, dtype=np.float64) @ self.components.T
        if not np.isfinite(sources).all():
            raise DataError(not_finite_sentence(ArrayBlocks(rows)))
        return np.asarray(sources, dtype=_dtype_of_sources(rows.dtype))

    def array(self, data: NDArray[Any]) -> NDArray[Any]:
        """Unmix an array, in memory or memory-mapped, block by block."""
        sources = np.empty((data.shape[0], len(self.components)), dtype=_dtype_of_sources(data.dtype))
        start = 0
        for block in ArrayBlocks(data):
            sources[start : start + len(block)] = self.rows(block)
            start += len(block)
        return sources

    def block(self, raw: object) -> NDArray[Any]:
        """Unmix one block of a source."""
        block = as_block(raw)
        if block.shape[1] != self.mean.size:
            raise DataError(f"a block has {block.shape[1]} features; {self.mean.size} were fitted.")
        return self.array(block)

    def lazily(self, X: Any) -> Any:
        """Unmix a Dask array into a Dask array, or a source into a source: computed when it is asked for."""
        if not is_dask(X):
            return EachBlock(X, self.block)
        X = import_module("fedica.blocks.dask_rows").check_dask_array(X)
        chunks = (X.chunks[0], (len(self.components),))
        return X.map_blocks(self.block, chunks=chunks, dtype=_dtype_of_sources(X.dtype), meta=np.empty((0, 0)))


def _dtype_of_sources(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)

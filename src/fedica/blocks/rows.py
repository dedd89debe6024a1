"""A client's data as blocks of rows, wherever they lie."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fedica.blocks.arrays import ArrayBlocks, Blocks
from fedica.blocks.cuts import row_bounds, rows_of_block
from fedica.blocks.iterables import IterableBlocks, is_iterable_of_blocks


def is_dask(X: object) -> bool:
    """Whether X is one of Dask's collections; Dask is imported by whoever made it, never here."""
    return hasattr(X, "__dask_graph__")


def is_lazy(X: object) -> bool:
    """Whether X is a Dask collection or an iterable of blocks, rather than an array-like."""
    return is_dask(X) or is_iterable_of_blocks(X)


def rows_of(X: Any, block_rows: int | None = None) -> Blocks:
    """Return the rows of an array, of an iterable of blocks or of a Dask array. X : (n_samples, n_features).

    block_rows : rows of one block of an array; by default they fill a megabyte.
    """
    if is_dask(X):
        blocks: Blocks = import_module("fedica.blocks.dask_arrays").rows_of_dask(X)
        return blocks
    if is_iterable_of_blocks(X):
        return IterableBlocks(X)
    return ArrayBlocks(X, row_bounds(len(X), block_rows or rows_of_block(X.shape[1])))

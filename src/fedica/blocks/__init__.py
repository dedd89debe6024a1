"""Data seen by blocks wherever it lies: in memory, in a mapped file, in an iterable, on a Dask cluster."""

from __future__ import annotations

from fedica.blocks.arrays import ArrayBlocks, Blocks, add
from fedica.blocks.columns import Columns, columns_of
from fedica.blocks.cuts import Parts, block_bounds
from fedica.blocks.directions import MAX_DENSE_SCATTER, Directions, leading_directions
from fedica.blocks.eigen import Eigenpairs, leading_eigenpairs
from fedica.blocks.iterables import EachBlock, as_block
from fedica.blocks.rows import is_dask, is_lazy, rows_of
from fedica.blocks.spool import Spool

__all__ = [
    "MAX_DENSE_SCATTER",
    "ArrayBlocks",
    "Blocks",
    "Columns",
    "Directions",
    "EachBlock",
    "Eigenpairs",
    "Parts",
    "Spool",
    "add",
    "as_block",
    "block_bounds",
    "columns_of",
    "is_dask",
    "is_lazy",
    "leading_directions",
    "leading_eigenpairs",
    "rows_of",
]

"""Data seen by blocks wherever it lies: in memory, in a mapped file, in an iterable, on a Dask cluster."""

from fedica.blocks.arrays import Blocks, add, release_pages
from fedica.blocks.atom_array import columns_of_atom_array
from fedica.blocks.columns import KEEP_BYTES, Columns, columns_of
from fedica.blocks.cuts import Parts
from fedica.blocks.directions import MAX_DENSE_SCATTER, Directions, leading_directions
from fedica.blocks.eigen import leading_eigenpairs
from fedica.blocks.groups import clients_of, group_medians, membership, nearest_halves, split_by_group, weighted_median
from fedica.blocks.iterables import EachBlock, as_block
from fedica.blocks.rows import is_dask, is_lazy, rows_of
from fedica.blocks.sampling import Drawn, draw_clients
from fedica.blocks.spool import Spool, content_digests, digest, reordered, side_by_side

__all__ = [
    "KEEP_BYTES",
    "MAX_DENSE_SCATTER",
    "Blocks",
    "Columns",
    "Directions",
    "Drawn",
    "EachBlock",
    "Parts",
    "Spool",
    "add",
    "as_block",
    "clients_of",
    "columns_of",
    "columns_of_atom_array",
    "content_digests",
    "digest",
    "draw_clients",
    "group_medians",
    "is_dask",
    "is_lazy",
    "leading_directions",
    "leading_eigenpairs",
    "membership",
    "nearest_halves",
    "release_pages",
    "reordered",
    "rows_of",
    "side_by_side",
    "split_by_group",
    "weighted_median",
]

"""The atoms of very many clients, checked where they lie: in memory, in a mapped file or on a cluster."""

from __future__ import annotations

import numpy as np

from fedica.arrays import NEAR_ZERO, UNIT_TOL, Array, BoolArray, unit_of_any_scale
from fedica.blocks.columns import Columns, columns_of
from fedica.errors import ContributionError
from fedica.records import AtomArray
from fedica.threads import threads_for_blocks


def columns_of_atom_array(array: AtomArray) -> Columns:
    """Return the atoms as unit columns, in blocks of whole clients; refuse what is not finite or zero."""
    owner = array.client_of_atom
    columns = columns_of(array.atoms, owner)

    def count(block: Array) -> tuple[Array]:
        squares = np.einsum("db,db->b", block, block)
        unusable = ~_usable(squares)
        stretched = np.abs(np.sqrt(np.where(unusable, 1.0, squares)) - 1) > UNIT_TOL
        return (np.array([float(unusable.sum()), float(stretched.sum())]),)

    with threads_for_blocks():
        ((n_unusable, n_stretched),) = columns.total(count)
        if n_unusable:
            (usable,) = columns.each(lambda block: (_usable(np.einsum("db,db->b", block, block)),))
            atom = int(np.argmin(usable))
            name = array.clients[owner[atom]]
            raise ContributionError(
                f"client {name!r}: its atoms must be directions; atom {atom} of the array is zero or not finite, and "
                f"{int(n_unusable) - 1} others are. Leave such clients out of the array.",
                name,
            )
    return columns.seen(unit_of_any_scale, columns.n_rows) if n_stretched else columns


def _usable(squares: Array) -> BoolArray:
    finite = np.isfinite(squares)
    return np.asarray(finite & (squares > NEAR_ZERO**2 * squares.max(where=finite, initial=0.0)))

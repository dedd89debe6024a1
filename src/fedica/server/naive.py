"""The paper's naive baselines: columns combined by their index, as if order and signs were known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.blocks.columns import Columns
from fedica.errors import GroupingError


def naive_centres(atoms: Columns, index: IntArray, n_components: int, combine: Callable[..., Array]) -> Array:
    """Combine the first atoms of all clients, the second, and so on. atoms : (d, R); result : (d, r)."""
    return np.stack([combine(atoms.take(np.flatnonzero(index == a)), axis=1) for a in range(n_components)], axis=1)


def index_in_client(client_of_atom: IntArray, n_components: int) -> IntArray:
    """Place of each atom in its client's matrix, which the naive methods take for its component."""
    first = np.searchsorted(client_of_atom, client_of_atom)
    index = np.arange(client_of_atom.size) - first
    if index.max() >= n_components:
        raise GroupingError(
            f"the naive methods combine columns by their index: {n_components} components were wanted, but a client "
            f"sent {index.max() + 1} atoms. Ask for n_components={index.max() + 1}, or take another method."
        )
    return index

"""Atoms that lie in files, of one client or of many side by side: read as float64 columns of norm one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, IntArray


@dataclass(frozen=True, eq=False)
class Piece:
    """Some atoms that lie together."""

    read: Callable[[int, int], NDArray[Any]]  # from two bounds to the atoms between, one per row, as they are stored
    start: int  # the first atom, for ``read``
    stop: int  # the one after the last
    norms: Array | None = None  # what atoms 0, 1 and so on are divided by; None: they have norm one as they are

    def rows(self) -> Array:
        """Return the atoms, one per row."""
        rows = self.read(self.start, self.stop)
        if self.norms is None:
            return np.asarray(rows, dtype=np.float64)
        rows = rows.astype(np.float64)
        rows /= self.norms[self.start : self.stop, None]
        return rows


class StoredAtoms:
    """A (d, R) matrix of float64 whose columns are read when they are used: ``np.asarray`` reads all of them.

    A range of columns, ``atoms[:, 3:7]``, is another one of these, and nothing is read; any other index reads the
    columns that it names, and gives an array. Who changes nothing but the order of columns copies nothing.

    Parameters
    ----------
    n_features : int
        d.
    pieces : iterable of Piece
        The columns, from the first to the last.
    digests : tuple of bytes, optional
        Fingerprints of the whole, where they are known.
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, n_features: int, pieces: Iterable[Piece], digests: tuple[bytes, bytes] | None = None) -> None:
        self.pieces, self.digests = tuple(pieces), digests
        self._bounds = np.cumsum([0, *(piece.stop - piece.start for piece in self.pieces)])
        self.shape = (n_features, int(self._bounds[-1]))

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """How many bytes they take once they are read."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if len(self.pieces) == 1:
            return np.asarray(self.pieces[0].rows().T, dtype=dtype)
        columns = np.empty(self.shape)
        for k, piece in enumerate(self.pieces):
            columns[:, self._bounds[k] : self._bounds[k + 1]] = piece.rows().T
        return np.asarray(columns, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], slice) and key[0] == slice(None)):
            return np.asarray(self)[key]
        if isinstance(key[1], slice) and key[1].step in (None, 1):
            start, stop, _ = key[1].indices(self.shape[1])
            return StoredAtoms(self.shape[0], self._between(start, stop))
        columns = np.arange(self.shape[1])[key[1]]
        return self._taken(columns) if columns.ndim else self._taken(columns[None])[:, 0]

    def __reduce__(self) -> tuple[Any, tuple[Array]]:
        return np.asarray, (np.asarray(self),)

    def in_order(self, order: IntArray) -> StoredAtoms:
        """Return the columns in another order, (R,); nothing is read."""
        runs = np.split(order, np.flatnonzero(np.diff(order) != 1) + 1)
        pieces = (piece for run in runs for piece in self._between(int(run[0]), int(run[-1]) + 1))
        return StoredAtoms(self.shape[0], pieces)

    def _between(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield the pieces of a range of columns."""
        for k in range(int(np.searchsorted(self._bounds, start, side="right")) - 1, len(self.pieces)):
            first, piece = int(self._bounds[k]), self.pieces[k]
            if first >= stop or start >= stop:
                return
            here = piece.start + max(start - first, 0), min(piece.start + stop - first, piece.stop)
            yield piece if here == (piece.start, piece.stop) else replace(piece, start=here[0], stop=here[1])

    def _taken(self, columns: IntArray) -> Array:
        """Read some columns, in this order. columns : (m,), from 0 on."""
        rows = np.empty((columns.size, self.shape[0]))
        owner = np.searchsorted(self._bounds, columns, side="right") - 1
        for k in np.unique(owner):
            place = np.flatnonzero(owner == k)
            own = columns[place]
            (piece,) = self._between(int(own.min()), int(own.max()) + 1)
            rows[place] = piece.rows()[own - own.min()]
        return rows.T

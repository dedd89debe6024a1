"""Fourth moments of whitened data, gathered in one pass: all that Eq. (2) ever needs of the samples.

The r(r+1)/2 products z_i z_j, i <= j, of a sample are its quadratic features; their Gram matrix holds every fourth
moment once. It is a plain sum over samples, so blocks, files and machines can each add their part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.ica.whitened import Whitened

MOMENTS_MAX = 20
"""Up to this many components the fourth moments are cheaper than iterating over the data (measured)."""
CHUNK_BYTES = 2**19
"""Bytes of quadratic features formed at once: they are consumed by the Gram product while still in cache."""


@dataclass(frozen=True, eq=False)
class FourthMoments:
    """E[z_i z_j z_k z_l] of r whitened coordinates.

    Parameters
    ----------
    matrix : ndarray of shape (m, m), m = r(r+1)/2
        E[q q'] of the quadratic features q = (z_i z_j), i <= j, row by row of the upper triangle.
    n_samples : int
        How many samples were averaged.
    n_components : int
        r.
    """

    matrix: Array
    n_samples: int
    n_components: int

    def __post_init__(self) -> None:
        rows, columns = np.triu_indices(self.n_components)
        place = np.empty((self.n_components, self.n_components), dtype=np.int64)
        place[rows, columns] = place[columns, rows] = np.arange(rows.size)
        set_ = object.__setattr__
        set_(self, "_rows", rows)
        set_(self, "_columns", columns)
        set_(self, "_place", place)
        set_(self, "_times", np.where(rows == columns, 1.0, 2.0)[:, None])

    _rows: IntArray = None  # type: ignore[assignment]
    _columns: IntArray = None  # type: ignore[assignment]
    _place: IntArray = None  # type: ignore[assignment]
    _times: Array = None  # type: ignore[assignment]

    def gradient(self, directions: Array) -> Array:
        """Return E[z (w'z)^3] for every column w. directions : (r, k) -> (r, k)."""
        return np.asarray((self.second(directions) * directions).sum(axis=1))

    def second(self, directions: Array) -> Array:
        """Return E[(w'z)^2 zz'] for every column w. directions : (r, k) -> (r, r, k)."""
        squares = directions[self._rows] * directions[self._columns]
        squares *= self._times
        return np.asarray((self.matrix @ squares)[self._place])

    def contract(self, symmetric: Array) -> Array:
        """Return m4(G) = E[(z'Gz) zz'] for every symmetric G. symmetric : (k, r, r) -> (k, r, r)."""
        entries = symmetric[:, self._rows, self._columns].T * self._times
        return np.asarray(np.moveaxis((self.matrix @ entries)[self._place], 2, 0))


def at_hand(data: Whitened | FourthMoments) -> FourthMoments | None:
    """Return the fourth moments where a solver should run on them: they are all there is, or the cheaper way."""
    if isinstance(data, FourthMoments):
        return data
    return gather(data) if data.n_components <= MOMENTS_MAX else None


def gather(data: Whitened | FourthMoments) -> FourthMoments:
    """Average the products of quadratic features over all samples, in one pass. data : (n, r)."""
    if isinstance(data, FourthMoments):
        return data
    r = data.n_components
    m = r * (r + 1) // 2
    chunk = max(64, CHUNK_BYTES // (8 * m))

    def gram_of(block: Array) -> Array:
        buffer = np.empty((m, min(chunk, block.shape[0])))
        total = np.zeros((m, m))
        for first in range(0, block.shape[0], chunk):
            q = quadratic_features(block[first : first + chunk], buffer)
            total += q @ q.T
        return total

    total = data.over_blocks(gram_of, work=float(m) * m * data.n_samples)
    return FourthMoments(total / data.n_samples, data.n_samples, r)


def quadratic_features(rows: Array, buffer: Array) -> Array:
    """Return the products z_i z_j, i <= j, of every row, one a column: (b, r) -> (m, b), written to the buffer."""
    z = np.ascontiguousarray(rows.T)
    r = z.shape[0]
    q = buffer[:, : z.shape[1]]
    first = 0
    for i in range(r):
        np.multiply(z[i], z[i:], out=q[first : first + r - i])
        first += r - i
    return q

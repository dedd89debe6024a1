"""Fourth moments of whitened data, gathered in one pass: a sufficient statistic for Eq. (2).

The r(r+1)/2 products z_i z_j, i <= j, of a sample are its quadratic features; their Gram matrix holds every fourth
moment once. It is a sum over samples, to which blocks, files and machines each add their part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.ica.whitened import Whitened

MAX_COMPONENTS_ON_MOMENTS = 20
"""Up to this many components the fourth moments are cheaper than iterating over the data (measured)."""
CHUNK_BYTES = 2**19
"""Bytes of quadratic features formed at once: they are consumed by the Gram product while still in cache."""


@dataclass(frozen=True, eq=False)
class UpperTriangle:
    """The m = r(r+1)/2 entries i <= j of a symmetric (r, r) matrix, row by row."""

    rows: IntArray  # (m,), i of each entry
    columns: IntArray  # (m,), j of each entry
    place: IntArray  # (r, r), which entry holds (i, j), and (j, i)
    times: Array  # (m, 1), how often the entry occurs in the matrix: once on the diagonal, else twice

    @classmethod
    def of_size(cls, r: int) -> UpperTriangle:
        """Return the entries of an (r, r) matrix."""
        rows, columns = np.triu_indices(r)
        place = np.empty((r, r), dtype=np.int64)
        place[rows, columns] = place[columns, rows] = np.arange(rows.size)
        return cls(rows, columns, place, np.where(rows == columns, 1.0, 2.0)[:, None])


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

    @cached_property
    def _triangle(self) -> UpperTriangle:
        return UpperTriangle.of_size(self.n_components)

    def gradient(self, directions: Array) -> Array:
        """Return E[z (w'z)^3] for every column w. directions : (r, k) -> (r, k)."""
        return np.asarray((self.second(directions) * directions).sum(axis=1))

    def second(self, directions: Array) -> Array:
        """Return E[(w'z)^2 zz'] for every column w. directions : (r, k) -> (r, r, k)."""
        upper = self._triangle
        squares = directions[upper.rows] * directions[upper.columns]
        squares *= upper.times
        return np.asarray((self.matrix @ squares)[upper.place])

    def contract(self, symmetric: Array) -> Array:
        """Return m4(G) = E[(z'Gz) zz'] for every symmetric G. symmetric : (k, r, r) -> (k, r, r)."""
        upper = self._triangle
        entries = symmetric[:, upper.rows, upper.columns].T * upper.times
        return np.asarray(np.moveaxis((self.matrix @ entries)[upper.place], 2, 0))


def moments_if_cheaper(data: Whitened | FourthMoments) -> FourthMoments | None:
    """Return the fourth moments if a solver should run on them: samples are not there, or cost more to iterate over."""
    if isinstance(data, FourthMoments):
        return data
    return gather_moments(data) if data.n_components <= MAX_COMPONENTS_ON_MOMENTS else None


def gather_moments(data: Whitened) -> FourthMoments:
    """Average the products of quadratic features over all samples, in one pass. data : (n, r)."""
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
    """Write the products z_i z_j, i <= j, of every row to the buffer, one row per column: (b, r) -> (m, b)."""
    z = np.ascontiguousarray(rows.T)
    r = z.shape[0]
    q = buffer[:, : z.shape[1]]
    first = 0
    for i in range(r):
        np.multiply(z[i], z[i:], out=q[first : first + r - i])
        first += r - i
    return q

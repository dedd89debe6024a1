"""Second and fourth moments of rows that are read once; the rows are not kept.

How to whiten the rows is known at the end only. To lose no digits, moments are taken in fixed coordinates y, nearly
white, that are derived from the first rows; y is extended by a constant one, so that the products of its quadratic
features (see `moments`) hold the sums of all moments up to the fourth. At the end one linear map of (1, y) centres and
whitens, and the fourth moments follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk

from fedica.arrays import Array
from fedica.blocks import rows_of
from fedica.errors import DataError
from fedica.ica.moments import FourthMoments, UpperTriangle, gather_moments, quadratic_features
from fedica.ica.whitened import Whitened
from fedica.ica.whitening import RANK_TOL, Scatter, Whitening, merge_scatters, not_finite_error, scatter

MAX_FEATURES = 100
"""All fourth moments of this many features are 212 MB, and three times that while solving; they grow as d^4."""
CHUNK_ROWS = 512
"""Rows whose quadratic features are formed at once: enough for a fast product, 21 MB at most."""
SLAB = 256
"""Columns of the moments that are mapped at once."""


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Coordinates y = (x - centre) @ forward.T, nearly white. centre : (d,); forward, and its inverse back : (d, d)."""

    centre: Array
    forward: Array
    back: Array

    @classmethod
    def suggested_by(cls, sums: Scatter) -> _Coordinates:
        """Take principal directions, each scaled by its deviation; those that hardly vary so far get a lower bound."""
        values, vectors = eigh(sums.matrix / sums.n_samples)
        scales = np.sqrt(np.maximum(values, 0.0))
        scales = np.maximum(scales, RANK_TOL * scales[-1])
        scales[scales == 0.0] = 1.0  # nothing has varied so far
        return cls(sums.mean, vectors.T / scales[:, None], vectors * scales)


class MomentStream:
    """Sums over rows that are seen once.

    Parameters
    ----------
    n_features : int
        d; at most `MAX_FEATURES` with fourth moments.
    fourth : bool
        Whether to keep fourth moments too, or `scatter` alone.

    Attributes
    ----------
    scatter : Scatter
        Mean and scatter of the rows so far.
    dtype : numpy.dtype
        The least precise of the rows so far.
    """

    scatter: Scatter
    dtype: np.dtype[Any]

    def __init__(self, n_features: int, *, fourth: bool) -> None:
        if fourth and n_features > MAX_FEATURES:
            size = ((n_features + 1) * (n_features + 2) / 2) ** 2 * 8 / 1e9
            raise DataError(
                f"partial_fit keeps all fourth moments, {size:.1f} GB for {n_features} features; it "
                f"takes at most {MAX_FEATURES}. Use fit, which reads data of any size in bounded memory if it can be "
                "read again, or reduce the features first."
            )
        self.fourth = fourth
        self._coordinates: _Coordinates | None = None
        self._products: Array | None = None
        self._pending: list[Array] = []
        self._n_wait = max(CHUNK_ROWS, 10 * n_features)

    def add(self, rows: NDArray[Any]) -> None:
        """Add rows, (b, d): all of them, or none if one is not finite."""
        sums = scatter(rows_of(rows))
        if not np.isfinite(np.diagonal(sums.matrix)).all():
            raise not_finite_error(rows_of(rows))
        begins = not hasattr(self, "scatter")
        self.scatter = sums if begins else merge_scatters(self.scatter, sums)
        self.dtype = rows.dtype if begins else min(self.dtype, rows.dtype, key=_digits)
        if not self.fourth:
            return
        self._pending.append(rows)
        if sum(len(waiting) for waiting in self._pending) >= self._n_wait:
            self._add_pending()
        else:
            self._pending[-1] = np.array(rows, dtype=np.float64)  # the caller may use that memory again

    def whitened(self, whitening: Whitening) -> FourthMoments:
        """Return the fourth moments of all rows so far, whitened."""
        if self._coordinates is None:
            return gather_moments(Whitened(rows_of(np.concatenate(self._pending)), whitening))
        self._add_pending()
        assert self._products is not None
        at = self._coordinates
        shift = whitening.whitener @ (at.centre - whitening.mean)
        to_white = np.column_stack([shift, whitening.whitener @ at.back])  # z = to_white @ (1, y)
        _mirror(self._products)
        half = _map_columns(self._products, to_white)
        matrix = _map_columns(half.T, to_white)
        _mirror(matrix)
        matrix /= self.scatter.n_samples
        return FourthMoments(matrix, self.scatter.n_samples, whitening.n_components)

    def _add_pending(self) -> None:
        """Add the products of the pending rows; the first time they also fix the coordinates."""
        if not self._pending:
            return
        waiting = self._pending[0] if len(self._pending) == 1 else np.concatenate(self._pending)
        self._pending = []
        if self._coordinates is None:
            self._coordinates = _Coordinates.suggested_by(self.scatter)
        at = self._coordinates
        d = at.centre.size
        m = (d + 1) * (d + 2) // 2
        if self._products is None:
            self._products = np.zeros((m, m), order="F")
        buffer = np.empty((m, CHUNK_ROWS))
        for first in range(0, len(waiting), CHUNK_ROWS):
            x = np.subtract(waiting[first : first + CHUNK_ROWS], at.centre, dtype=np.float64)
            q = quadratic_features(np.column_stack([np.ones(len(x)), x @ at.forward.T]), buffer)
            self._products = dsyrk(1.0, q.T, beta=1.0, c=self._products, trans=1, overwrite_c=1)  # upper triangle


def _mirror(matrix: Array) -> None:
    """Copy the upper triangle to the lower one, in place, a slab at a time. matrix : (m, m)."""
    for first in range(0, len(matrix), SLAB):
        last = min(first + SLAB, len(matrix))
        corner = matrix[first:last, first:last]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
        matrix[last:, first:last] = matrix[first:last, last:].T


def _map_columns(packed: Array, to: Array) -> Array:
    """Replace every column, the upper triangle of a symmetric S (d, d), by that of ``to @ S @ to.T``.

    packed : (d(d+1)/2, k), to : (r, d) -> (r(r+1)/2, k).
    """
    r, d = to.shape
    place, kept = UpperTriangle.of_size(d).place, np.triu_indices(r)
    out = np.empty((kept[0].size, packed.shape[1]))
    for first in range(0, packed.shape[1], SLAB):
        symmetric = np.ascontiguousarray(packed[:, first : first + SLAB].T)[:, place]  # (slab, d, d)
        mapped = to @ symmetric @ to.T
        out[:, first : first + SLAB] = mapped[:, kept[0], kept[1]].T
    return out


def _digits(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).precision) if dtype.kind == "f" else np.inf

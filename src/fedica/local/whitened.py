"""Whitened data as a view over blocks: the one place where solvers touch samples.

Nothing is stored that need not be: Z is formed block by block from the data, or held when a solver means to read it
many times and it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, IntArray
from fedica.local.blocks import ArrayBlocks, Blocks
from fedica.threads import in_order
from fedica.local.whitening import Whitening

MAX_HELD_BYTES = 2**29
"""Whitened data up to this size is held in memory by solvers that read it many times."""

Score = Callable[[Array], Array]
"""Replaces y (b, r) by g(y) in place and returns the sum over samples of g'(y), (r,)."""


def logcosh(y: Array) -> Array:
    """Score of log cosh, g = tanh: efficient for most laws, of either sign of kurtosis."""
    np.tanh(y, out=y)
    return np.asarray(y.shape[0] - np.einsum("ij,ij->j", y, y))


def cube(y: Array) -> Array:
    """Score of the fourth power, g = y^3: fourth moments, Eq. (2)."""
    squares = y * y
    y *= squares
    return np.asarray(3.0 * squares.sum(axis=0))


class Whitened:
    """Samples z (r,) of zero mean and identity covariance, read block by block.

    Parameters
    ----------
    blocks : Blocks
        The data; already white when `whitening` is ``None``.
    whitening : Whitening, optional
        How to whiten it.
    """

    def __init__(self, blocks: Blocks, whitening: Whitening | None = None) -> None:
        self._blocks = blocks
        self._mean = None if whitening is None else whitening.mean
        self._whitener = None if whitening is None else whitening.whitener
        self.n_samples = blocks.n_samples
        self.n_components = blocks.n_features if whitening is None else whitening.n_components

    def __iter__(self) -> Iterator[Array]:
        """Yield Z in blocks of shape (b, r)."""
        yield from map(self._whiten, self._blocks)

    def over_blocks(self, function: Callable[[Array], Array], *, work: float) -> Array:
        """Sum function(Z block) over all blocks. work : roughly how many operations that is in total."""
        total: Array | None = None
        for part in in_order(lambda block: function(self._whiten(block)), self._blocks, work=work):
            total = part if total is None else total + part
        assert total is not None
        return total

    def take(self, rows: IntArray) -> Whitened:
        """Return these samples as whitened data in memory. rows : sorted, distinct."""
        return Whitened(ArrayBlocks(self._whiten(self._blocks.take(rows))))

    def subsample(self, n_samples: int, rng: np.random.Generator) -> Whitened:
        """Return n_samples of the samples, drawn without replacement."""
        rows = rng.choice(self.n_samples, size=n_samples, replace=False, shuffle=False)
        return self.take(np.sort(rows))

    def hold(self) -> Whitened:
        """Return the same data, whitened once and kept in memory if it fits: for solvers that read it many times."""
        if self._whitener is None or self.n_samples * self.n_components * 8 > MAX_HELD_BYTES:
            return self
        return Whitened(ArrayBlocks(self.array()))

    def array(self) -> Array:
        """Return Z whole, (n_samples, r): for solvers of other libraries."""
        out = np.empty((self.n_samples, self.n_components))
        start = 0
        for block in self:
            out[start : start + block.shape[0]] = block
            start += block.shape[0]
        return out

    def expect(self, rotation: Array, score: Score) -> tuple[Array, Array]:
        """Average E[z g(R'z)'] (r, m) and E[g'(R'z)] (m,) in one pass. rotation : (r, m).

        Where there are hardly more features than components the product with the whitener is moved out of the pass:
        (X - mean) meets ``whitener.T @ rotation``, and the sum is whitened at the end.
        """
        fused = self._whitener is not None and 2 * self._whitener.shape[1] <= 3 * self.n_components
        lift = self._whitener if fused else None
        projection = rotation if lift is None else lift.T @ rotation

        def sums_of(block: NDArray[Any]) -> tuple[Array, Array]:
            z = self._centre(block) if fused else self._whiten(block)
            y = z @ projection
            slope = score(y)
            return z.T @ y, slope

        total = np.zeros((projection.shape[0], rotation.shape[1]))
        slope = np.zeros(rotation.shape[1])
        for own_total, own_slope in in_order(sums_of, self._blocks, work=4.0 * rotation.size * self.n_samples):
            total += own_total
            slope += own_slope
        if lift is not None:
            total = lift @ total
        return total / self.n_samples, slope / self.n_samples

    def _centre(self, rows: NDArray[Any]) -> Array:
        if self._mean is None:
            return np.asarray(rows, dtype=np.float64)
        return np.asarray(np.subtract(rows, self._mean, dtype=np.float64))

    def _whiten(self, rows: NDArray[Any]) -> Array:
        centred = self._centre(rows)
        return centred if self._whitener is None else np.asarray(centred @ self._whitener.T)

"""Whitened data as a view over blocks: solvers read samples here and nowhere else.

Z is formed block by block from the data, or held in memory for a solver that reads it many times, if it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from fedica.arrays import Array, IntArray
from fedica.blocks import Blocks, Parts, add, rows_of
from fedica.ica.whitening import Whitening

MAX_HELD_BYTES = 2**29
"""Whitened data up to this size is held in memory by solvers that read it many times."""
SINGLE_ROWS, SINGLE_NUMBERS = 1024, 2**16
"""Rows of a block in single precision, at least, and its numbers: so that rounding does not depend on where data lies.
"""
SUM_ROWS = 128
"""Rows of a sum in single precision."""
SINGLE_RANGE, SINGLE_RATIO = 1e15, 1e4
"""Data is rounded before it is whitened, rather than after, if no standard deviation of a direction is above the first
number or below its inverse, and no two differ by more than the second factor: rounding is then at most 1e-3 of each.
"""

Score = Callable[[Array], Array]
"""Replaces y (b, r) by g(y) in place and returns the sum over samples of g'(y), (r,)."""


def logcosh(y: Array) -> Array:
    """Score of log cosh, g = tanh: efficient for most laws, of either sign of kurtosis."""
    if y.dtype == np.float64:
        _tanh(y)
    else:
        np.tanh(y, out=y)
    return np.asarray(y.shape[0] - _column_sums(y * y))


def _tanh(y: Array) -> None:
    """Replace y by tanh(y) = 1 - 2 / (1 + exp(2y)): half the time of `numpy.tanh` in double precision."""
    with np.errstate(over="ignore"):  # exp(2y) is infinite where tanh(y) is one
        np.exp(np.multiply(y, 2.0, out=y), out=y)
    y += 1.0
    np.divide(-2.0, y, out=y)
    y += 1.0


def _products(z: NDArray[Any], y: NDArray[Any]) -> Array:
    """Return z'y in float64; in single precision over a few rows at a time, because long sums lose digits."""
    if z.dtype == np.float64:
        return np.asarray(z.T @ y, dtype=np.float64)
    (z_whole, z_rest), (y_whole, y_rest) = _in_pieces(z), _in_pieces(y)
    return np.asarray((z_whole.transpose(0, 2, 1) @ y_whole).sum(axis=0, dtype=np.float64) + z_rest.T @ y_rest)


def _column_sums(y: NDArray[Any]) -> Array:
    """Return the sum of each column in float64, in single precision over a few rows at a time."""
    ones = np.ones((1, len(y) if y.dtype == np.float64 else SUM_ROWS), dtype=y.dtype)
    if y.dtype == np.float64:
        return np.asarray((ones @ y)[0])
    whole, rest = _in_pieces(y)
    return np.asarray((ones @ whole).sum(axis=(0, 1), dtype=np.float64) + (ones[:, : len(rest)] @ rest)[0])


def _in_pieces(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return views of the rows as pieces of `SUM_ROWS`, (n, SUM_ROWS, r), and of those that are left over."""
    whole = len(rows) - len(rows) % SUM_ROWS
    return rows[:whole].reshape(-1, SUM_ROWS, rows.shape[1]), rows[whole:]


def cube(y: Array) -> Array:
    """Score of the fourth power, g = y^3: fourth moments, Eq. (2)."""
    squares = y * y
    y *= squares
    return np.asarray(3.0 * squares.sum(axis=0))


@dataclass(frozen=True, eq=False)
class _Frame:
    """Centres and whitens rows. It holds no data, so that it can be sent to where the rows are.

    dtype : of the rows once they are centred.
    """

    mean: Array | None
    whitener: Array | None
    dtype: type[np.floating[Any]] = np.float64

    def centre(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the rows centred; unchanged if they are white already."""
        if self.mean is None:
            return rows
        return np.asarray(np.subtract(rows, self.mean, dtype=np.float64).astype(self.dtype, copy=False))

    def whiten(self, rows: NDArray[Any]) -> NDArray[Any]:
        centred = self.centre(rows)
        return centred if self.whitener is None else centred @ self.whitener.T.astype(centred.dtype, copy=False)

    def rotation_of(self, projection: NDArray[Any], lift: Array | None) -> Array:
        """Return the rotation that a rounded projection is of. projection : (d, m), of centred rows, or (r, m)."""
        if lift is None:
            return np.asarray(projection, dtype=np.float64)
        return np.asarray((lift / np.sum(lift**2, axis=1, keepdims=True)) @ projection)

    def in_single(self) -> _Frame:
        """Return the frame that rounds centred rows to single precision, if that is precise enough; else itself."""
        if self.whitener is None:
            return self
        scale = np.linalg.norm(self.whitener, axis=1)  # one over the standard deviation along each direction
        least, most = scale.min(), scale.max()
        fine = least >= 1 / SINGLE_RANGE and most <= min(SINGLE_RANGE, SINGLE_RATIO * least)
        return replace(self, dtype=np.float32) if fine else self


class Whitened:
    """Samples z (r,) of zero mean and identity covariance, read block by block.

    Parameters
    ----------
    blocks : Blocks
        The data; already white, of any floating dtype, when `whitening` is ``None``.
    whitening : Whitening, optional
        How to whiten it.
    """

    def __init__(self, blocks: Blocks, whitening: Whitening | None = None) -> None:
        self._blocks = blocks
        self._frame = _Frame(None, None) if whitening is None else _Frame(whitening.mean, whitening.whitener)
        self._scores: type[np.floating[Any]] | None = None  # the precision of scores, if not that of samples
        self.n_samples = blocks.n_samples
        self.n_components = blocks.n_features if whitening is None else whitening.n_components

    def over_blocks(self, function: Callable[[Array], Array], *, work: float) -> Array:
        """Sum function(Z block) over all blocks. work : roughly how many operations that is in total."""
        frame = self._frame
        (total,) = self._blocks.total(lambda block: (function(frame.whiten(block)),), merge=add, work=work)
        return total

    def subsamples(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Whitened]:
        """Draw samples without replacement in one pass; the largest subsample contains the others. sizes : ascending.

        Neighbours in time are alike and are not drawn together: the data is cut into stretches, one sample of each.
        Warm starts need no more than single precision: half the memory, and less than half the time. The draw depends
        on the number of samples alone, not on where the data lies.
        """
        if not sizes:
            return []
        Z = self._take(one_of_each_stretch(self.n_samples, sizes[-1], rng))
        parts = [Z[one_of_each_stretch(sizes[-1], size, rng)] for size in sizes[:-1]] + [Z]
        return [Whitened._white_again(part) for part in parts]

    def as_subsample(self) -> Whitened:
        """Return all samples in memory, in single precision: for data of a few thousand."""
        out = np.empty((self.n_samples, self.n_components), dtype=np.float32)
        return Whitened(_single_rows(self._whole(out, self._frame.in_single())))

    def rounded(self, *, scores_only: bool = False) -> Whitened:
        """Return the same data, read in single precision if that is precise enough: half the time of a pass.

        scores_only : only y = R'z and g(y) are, not the sums over samples, so that these depend on no cuts: two thirds.
        """
        frame = self._frame.in_single()
        view = Whitened(self._blocks)
        view._frame, view.n_components = self._frame if scores_only else frame, self.n_components
        view._scores = frame.dtype
        return view

    def _take(self, rows: IntArray) -> NDArray[Any]:
        frame = self._frame.in_single()
        return self._blocks.take(rows, lambda taken: frame.whiten(taken).astype(np.float32, copy=False))

    @classmethod
    def _white_again(cls, Z: NDArray[np.float32]) -> Whitened:
        """Make a subsample exactly white by the nearest linear map. Z : (n, r).

        A subsample of white data is white to sqrt(r / n) only, and that error can hide weak components from a solver.
        The map is symmetric and near the identity, so that a rotation found after it is one of Z to second order.
        Applied to the rotation, so samples are not copied.
        """
        view = cls(_single_rows(Z))
        values, vectors = eigh((Z.T @ Z).astype(np.float64) / Z.shape[0])
        if values[0] >= 0.1:  # below, the draw has missed rare events, and scaling up would not bring them back
            view._frame = _Frame(None, ((vectors / np.sqrt(values)) @ vectors.T).astype(np.float32))
        return view

    def rotated(
        self, rotation: Array, function: Callable[[NDArray[Any], NDArray[Any]], None], *, out: NDArray[Any]
    ) -> None:
        """Call function(y, rows of out) for blocks of all samples, y = R'z: for subsamples. rotation : (r, r)."""
        whitener = self._frame.whitener
        to = (rotation if whitener is None else whitener.T @ rotation).astype(self._blocks.dtype, copy=False)
        centre, start = self._frame.centre, 0
        for block in self._blocks:
            end = start + len(block)
            function(centre(block) @ to, out[start:end])
            start = end

    def hold(self) -> Whitened:
        """Return the same data, whitened and kept in memory if it fits: for solvers that read it many times."""
        if self._frame.mean is None or self.n_samples * self.n_components * 8 > MAX_HELD_BYTES:
            return self
        return Whitened(rows_of(self.array()))

    def array(self) -> Array:
        """Return Z whole, (n_samples, r): for solvers of other libraries."""
        return self._whole(np.empty((self.n_samples, self.n_components)), self._frame)

    def _whole(self, out: NDArray[Any], frame: _Frame) -> NDArray[Any]:
        """Fill an array with all samples, in one pass."""
        start = 0
        for block in self._blocks:
            out[start : start + block.shape[0]] = frame.whiten(block)
            start += block.shape[0]
        return out

    def expect(self, rotation: Array, score: Score) -> tuple[Array, Array]:
        """Average E[z g(R'z)'] (r, m) and E[g'(R'z)] (m,) in one pass. rotation : (r, m).

        Where there are hardly more features than components the product with the whitener is moved out of the pass:
        (X - mean) is multiplied by ``whitener.T @ rotation``, and the sum is whitened at the end.
        """
        frame, whitener, scores = self._frame, self._frame.whitener, self._scores
        lift = whitener if whitener is not None and 2 * whitener.shape[1] <= 3 * self.n_components else None
        projection = rotation if lift is None else lift.T @ rotation
        z_of = frame.whiten if lift is None else frame.centre

        def sums_of(block: NDArray[Any]) -> Parts:
            z = z_of(block)
            low = scores or z.dtype
            y = z.astype(low, copy=False) @ projection.astype(low, copy=False)
            slope = score(y)
            return _products(z, y.astype(z.dtype, copy=False)), np.asarray(slope, dtype=np.float64)

        total, slope = self._blocks.total(sums_of, merge=add, work=4.0 * rotation.size * self.n_samples)
        if lift is not None:
            total = lift @ total
        if scores is not None:
            total += (rotation - frame.rotation_of(projection.astype(scores), lift)) * slope
        return total / self.n_samples, slope / self.n_samples


def _single_rows(Z: NDArray[np.float32]) -> Blocks:
    """Return rows in single precision, (n, r), in blocks that depend on r alone."""
    return rows_of(Z, max(SINGLE_ROWS, SINGLE_NUMBERS // Z.shape[1]))


def one_of_each_stretch(n: int, size: int, rng: np.random.Generator) -> IntArray:
    """Cut n samples into as many stretches of nearly equal length; draw one of each. Returns (size,), ascending."""
    first = np.arange(size + 1, dtype=np.int64) * n // size
    return np.asarray(first[:-1] + (rng.random(size) * np.diff(first)).astype(np.int64))

"""Centring and whitening: one pass over the samples for the mean and the scatter, then a small eigenproblem.

Rank: a direction counts when its standard deviation exceeds `RANK_TOL` times the largest one. Dependent
channels (average-referenced EEG, ECG leads, fewer samples than features) lower the rank; the fit then works on the
leading directions, and asking for more components than the rank is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, svd

from fedica.arrays import Array, IntArray, fix_signs
from fedica.blocks import Blocks
from fedica.errors import DataError, DataWarning
from fedica.records import Reason

RANK_TOL = 1e-6
"""A direction whose standard deviation is below this times the largest is rounding (1e-12 in the scatter)."""
RANK_TOL_SINGLE = 1e-5
"""The same for data in single precision."""
CONSTANT_TOL = 1e-12
"""A column is constant when its standard deviation is below this times the size of its mean."""


@dataclass(frozen=True, eq=False)
class Scatter:
    """Sums of one pass over the data."""

    n_samples: int
    mean: Array  # (d,)
    matrix: Array  # (d, d), sum of outer products of the centred samples


@dataclass(frozen=True, eq=False)
class Whitening:
    """The leading directions of the centred data: ``Z = (X - mean) @ whitener.T`` has identity covariance.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        Mean of each feature.
    basis : ndarray of shape (d, r)
        The r leading principal directions, orthonormal columns; zero at constant features.
    deviations : ndarray of shape (r,)
        Standard deviation along each direction (divided by n, not n - 1), largest first.
    rank : int
        Numerical rank of the centred data, at least r.
    n_samples : int
        How many samples it was computed from.
    constant : ndarray
        Indices of the constant features.
    noise_floor : float
        Median variance along all directions of the data that count for its rank, kept or not.
    """

    mean: Array
    basis: Array
    deviations: Array
    rank: int
    n_samples: int
    constant: IntArray
    noise_floor: float

    @property
    def n_components(self) -> int:
        """r: how many directions were kept."""
        return int(self.basis.shape[1])

    @property
    def singular_values(self) -> Array:
        """The r leading singular values of the centred data."""
        return np.asarray(self.deviations * np.sqrt(self.n_samples))

    @property
    def whitener(self) -> Array:
        """(r, d): from centred features to whitened coordinates."""
        return np.asarray(self.basis.T / self.deviations[:, None])

    @property
    def unwhitener(self) -> Array:
        """(d, r): from whitened coordinates back to centred features."""
        return np.asarray(self.basis * self.deviations)


def choose_rank_tol(dtype: np.dtype[Any]) -> float:
    """Return the tolerance on the rank of data that is stored as this."""
    return RANK_TOL_SINGLE if dtype.kind == "f" and dtype.itemsize < 8 else RANK_TOL


def scatter(blocks: Blocks) -> Scatter:
    """Sum the mean (d,) and the scatter matrix (d, d) in one pass over blocks of samples.

    Every block is centred by its own mean before it is squared and then merged (Chan, Golub, LeVeque 1983), so that a
    large offset or a slow drift costs no digits.
    """
    work = 2.0 * blocks.n_features**2 * blocks.n_samples
    return blocks.total(scatter_of, merge=merge_scatters, work=work)


def scatter_of(block: NDArray[Any]) -> Scatter:
    """Return the sums of one block, centred by its own mean."""
    with np.errstate(over="ignore", invalid="ignore"):  # the caller reports what is not finite
        mean = _column_mean(block)
        centred = np.subtract(block, mean, dtype=np.float64)
        return Scatter(block.shape[0], mean, centred.T @ centred)


def merge_scatters(total: Scatter, part: Scatter) -> Scatter:
    """Return the sums of both, around their common mean; the matrix of the first is changed in place."""
    n = total.n_samples + part.n_samples
    with np.errstate(over="ignore", invalid="ignore"):
        shift = part.mean - total.mean
        matrix = total.matrix
        matrix += part.matrix
        matrix += np.outer(shift, shift * (total.n_samples * part.n_samples / n))
        return Scatter(n, total.mean + shift * (part.n_samples / n), matrix)


def whiten(
    blocks: Blocks, n_components: int | None = None, *, names: tuple[str, ...] | None = None, rank_tol: float = RANK_TOL
) -> tuple[Whitening, DataWarning | None]:
    """Find the n_components leading directions of the centred data.

    Parameters
    ----------
    blocks : Blocks of shape (n_samples, d)
        The data. Read once; with fewer samples than features it is loaded whole.
    n_components : int, optional
        How many directions; ``None``: the numerical rank.
    names : tuple of str, optional
        Names of the features, for messages.
    rank_tol : float
        A direction counts when its standard deviation exceeds this times the largest one.

    Returns
    -------
    whitening : Whitening
        The directions.
    warning : DataWarning or None
        Names the constant features, if there are any.

    Raises
    ------
    DataError
        If a value is not finite, only constant features are left, or the rank is below n_components.
    """
    if blocks.n_samples < blocks.n_features:
        directions = _directions_by_svd(blocks)
    else:
        sums = scatter(blocks)
        _check_finite(sums.mean, np.diagonal(sums.matrix), blocks)
        directions = _directions_by_scatter(sums)
    return _leading(directions, blocks.n_samples, n_components, names=names, rank_tol=rank_tol)


def whiten_sums(
    sums: Scatter, n_components: int | None, *, names: tuple[str, ...] | None, rank_tol: float
) -> tuple[Whitening, DataWarning | None]:
    """Find the leading directions of data from its scatter alone; otherwise as `whiten`."""
    return _leading(_directions_by_scatter(sums), sums.n_samples, n_components, names=names, rank_tol=rank_tol)


@dataclass(frozen=True, eq=False)
class _Directions:
    """All principal directions, (d, m), with the standard deviation along each, largest first."""

    mean: Array
    constant: IntArray
    basis: Array
    deviations: Array


def _leading(
    found: _Directions, n: int, n_components: int | None, *, names: tuple[str, ...] | None, rank_tol: float
) -> tuple[Whitening, DataWarning | None]:
    """Keep the leading directions; refuse more than the rank, and warn of constant features."""
    d, constant = found.mean.size, found.constant
    rank = int(np.count_nonzero(found.deviations > rank_tol * found.deviations[0]))
    kept = rank if n_components is None else n_components
    if kept > rank:
        raise DataError(_rank_sentence(kept, rank, n, d, constant.size))
    basis, _ = fix_signs(found.basis[:, :kept])
    warning = None
    if constant.size:
        columns = tuple(constant.tolist())
        named = {} if names is None else {"names": tuple(names[j] for j in columns)}
        warning = Reason("constant-features", {"columns": columns, "n_features": d, **named}).error(DataWarning)
    floor = float(np.median(found.deviations[:rank] ** 2))
    return Whitening(found.mean, basis, found.deviations[:kept], rank, n, constant, floor), warning


def _directions_by_scatter(sums: Scatter) -> _Directions:
    """Decompose the (d, d) scatter: for at least as many samples as features."""
    constant, kept = _constant_features(sums.n_samples, sums.mean, np.diagonal(sums.matrix) / sums.n_samples)
    matrix = sums.matrix if not constant.size else sums.matrix[np.ix_(kept, kept)]
    values, vectors = eigh(matrix, check_finite=False)
    deviations = np.sqrt(np.maximum(values[::-1], 0.0) / sums.n_samples)
    return _Directions(sums.mean, constant, _with_zero_rows(vectors[:, ::-1], kept, sums.mean.size), deviations)


def _directions_by_svd(blocks: Blocks) -> _Directions:
    """Decompose the data itself: with fewer samples than features it is smaller than a (d, d) scatter."""
    n = blocks.n_samples
    data = np.concatenate([np.asarray(block, dtype=np.float64) for block in blocks])
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _column_mean(data)
        data -= mean
        variances = np.einsum("ij,ij->j", data, data) / n
    _check_finite(mean, variances, blocks)
    constant, kept = _constant_features(n, mean, variances)
    _, values, right = svd(data[:, kept], full_matrices=False, check_finite=False)
    return _Directions(mean, constant, _with_zero_rows(right.T, kept, blocks.n_features), values / np.sqrt(n))


def _column_mean(block: NDArray[Any]) -> Array:
    """Mean of each column as one product, which is several times faster than a reduction along the long axis."""
    rows = np.asarray(block, dtype=np.float64)
    return np.asarray(np.full(rows.shape[0], 1.0 / rows.shape[0]) @ rows)


def _check_finite(mean: Array, variances: Array, blocks: Blocks) -> None:
    """Refuse data that is not finite, as the sums over it show."""
    if not (np.isfinite(mean).all() and np.isfinite(variances).all()):
        raise not_finite_error(blocks)


def _constant_features(n: int, mean: Array, variances: Array) -> tuple[IntArray, IntArray]:
    """Return the constant features and the others; refuse data that has no others."""
    is_constant = np.sqrt(variances) <= CONSTANT_TOL * np.abs(mean)
    constant, kept = np.flatnonzero(is_constant), np.flatnonzero(~is_constant)
    if not kept.size:
        raise DataError(
            f"data must vary; all {mean.size} features are constant over {n} samples. "
            "Check that the right columns were read."
        )
    return constant, kept


def _with_zero_rows(vectors: Array, kept: IntArray, d: int) -> Array:
    """Put the rows of the kept features back in their place, (d, m), zero elsewhere."""
    if kept.size == d:
        return vectors
    full = np.zeros((d, vectors.shape[1]))
    full[kept] = vectors
    return full


def _rank_sentence(wanted: int, rank: int, n: int, d: int, n_constant: int) -> str:
    """Say why there are not enough directions, and what to do."""
    if wanted > min(n, d):
        what = "samples" if n < d else "features"
        return (
            f"n_components={wanted} needs at least as many {what}; got data of {n} samples x {d} features "
            f"(rank {rank}). Ask for at most {rank} components" + (", or bring more samples." if n < d else ".")
        )
    return (
        f"n_components={wanted} is above the rank of the data: {rank} independent directions were found in {n} samples "
        f"x {d} features"
        + (f", {n_constant} of them constant" if n_constant else "")
        + f". Ask for at most {rank} components, or None for as many as there are."
    )


def not_finite_error(blocks: Blocks) -> DataError:
    """Count the values that are not finite and locate the first one, in a second pass over the data."""
    n_nan = n_infinite = start = 0
    first: tuple[int, int] | None = None
    for block in blocks:
        finite = np.isfinite(block)
        if not finite.all():
            if first is None:
                row, column = np.argwhere(~finite)[0]
                first = (start + int(row), int(column))
            nan = int(np.isnan(block).sum())
            n_nan, n_infinite = n_nan + nan, n_infinite + int((~finite).sum()) - nan
        start += block.shape[0]
    if first is None:
        return DataError("data is too large to square in double precision (above about 1e150). Change its unit.")
    found = {"n_nan": n_nan, "n_infinite": n_infinite, "row": first[0], "columns": (first[1],)}
    return Reason("not-finite", found).error(DataError)

"""Centring, whitening, and the stand on rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.blocks import rows_of
from fedica.errors import DataError
from fedica.ica import Whitened, whiten
from fedica.ica.whitening import scatter


def _data(n=400, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 5


@given(st.integers(1, 70), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_scatter_does_not_depend_on_the_blocks(block_rows, seed):
    """Mean and scatter are sums: any block size gives those of the whole."""
    X = _data(n=60, seed=seed)
    sums = scatter(rows_of(X, block_rows))
    centred = X - X.mean(axis=0)
    assert sums.n_samples == 60
    np.testing.assert_allclose(sums.mean, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sums.matrix, centred.T @ centred, rtol=1e-10, atol=1e-10)


def test_scatter_survives_a_large_offset_and_drift():
    """An offset of 1e8 and a drift cost no more digits than the data itself has lost by them."""
    X = _data(n=5000)
    offset = 1e8 * np.arange(1, 7) + np.linspace(0, 1e3, 5000)[:, None]
    shifted = X + offset
    exact = np.cov((shifted - shifted[0]).T, bias=True)
    np.testing.assert_allclose(scatter(rows_of(shifted, 128)).matrix / 5000, exact, rtol=1e-8)


@pytest.mark.parametrize("shape", [(400, 6), (5, 30), (30, 30)])
def test_whitened_data_is_white(shape):
    """Whitened data has mean zero and identity covariance, with more or with fewer samples than features."""
    X = np.random.default_rng(1).standard_normal(shape) * np.arange(1, shape[1] + 1) + 3
    whitening, _ = whiten(rows_of(X))
    Z = Whitened(rows_of(X), whitening).array()
    r = min(shape[0] - 1, shape[1])
    assert whitening.rank == whitening.n_components == r
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(Z.T @ Z / shape[0], np.eye(r), atol=1e-8)


def test_whitening_gives_the_singular_values_and_undoes_itself():
    """Singular values are those of the centred data; unwhitener and whitener are pseudo-inverses of each other."""
    X = _data()
    whitening, _ = whiten(rows_of(X), 4)
    np.testing.assert_allclose(whitening.singular_values, np.linalg.svd(X - X.mean(0))[1][:4], rtol=1e-9)
    np.testing.assert_allclose(whitening.whitener, np.linalg.pinv(whitening.unwhitener), atol=1e-10)


def test_both_sides_agree():
    """The SVD of wide data and the scatter matrix give the same directions."""
    X = _data(n=20, d=20)
    wide, _ = whiten(rows_of(np.vstack([X, X])[:20]), 5)
    stacked, _ = whiten(rows_of(np.vstack([X, X])), 5)
    np.testing.assert_allclose(wide.deviations, stacked.deviations, rtol=1e-9)
    by_svd, _ = whiten(rows_of(X[:19]), 5)
    by_scatter, _ = whiten(rows_of(np.vstack([X[:19], X[:19]])), 5)
    np.testing.assert_allclose(by_svd.basis, by_scatter.basis, atol=1e-8)


def test_average_reference_lowers_the_rank_by_one():
    """Average-referenced channels are dependent: the rank is one less, and asking for all is refused with it."""
    X = _data(d=6)
    X -= X.mean(axis=1, keepdims=True)
    whitening, _ = whiten(rows_of(X))
    assert whitening.rank == 5
    with pytest.raises(DataError, match=r"n_components=6 is above the rank.*5 independent.*at most 5"):
        whiten(rows_of(X), 6)


def test_single_precision_copies_are_dependent():
    """A channel that is a multiple of another, to single precision, does not raise the rank of float32 data."""
    X = _data(n=2000, d=5).astype(np.float32)
    X = np.column_stack([X, X[:, 0] * np.float32(0.7)])
    assert whiten(rows_of(X), rank_tol=1e-5)[0].rank == 5


def test_scaling_the_data_leaves_the_rank():
    """The rank is relative to the largest direction: volts or microvolts make no difference."""
    X = _data(d=6)
    X[:, 5] = X[:, 0] - X[:, 1]
    assert [whiten(rows_of(X * unit))[0].rank for unit in (1e-9, 1.0, 1e9)] == [5, 5, 5]


@pytest.mark.parametrize("n", [50, 3])
def test_constant_columns_are_named_and_get_zero(n):
    """Constant columns are named once, by name where known, and have no part in any direction."""
    X = np.random.default_rng(0).standard_normal((n, 5))
    X[:, 1], X[:, 3] = 0.1, -1e6
    whitening, warning = whiten(rows_of(X), names=("a", "b", "c", "d", "e"))
    assert warning is not None
    assert "2 of 5" in str(warning)
    assert "'b', 'd'" in str(warning)
    assert "column 1, column 3" in str(whiten(rows_of(X))[1])
    assert whitening.constant.tolist() == [1, 3]
    assert (whitening.basis[[1, 3]] == 0).all()
    assert whitening.rank == min(n - 1, 3)


def test_no_constant_column_no_warning():
    """Data that varies is not warned about, however large its offset."""
    assert whiten(rows_of(_data() + 1e9))[1] is None


@pytest.mark.parametrize("n", [20, 3])
def test_only_constant_columns_are_refused(n):
    """Data that does not vary cannot be whitened."""
    with pytest.raises(DataError, match=r"all 4 features are constant over"):
        whiten(rows_of(np.tile([1.0, 0.1, -3.0, 0.0], (n, 1))))


@pytest.mark.parametrize("n", [2000, 3])
def test_what_is_not_finite_is_counted_and_placed(n):
    """NaN and infinity are counted, and the first one's place is told."""
    X = np.random.default_rng(0).standard_normal((n, 4))
    X[1, 2], X[2, 0], X[2, 1] = np.nan, np.inf, -np.inf
    with pytest.raises(DataError, match=r"got 1 NaN and 2 infinite values, the first at row 1, column 2"):
        whiten(rows_of(X, 2))


def test_what_overflows_is_not_called_nan():
    """Finite data whose squares overflow is refused for what it is."""
    with pytest.raises(DataError, match=r"too large to square"):
        whiten(rows_of(np.random.default_rng(0).standard_normal((50, 3)) * 1e200))


def test_fewer_samples_than_components_is_refused():
    """Four samples cannot carry five components; the sentence says what is missing."""
    with pytest.raises(DataError, match=r"n_components=5 needs at least as many samples.*at most 3 .*more samples"):
        whiten(rows_of(np.random.default_rng(0).standard_normal((4, 8))), 5)

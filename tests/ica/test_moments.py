"""Fourth moments: one pass, any blocks, every contraction."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from fedica.blocks import rows_of
from fedica.ica import Whitened, whiten
from fedica.ica.moments import gather_moments
from fedica.ica.one_unit import excess_kurtosis, follow, gradient_over
from fedica.ica.whitened import cube, logcosh
from fedica.threads import threads_for_blocks


@pytest.fixture
def Z():
    return np.random.default_rng(0).laplace(size=(700, 5))


def test_moments_hold_every_fourth_moment(Z):
    """The matrix holds E[z_i z_j z_k z_l], as a plain einsum computes it."""
    moments = gather_moments(Whitened(rows_of(Z)))
    tensor = np.einsum("ni,nj,nk,nl->ijkl", Z, Z, Z, Z) / 700
    rows, columns = np.triu_indices(5)
    np.testing.assert_allclose(moments.matrix, tensor[rows, columns][:, rows, columns], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block_rows", [1, 64, 333, 10_000])
def test_moments_do_not_depend_on_the_blocks(Z, block_rows):
    """Any block size gives the same moments."""
    np.testing.assert_allclose(
        gather_moments(Whitened(rows_of(Z, block_rows))).matrix, gather_moments(Whitened(rows_of(Z))).matrix, rtol=1e-12
    )


def test_gradient_through_moments_equals_the_pass_over_data(Z):
    """E[z (w'z)^3] is the same from the moments, from blocks, and by definition."""
    data, directions = Whitened(rows_of(Z)), np.random.default_rng(1).standard_normal((5, 8))
    expected = Z.T @ (Z @ directions) ** 3 / 700
    np.testing.assert_allclose(gather_moments(data).gradient(directions), expected, rtol=1e-11)
    np.testing.assert_allclose(gradient_over(data)(directions), expected, rtol=1e-11)


def test_contraction_is_the_definition(Z):
    """m4(G) = E[(z'Gz) zz'] for every symmetric G."""
    raw = np.random.default_rng(1).standard_normal((3, 5, 5))
    symmetric = raw + np.swapaxes(raw, 1, 2)
    weights = np.einsum("ni,gij,nj->gn", Z, symmetric, Z)
    expected = np.einsum("gn,ni,nj->gij", weights, Z, Z) / 700
    np.testing.assert_allclose(
        gather_moments(Whitened(rows_of(Z))).contract(symmetric), expected, rtol=1e-10, atol=1e-9
    )


@pytest.mark.parametrize("d", [5, 12])
def test_expectations_equal_their_definition_with_and_without_whitening_in_the_pass(d):
    """E[z g(R'z)'] and E[g'(R'z)], by the fused pass (few features) and by the plain one (many)."""
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(900, d)) @ rng.standard_normal((d, d)) + 10
    whitening, _ = whiten(rows_of(X), 5)
    Z = (X - X.mean(axis=0)) @ whitening.whitener.T
    R = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    data = Whitened(rows_of(X, 100), whitening)
    for held in (data, data.hold()):
        correlation, slope = held.expect(R, logcosh)
        np.testing.assert_allclose(correlation, Z.T @ np.tanh(Z @ R) / 900, atol=1e-11)
        np.testing.assert_allclose(slope, np.mean(1 - np.tanh(Z @ R) ** 2, axis=0), atol=1e-11)
        correlation, slope = held.expect(R, cube)
        np.testing.assert_allclose(correlation, Z.T @ (Z @ R) ** 3 / 900, atol=1e-10)
        np.testing.assert_allclose(slope, 3.0, atol=1e-10)  # white data: E[3 y^2] = 3


def test_threads_do_not_change_a_sum():
    """Sums are taken in the order of the blocks: bit by bit the same with one thread and with several."""
    data, results = Whitened(rows_of(np.random.default_rng(0).standard_normal((100_000, 8)))), []
    for allowed in (1, 2):
        with threadpool_limits(allowed, user_api="blas"), threads_for_blocks() as n_threads:
            assert n_threads == allowed
            results.append(data.expect(np.eye(8), logcosh)[0])
    assert (results[0] == results[1]).all()


def test_followed_directions_end_where_kurtosis_is_stationary():
    """At the end the gradient of the kurtosis points along the direction, for either sign of it."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.laplace(size=(4000, 2)), rng.uniform(-1, 1, size=(4000, 2))])
    whitening, _ = whiten(rows_of(X))
    gradient = gather_moments(Whitened(rows_of(X), whitening)).gradient
    ends = follow(gradient, np.linalg.qr(rng.standard_normal((4, 4)))[0], tol=1e-10, max_iter=200)
    slope = gradient(ends.directions)
    tangent = slope - ends.directions * np.sum(slope * ends.directions, axis=0)
    np.testing.assert_allclose(tangent, 0, atol=1e-8)
    np.testing.assert_allclose(ends.excess, excess_kurtosis(gradient, ends.directions))
    assert (ends.steps <= 1e-10).all()

"""Applying the global matrix, and saying whether it helped."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.arrays import unit
from fedica.errors import DataError
from fedica.local import LocalICA, cross_cumulants, recover


def test_the_true_matrix_recovers_the_sources(make_mixture):
    """With the true mixing matrix the sources come back exactly, but for their mean."""
    X, mixing, sources = make_mixture("laplace", 400, 7, 4)
    found = recover(X, mixing)
    np.testing.assert_allclose(found.sources, sources - sources.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(found.sources @ found.mixing.T + found.mean, X, atol=1e-10)
    np.testing.assert_allclose(found.components @ found.mixing, np.eye(4), atol=1e-10)
    assert found.labels.tolist() == [0, 1, 2, 3]


def test_a_client_with_fewer_components_uses_only_those(make_mixture):
    """Its atoms, in any order and sign, choose the global columns that it has."""
    _, mixing, sources = make_mixture("laplace", 400, 7, 5)
    has = [1, 3, 4]
    own = unit(mixing[:, has])[:, [2, 0, 1]] * [-1, 1, -1]
    found = recover(sources[:, has] @ mixing[:, has].T, mixing, atoms=own)
    assert found.labels.tolist() == has
    np.testing.assert_allclose(found.sources, sources[:, has] - sources[:, has].mean(axis=0), atol=1e-10)


def test_a_given_mean_is_subtracted(make_mixture):
    """New data is centred by the mean of the data that was fitted, if that is given."""
    X, mixing, _ = make_mixture("laplace", 400, 4)
    mean = X.mean(axis=0)
    np.testing.assert_allclose(recover(X[:50], mixing, mean=mean).sources, recover(X, mixing).sources[:50], atol=1e-10)


def test_a_degenerate_component_is_left_out(make_mixture):
    """A zero column of the global matrix recovers nothing; the others are not disturbed by it."""
    X, mixing, sources = make_mixture("laplace", 400, 6, 3)
    padded = np.insert(mixing, 1, 0.0, axis=1)
    found = recover(X, padded)
    assert found.labels.tolist() == [0, 2, 3]
    np.testing.assert_allclose(found.sources, sources - sources.mean(axis=0), atol=1e-10)


def test_bad_input_is_refused(make_mixture):
    """Other features, a zero matrix, atoms of other features, a mean of the wrong length: a sentence each."""
    X, mixing, _ = make_mixture("laplace", 100, 4)
    with pytest.raises(DataError, match=r"3 features; the global mixing matrix has 4"):
        recover(X[:, :3], mixing)
    with pytest.raises(DataError, match="zero in every column"):
        recover(X, np.zeros((4, 2)))
    with pytest.raises(DataError, match="own atoms have 3 features"):
        recover(X, mixing, atoms=np.eye(3))
    with pytest.raises(DataError, match="4 finite numbers"):
        recover(X, mixing, mean=np.zeros(3))


def test_cross_cumulants_are_those_of_the_definition():
    """Against the full fourth-cumulant tensor, entry by entry."""
    S = np.random.default_rng(0).laplace(size=(200, 3)) @ np.array([[1, 0.2, 0], [0, 1, 0.3], [0, 0, 1]])
    s = (S - S.mean(axis=0)) / S.std(axis=0)
    c = s.T @ s / 200
    tensor = np.einsum("ni,nj,nk,nl->ijkl", s, s, s, s) / 200
    tensor -= np.einsum("ij,kl->ijkl", c, c) + np.einsum("ik,jl->ijkl", c, c) + np.einsum("il,jk->ijkl", c, c)
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    expected = np.mean([tensor[i, i, j, j] ** 2 for i, j in pairs] + [tensor[i, i, i, j] ** 2 for i, j in pairs])
    assert cross_cumulants(S) == pytest.approx(expected)
    assert cross_cumulants(5 * S - 3) == pytest.approx(expected)


def test_independent_sources_have_smaller_cross_cumulants_than_mixtures(make_mixture):
    """True sources beat the matrix of a poor fit, which beats the raw mixtures, on samples that no fit saw."""
    X, mixing, sources = make_mixture("bernoulli-gaussian", 5000, 5)
    poor = LocalICA(random_state=0).fit(X[:150])
    seen = [cross_cumulants(S) for S in (sources[150:], poor.transform(X[150:]), X[150:])]
    assert seen[0] < seen[1] < seen[2]
    assert cross_cumulants(recover(X[150:], mixing).sources) == pytest.approx(seen[0])


def test_cross_cumulants_refuse_what_has_none():
    """One source alone, or a constant one."""
    with pytest.raises(DataError, match="at least two sources"):
        cross_cumulants(np.random.default_rng(0).standard_normal((50, 1)))
    with pytest.raises(DataError, match="source 1 is constant"):
        cross_cumulants(np.column_stack([np.arange(9.0), np.full(9, 0.1)]))

"""Strengths: what a client may send besides its atoms, so that its covariance can be pooled."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from fedica.exchange import contribution_from_bytes, contribution_to_bytes
from fedica.ica import SOLVERS
from fedica.local import LocalICA
from fedica.records import Contribution

M = 4
"""How many components are fitted; the data has more directions."""


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    rng = np.random.default_rng(0)
    strengths = np.geomspace(3.0, 0.2, 9)
    return rng.laplace(size=(400, 9)) * strengths @ rng.standard_normal((9, 12)) + rng.standard_normal(12)


def covariance_at_rank(X: np.ndarray, rank: int) -> np.ndarray:
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    return vectors[:, -rank:] * values[-rank:] @ vectors[:, -rank:].T


def fit(X: np.ndarray, **settings: object) -> LocalICA:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 12 features need not converge in spatial ICA
        return LocalICA(**{"n_components": M, "random_state": 0, **settings}).fit(X)  # type: ignore[arg-type]


def pooled(sent: Contribution) -> np.ndarray:
    return np.asarray(sent.atoms @ sent.gram @ sent.atoms.T)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("independence", "mixing"), [("samples", "general"), ("samples", "orthogonal"), ("features", "general")]
)
def test_the_covariance_at_rank_m_is_recovered_whatever_the_rotation(data, solver, independence, mixing):
    """Atoms, Gram matrix, atoms again: the m leading terms of the covariance, to 1e-10 of its size."""
    sent = fit(data, solver=solver, independence=independence, mixing=mixing).contribution("a", strengths=True)
    expected = covariance_at_rank(data, M)
    assert np.linalg.norm(pooled(sent) - expected) <= 1e-10 * np.linalg.norm(expected)


@pytest.mark.parametrize("independence", ["samples", "features"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_holds_to_1e_6_where_maps_travel_in_single_precision(data, solver, independence):
    """With half of the bytes of the maps."""
    sent = fit(data, solver=solver, independence=independence).contribution("a", strengths=True)
    expected = covariance_at_rank(data, M)
    written = contribution_to_bytes(sent, float32=True)
    assert len(contribution_to_bytes(sent)) - len(written) == 4 * sent.atoms.size
    read = contribution_from_bytes(written)
    assert np.linalg.norm(pooled(read) - expected) <= 1e-6 * np.linalg.norm(expected)


def test_a_file_in_double_precision_loses_nothing(data):
    """To the last bit."""
    sent = fit(data, independence="features").contribution("a", strengths=True)
    read = contribution_from_bytes(contribution_to_bytes(sent))
    assert np.array_equal(pooled(read), pooled(sent))


def test_the_noise_floor_is_the_median_variance_along_all_directions_that_vary(data):
    """Nine directions vary; the three others, of variance zero, and how many are fitted, do not matter."""
    variances = np.sort(np.linalg.eigvalsh(np.cov(data.T, bias=True)))[::-1][:9]
    for m in (2, M, 9):
        sent = fit(data, n_components=m).contribution("a", strengths=True)
        assert sent.noise_floor == pytest.approx(np.median(variances), rel=1e-9)


def test_a_stream_has_the_same_strengths(data):
    """One pass gathers the covariance too."""
    local = LocalICA(M, random_state=0)
    for block in np.array_split(data, 3):
        local.partial_fit(block)
    sent = local.contribution("a", strengths=True)
    expected = covariance_at_rank(data, M)
    assert np.linalg.norm(pooled(sent) - expected) <= 1e-10 * np.linalg.norm(expected)


def test_nothing_of_it_leaves_unless_it_is_asked_for(data):
    """By default a contribution has directions alone."""
    sent = fit(data).contribution("a")
    assert (sent.gram, sent.noise_floor) == (None, None)

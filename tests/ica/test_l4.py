"""Eq. (2): the optimum, its agreement with scikit-learn, and its blindness to sub-Gaussian sources."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.decomposition import FastICA

from fedica.blocks import rows_of
from fedica.ica import Whitened, whiten
from fedica.ica.l4 import ascend, l4
from fedica.ica.moments import gather_moments
from fedica.ica.newton import newton_ascent
from fedica.ica.one_unit import gradient_over
from fedica.ica.rotation import random_rotation
from fedica.local import LocalICA


@pytest.mark.parametrize(("r", "n"), [(3, 3000), (10, 5000), (40, 12_000)])
@pytest.mark.parametrize("law", ["bernoulli-gaussian", "laplace"])
def test_l4_is_fastica_cube(r, n, law, make_mixture, distance):
    """l4 and scikit-learn's FastICA (cube), both converged, find the same matrix to 1e-6."""
    X, _, _ = make_mixture(law, n, r)
    ours = LocalICA(solver="l4", random_state=0).fit(X)
    theirs = FastICA(fun="cube", tol=1e-12, max_iter=1000, whiten="unit-variance", whiten_solver="eigh", random_state=1)
    assert distance(ours.atoms_, theirs.fit(X).mixing_) < 1e-6
    np.testing.assert_allclose(  # not only the directions: sources of variance one on both sides
        np.sort(np.linalg.norm(ours.mixing_, axis=0)), np.sort(np.linalg.norm(theirs.mixing_, axis=0)), rtol=1e-6
    )


@pytest.mark.parametrize("r", [4, 24])
def test_l4_ends_at_a_maximum(r, make_mixture):
    """The objective is stationary (R'G symmetric), and no rotation nearby is higher."""
    X, _, _ = make_mixture("laplace", 4000, r)
    whitening, _ = whiten(rows_of(X))
    data = Whitened(rows_of(X), whitening).hold()
    rng = np.random.default_rng(0)
    R = l4(data, n_init=1, tol=1e-10, max_iter=1000, rng=rng).matrix
    np.testing.assert_allclose(R.T @ R, np.eye(r), atol=1e-12)
    product = R.T @ gradient_over(data)(R)
    np.testing.assert_allclose(product, product.T, atol=1e-7)
    height = np.trace(product)
    for _ in range(20):
        turn, _ = np.linalg.qr(np.eye(r) + 0.05 * rng.standard_normal((r, r)))
        nearby = R @ turn
        assert np.sum(nearby * gradient_over(data)(nearby)) < height


def test_moments_and_data_give_the_same_rotation(make_mixture):
    """From the same start, climbing on fourth moments and climbing over the data end at the same matrix."""
    X, _, _ = make_mixture("bernoulli-gaussian", 3000, 8)
    whitening, _ = whiten(rows_of(X))
    data = Whitened(rows_of(X, 500), whitening)
    start = random_rotation(8, np.random.default_rng(0))[None]
    (by_moments,) = ascend(gather_moments(data).gradient, start, tol=1e-10, max_iter=500)
    (by_data,) = ascend(gradient_over(data), start, tol=1e-10, max_iter=500)
    np.testing.assert_allclose(by_moments.matrix, by_data.matrix, atol=1e-8)
    assert by_moments.n_iter == by_data.n_iter


def test_the_objective_never_falls(make_mixture):
    """More iterations never lower the objective, even far from the end and with sub-Gaussian sources about."""
    X, _, _ = make_mixture("mixed", 500, 6)
    whitening, _ = whiten(rows_of(X))
    moments = gather_moments(Whitened(rows_of(X), whitening))
    start = random_rotation(6, np.random.default_rng(3))
    by_fixed_point = [ascend(moments.gradient, start[None], tol=1e-12, max_iter=k)[0].matrix for k in range(1, 30)]
    by_newton = [newton_ascent(moments, start, tol=1e-12, max_iter=k).matrix for k in range(1, 12)]
    for ends in (by_fixed_point, by_newton):
        heights = [float(np.sum(R * moments.gradient(R))) for R in ends]
        assert (np.diff(heights) >= -1e-9).all()
        assert heights[-1] > heights[0]


def test_newton_doubles_the_digits_where_the_fixed_point_creeps(make_mixture):
    """On few samples the fixed point is still moving after 500 steps; Newton's method ends at the same maximum."""
    X, _, _ = make_mixture("uniform", 1000, 10)
    whitening, _ = whiten(rows_of(X))
    moments = gather_moments(Whitened(rows_of(X), whitening))
    (creeping,) = ascend(moments.gradient, random_rotation(10, np.random.default_rng(0))[None], tol=1e-10, max_iter=500)
    assert not creeping.converged
    end = newton_ascent(moments, creeping.matrix, tol=1e-10, max_iter=20)
    assert end.converged
    product = end.matrix.T @ moments.gradient(end.matrix)
    np.testing.assert_allclose(product, product.T, atol=1e-12)
    assert np.abs(end.matrix - creeping.matrix).max() < 0.2


def test_the_best_of_several_starts_wins(make_mixture):
    """On sub-Gaussian sources starts end apart; with n_init the objective is the largest of them."""
    X, _, _ = make_mixture("uniform", 5000, 10)
    whitening, _ = whiten(rows_of(X))
    data = Whitened(rows_of(X), whitening)
    gradient = gather_moments(data).gradient

    def height(rotation):
        return float(np.sum(rotation.matrix * gradient(rotation.matrix)))

    options = {"tol": 1e-9, "max_iter": 500}
    rng = np.random.default_rng(0)
    single = [height(l4(data, n_init=1, rng=rng, **options)) for _ in range(6)]
    assert max(single) - min(single) > 1e-3
    best = l4(data, n_init=6, rng=np.random.default_rng(0), **options)  # the same six starts
    assert height(best) == pytest.approx(max(single), rel=1e-9)


@pytest.mark.parametrize(("law", "r", "n"), [("uniform", 4, 3000), ("uniform", 10, 5000), ("mixed", 6, 4000)])
def test_l4_says_so_when_it_meets_subgaussian_sources(law, r, n, make_mixture):
    """A warning with the kurtosis and the remedy; mixed up, sub-Gaussian sources look Gaussian, and are still met."""
    X, _, _ = make_mixture(law, n, r)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LocalICA(solver="l4", random_state=0).fit(X)
    said = [str(w.message) for w in caught if "sub-Gaussian" in str(w.message)]
    assert len(said) == 1
    assert "excess kurtosis -1." in said[0]
    assert "solver='auto'" in said[0]


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("n", [60, 100, 2000])
def test_l4_settles_in_silence_on_what_is_not_subgaussian(law, n, make_mixture):
    """Chance is not taken for a sub-Gaussian source, and it converges on few samples too (warnings are errors here)."""
    for seed in range(4):
        local = LocalICA(solver="l4", random_state=0).fit(make_mixture(law, n, 6, seed=seed)[0])
        assert local.n_iter_ < 500

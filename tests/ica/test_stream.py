"""partial_fit: rows that come once, kept as moments."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import FastICA
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from fedica.blocks import rows_of
from fedica.errors import DataError
from fedica.ica import MomentStream, Whitened, whiten
from fedica.ica.moments import gather_moments
from fedica.local import LocalICA


def _streamed(blocks, *args, **options):
    local = LocalICA(*args, random_state=0, **options)
    for block in blocks:
        local.partial_fit(block)
    return local


def _moments(X, blocks):
    """Whitened fourth moments: by the stream, and from the data itself."""
    stream = MomentStream(X.shape[1], fourth=True)
    for block in blocks:
        stream.add(block)
    whitening, _ = whiten(rows_of(X))
    return stream.whitened(whitening).matrix, gather_moments(Whitened(rows_of(X), whitening)).matrix


@given(cuts=st.lists(st.integers(0, 2500), max_size=8), seed=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_moments_of_a_stream_are_those_of_the_data(cuts, seed):
    """However the rows are cut, the whitened fourth moments come out as from the data itself."""
    rng = np.random.default_rng(seed)
    X = rng.laplace(size=(2500, 4)) @ rng.standard_normal((4, 4)) + rng.standard_normal(4) * 100
    by_stream, exact = _moments(X, [block for block in np.split(X, sorted(cuts)) if len(block)])
    np.testing.assert_allclose(by_stream, exact, atol=1e-9)


@pytest.mark.parametrize(("condition", "atol"), [(1e2, 1e-9), (1e5, 1e-6)])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_moments_survive_bad_conditioning_and_offsets(condition, atol, offset):
    """Coordinates taken from the first rows keep the digits: raw fourth moments would lose condition^4 of them."""
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    X = rng.laplace(size=(6000, 6)) * np.geomspace(1, 1 / condition, 6) @ left.T + offset
    by_stream, exact = _moments(X, np.array_split(X, 6))
    np.testing.assert_allclose(by_stream, exact, atol=atol)


def test_moments_survive_a_stream_that_changes():
    """Drift, growing variance and a channel that is silent at first cost digits, but few."""
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(8000, 5)) @ rng.standard_normal((5, 5)) * np.linspace(1, 20, 8000)[:, None]
    X += np.linspace(0, 50, 8000)[:, None]
    X[:3000, 2] = 1.5
    by_stream, exact = _moments(X, np.array_split(X, 16))
    np.testing.assert_allclose(by_stream, exact, atol=1e-8)


@pytest.mark.parametrize(
    ("solver", "twin", "law"),
    [
        (solver, twin, law)
        for solver, twin in (("auto", "kurtosis"), ("deflation", "deflation"), ("l4", "l4"))
        for law in ("bernoulli-gaussian", "laplace", "uniform", "mixed")
        if twin != "l4" or law in ("bernoulli-gaussian", "laplace")
    ],
)
def test_a_stream_gives_what_fit_gives_on_all_rows(solver, twin, law, make_mixture):
    """partial_fit over blocks equals fit on the concatenated data with the solver that stands for it, to 1e-8."""
    X, _, _ = make_mixture(law, 6000, 6)
    options = {"tol": 1e-10} if solver == "deflation" else {}
    streamed = _streamed(np.array_split(X, 9), solver=solver, **options)
    whole = LocalICA(solver=twin, random_state=0, **options).fit(X)
    np.testing.assert_allclose(streamed.mixing_, whole.mixing_, atol=1e-8)
    np.testing.assert_allclose(streamed.components_, whole.components_, atol=1e-8)
    assert (streamed.n_samples_, streamed.n_passes_, streamed.solver_) == (6000, 1, twin)
    assert streamed.contribution("a").solver == twin


def test_a_stream_of_many_components_agrees_with_iterating_over_the_data(make_mixture):
    """Above 20 components fit iterates over the data and a stream over its moments: the same optimum."""
    X, _, _ = make_mixture("bernoulli-gaussian", 6000, 22)
    whole = LocalICA(solver="kurtosis", random_state=0).fit(X)
    np.testing.assert_allclose(_streamed(np.array_split(X, 3)).mixing_, whole.mixing_, atol=1e-7)


def test_kurtosis_is_the_fastica_of_the_fourth_power(make_mixture, distance):
    """Converged, it is scikit-learn's FastICA(fun="cube"), for sources of either sign."""
    X, _, _ = make_mixture("mixed", 4000, 5)
    peer = FastICA(fun="cube", tol=1e-13, max_iter=1000, random_state=0, whiten="unit-variance").fit(X)
    assert distance(LocalICA(solver="kurtosis", random_state=0).fit(X).mixing_, peer.mixing_) < 1e-6


def test_row_by_row_and_before_there_are_many(make_mixture):
    """Single rows are welcome, their memory may be used again, and the atoms can be asked for at any time."""
    X, _, _ = make_mixture("bernoulli-gaussian", 900, 3)
    local, row = LocalICA(random_state=0), np.empty((1, 3))
    for number, values in enumerate(X, start=1):
        row[:] = values
        local.partial_fit(row)
        if number in (200, 700, 900):
            whole = LocalICA(solver="kurtosis", random_state=0).fit(X[:number])
            np.testing.assert_allclose(local.mixing_, whole.mixing_, atol=1e-8)
            assert local.n_samples_ == number


def test_the_atoms_are_found_when_they_are_asked_for(make_mixture, monkeypatch):
    """A block costs its moments alone; one solve serves all attributes, and a new block asks for another."""
    X, _, _ = make_mixture("laplace", 2000, 3)
    solved = []
    monkeypatch.setattr(LocalICA, "_solve_stream", _counted(LocalICA._solve_stream, solved))
    local = _streamed(np.array_split(X, 4))
    check_is_fitted(local)
    assert solved == []
    assert local.transform(X).shape == (2000, 3)
    assert local.atoms_.shape == local.mixing_.shape == (3, 3)
    assert len(solved) == 1
    local.partial_fit(X + 1)
    assert local.n_samples_ == 4000
    assert len(solved) == 2


def _counted(function, calls):
    def counting(self):
        calls.append(1)
        function(self)

    return counting


def test_fit_ends_a_stream_and_the_next_block_begins_another(make_mixture):
    """Neither knows anything of the other's data."""
    X, _, _ = make_mixture("laplace", 1200, 3)
    local = _streamed([X[:500] * 9 + 1])
    local.fit(X)
    assert (local.atoms_ == LocalICA(random_state=0).fit(X).atoms_).all()
    local.partial_fit(X)
    assert (local.atoms_ == _streamed([X]).atoms_).all()


def test_a_stream_survives_pickling_and_a_clone_starts_anew(make_mixture):
    """Half-way through, a pickle goes on as if nothing had happened."""
    X, _, _ = make_mixture("laplace", 3000, 3)
    local = _streamed([X[:1000]])
    again = pickle.loads(pickle.dumps(local)).partial_fit(X[1000:])  # noqa: S301
    assert (again.atoms_ == local.partial_fit(X[1000:]).atoms_).all()
    with pytest.raises(NotFittedError):
        clone(local).transform(X)
    with pytest.raises(AttributeError, match="no attribute 'atoms_'"):
        _ = LocalICA().atoms_


def test_names_constant_columns_and_rank_as_in_fit(make_mixture):
    """DataFrames, a constant column, and dependent channels: what fit says and gives, a stream does."""
    X, _, _ = make_mixture("bernoulli-gaussian", 3000, 5)
    X = np.column_stack([X, X[:, 0] - X[:, 1], np.full(3000, 7.25)])
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(7)])
    local = _streamed([frame[:1000], frame[1000:]])
    with pytest.warns(UserWarning, match=r"1 of 7 features are constant.*'c6'"):
        atoms = local.atoms_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = LocalICA(solver="kurtosis", random_state=0).fit(frame)
    np.testing.assert_allclose(atoms, whole.atoms_, atol=1e-8)
    assert atoms.shape == (7, 5)
    assert local.contribution("a").features == tuple(frame.columns)


def test_single_precision_has_the_rank_of_single_precision():
    """A channel that is a copy to single precision does not count in a stream of float32 either."""
    X = np.random.default_rng(0).laplace(size=(3000, 4)).astype(np.float32)
    X = np.column_stack([X, X[:, 0] * np.float32(0.7) + X[:, 1]])
    assert _streamed(np.array_split(X, 3)).atoms_.shape == (5, 4)


def test_spatial_maps_of_a_stream_need_the_scatter_alone():
    """With independence over features any solver and more than 100 features will do."""
    X = np.random.default_rng(0).laplace(size=(400, 150)) * np.geomspace(9, 1, 150)
    streamed = _streamed(np.array_split(X, 4), 5, independence="features")
    whole = LocalICA(5, independence="features", random_state=0).fit(X)
    np.testing.assert_allclose(streamed.atoms_, whole.atoms_, atol=1e-8)
    assert streamed.solver_ == "auto"


def test_more_than_100_features_are_refused_with_the_reason():
    """The fourth moments of 128 features would take half a gigabyte; the sentence says so, and what to do."""
    with pytest.raises(DataError, match=r"all fourth moments, 0\.6 GB for 128 features.*at most 100\. Use fit"):
        LocalICA().partial_fit(np.random.default_rng(0).standard_normal((50, 128)))


@pytest.mark.parametrize("solver", ["fastica", "picard"])
def test_solvers_that_need_samples_are_refused(solver):
    """Moments are all that a stream keeps; scikit-learn sees no such method, a person a sentence."""
    with pytest.raises(AttributeError, match=rf"moments of the samples alone.*got '{solver}'"):
        LocalICA(solver=solver).partial_fit(np.ones((5, 2)))


def test_a_bad_block_is_refused_and_changes_nothing(make_mixture):
    """NaN or another width: an error, and the stream goes on as if the block had not come."""
    X, _, _ = make_mixture("laplace", 2000, 3)
    local = _streamed([X[:1000]])
    bad = X[:5].copy()
    bad[2, 1] = np.nan
    with pytest.raises(DataError, match="got 1 NaN and 0 infinite values, the first at row 2, column 1"):
        local.partial_fit(bad)
    with pytest.raises(DataError, match="X has 2 features, but LocalICA is expecting 3"):
        local.partial_fit(X[:, :2])
    assert (local.partial_fit(X[1000:]).atoms_ == _streamed([X[:1000], X[1000:]]).atoms_).all()


def test_too_few_rows_so_far_are_said_so():
    """Atoms asked for too early: the sentence of fit, and later they are there."""
    rng = np.random.default_rng(0)
    local = _streamed([rng.laplace(size=(2, 4))], 3)
    with pytest.raises(DataError, match="n_components=3 needs at least as many samples"):
        _ = local.atoms_
    assert local.partial_fit(rng.laplace(size=(500, 4))).atoms_.shape == (4, 3)

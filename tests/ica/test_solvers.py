"""Every solver on the laws that it claims, and what each promises by itself."""

from __future__ import annotations

import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from fedica.arrays import unit
from fedica.blocks import rows_of
from fedica.errors import MissingExtraError, OptionError
from fedica.ica import Whitened, whiten
from fedica.ica.deflation import deflation
from fedica.ica.fast import FastICAStep, fast, negentropy, newton_steps, stage_sizes
from fedica.local import SOLVERS, LocalICA
from fedica.matching import match

CLAIMS = [
    (solver, law)
    for solver, about in SOLVERS.items()
    for law in ("bernoulli-gaussian", "laplace", "uniform", "mixed")
    if about.finds_subgaussian or law in ("bernoulli-gaussian", "laplace")
]


def _error(estimate, truth):
    found = match(unit(estimate), unit(truth))
    return np.linalg.norm(unit(estimate) * found.signs - unit(truth)[:, found.labels]) / np.sqrt(truth.shape[1])


def _white(X, r=None, block_rows=None):
    blocks = rows_of(X, block_rows)
    return Whitened(blocks, whiten(blocks, r)[0])


@pytest.mark.parametrize(("solver", "law"), CLAIMS)
def test_every_solver_recovers_the_laws_that_it_claims(solver, law, make_mixture):
    """Six sources in eight features, 5000 samples: the error is a few hundredths."""
    X, mixing, _ = make_mixture(law, 5000, 8, 6)
    local = LocalICA(6, solver=solver, random_state=0).fit(X)
    assert _error(local.mixing_, mixing) < 0.09


@pytest.mark.parametrize("init", ["moments", "random"])
@pytest.mark.parametrize("r", [5, 24])
def test_deflation_recovers_mixed_signs_from_either_start(init, r, make_mixture):
    """Method-of-moments and random starts, on moments (small r) and over the data (large r)."""
    X, mixing, _ = make_mixture("mixed", 6000, r)
    local = LocalICA(solver="deflation", init=init, random_state=0).fit(X)
    assert _error(local.mixing_, mixing) < 0.12
    np.testing.assert_allclose(local.atoms_, unit(local.mixing_))


def test_deflation_ends_at_stationary_directions_before_the_last_polar_factor(make_mixture):
    """Its rotation is orthonormal, and near the stationary directions that it followed."""
    X, _, _ = make_mixture("bernoulli-gaussian", 20_000, 5)
    rotation = deflation(_white(X), n_init=2, tol=1e-10, max_iter=200, rng=np.random.default_rng(0))
    np.testing.assert_allclose(rotation.matrix.T @ rotation.matrix, np.eye(5), atol=1e-12)
    assert rotation.converged
    assert _error(rotation.matrix, fast_reference(X)) < 0.03


def fast_reference(X):
    return fast(_white(X), n_init=1, tol=1e-10, max_iter=200, rng=np.random.default_rng(0)).matrix


def test_deflation_finds_distinct_columns_even_in_noise():
    """Gaussian data has no components; the columns found are orthonormal all the same."""
    X = np.random.default_rng(0).standard_normal((300, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # there is nothing to settle on
        local = LocalICA(solver="deflation", mixing="orthogonal", random_state=0).fit(X)
    np.testing.assert_allclose(local.atoms_.T @ local.atoms_, np.eye(6), atol=1e-10)


def test_the_moments_start_refuses_what_would_not_fit():
    """More than 100 components would need gigabytes of fourth moments: refused with the remedy."""
    X = np.random.default_rng(0).standard_normal((300, 101))
    with pytest.raises(OptionError, match=r"at most 100 components; got 101. Use init='random'"):
        LocalICA(solver="deflation").fit(X)


@pytest.mark.parametrize("law", ["bernoulli-gaussian", "laplace", "mixed"])
@pytest.mark.parametrize(("r", "n"), [(8, 5000), (16, 60_000)])
def test_the_default_has_the_error_of_fastica_logcosh(law, r, n, make_mixture):
    """Converging on subsamples first changes the error of FastICA (logcosh) on all data by less than 1%."""
    X, mixing, _ = make_mixture(law, n, r)
    ours = LocalICA(random_state=0).fit(X)
    theirs = FastICA(whiten="unit-variance", whiten_solver="eigh", tol=1e-8, max_iter=500, random_state=0).fit(X)
    assert _error(ours.mixing_, mixing) == pytest.approx(_error(theirs.mixing_, mixing), rel=0.01)


def test_the_default_is_fastica_logcosh_when_asked_for_a_tolerance(make_mixture, distance):
    """With a small tol it is the same matrix, however it got there."""
    X, _, _ = make_mixture("laplace", 20_000, 6)
    ours = LocalICA(tol=1e-9, random_state=0).fit(X)
    theirs = FastICA(whiten="unit-variance", whiten_solver="eigh", tol=1e-14, max_iter=500, random_state=0).fit(X)
    assert distance(ours.mixing_, theirs.mixing_) < 1e-6


@pytest.mark.parametrize("law", ["laplace", "uniform", "bernoulli-gaussian"])
def test_steps_in_single_precision_end_where_those_in_double_do(law, make_mixture):
    """On many samples the default stays within its goal of the exact optimum, and does not depend on cuts to 1e-8."""
    X, _, _ = make_mixture(law, 70_000, 6)
    found, exact = (LocalICA(tol=tol, random_state=0).fit(X) for tol in (None, 1e-10))
    assert np.linalg.norm(found.atoms_ - exact.atoms_, axis=0).max() < 0.03 * np.sqrt(6 / 70_000)
    for n_blocks in (7, 211):
        by_blocks = LocalICA(random_state=0).fit(np.array_split(X, n_blocks))
        np.testing.assert_allclose(by_blocks.mixing_, found.mixing_, atol=1e-8)


@pytest.mark.parametrize("n_features", [5, 12])
@pytest.mark.parametrize("scores_only", [False, True])
def test_a_step_on_rounded_data_is_that_on_the_data(scores_only, n_features, make_mixture):
    """To 1e-6 of a step, whether whitening is moved out of the pass or not, with an offset of a thousand deviations."""
    X, _, _ = make_mixture("laplace", 20_000, n_features, 5)
    data = _white(X + 1000.0, 5)
    start = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0]
    step = FastICAStep(data)(start)
    np.testing.assert_allclose(FastICAStep(data.rounded(scores_only=scores_only))(start), step, atol=1e-6)


@pytest.mark.parametrize("scale", [[1e-20] * 4, [1e20] * 4, [1.0, 1.0, 1.0, 1e-5]])
def test_data_that_single_precision_cannot_hold_is_not_rounded(scale, make_mixture):
    """Tiny or huge units, and directions of very different size: the step is that in double precision."""
    X, _, _ = make_mixture("laplace", 4000, 4)
    data = _white(X * scale)
    np.testing.assert_allclose(FastICAStep(data.rounded())(np.eye(4)), FastICAStep(data)(np.eye(4)), atol=1e-12)


def test_what_is_foreseen_to_be_left_is_left(make_mixture):
    """The distance to the limit that a run reports is near the true one, and below its goal."""
    X, _, _ = make_mixture("laplace", 30_000, 5)
    data = _white(X)
    limit = fast(data, n_init=1, tol=1e-12, max_iter=100, rng=np.random.default_rng(0)).matrix
    start, _ = np.linalg.qr(limit + 0.05 * np.random.default_rng(0).standard_normal((5, 5)))
    run = newton_steps(FastICAStep(data), start, goal=1e-5, max_iter=50)
    found = match(run.matrix, limit)
    true = np.linalg.norm(run.matrix * found.signs - limit[:, found.labels], axis=0).max()
    assert true < 1e-5
    assert run.n_iter < newton_steps(FastICAStep(data), start, goal=1e-12, max_iter=50).n_iter


@pytest.mark.parametrize("law", ["gaussian", "laplace", "uniform"])
@pytest.mark.parametrize("n", [12, 60, 200])
def test_the_default_settles_on_few_samples(law, n, make_mixture):
    """Where full Newton steps circle for ever, shorter ones settle (warnings are errors here)."""
    for seed in range(4):
        assert LocalICA(random_state=0).fit(make_mixture(law, n, 5, seed=seed)[0]).n_iter_ < 500


def test_subsamples_grow_and_end_with_all_data():
    """The sizes grow two- to eightfold and end at n; small data is used whole from the start."""
    for n, r in [(1_000_000, 20), (100_000, 64), (100_000, 100), (5_000, 20), (40_000, 2)]:
        sizes = stage_sizes(n, r)
        assert sizes[0] == max(2000, 50 * r, min(r * r, n // 8))
        assert sizes[-1] == n
        assert all(2 * a <= b <= 8.01 * a for a, b in pairwise(sizes))
    assert stage_sizes(3000, 20) == [3000]


def test_the_largest_subsample_stays_within_its_memory():
    """Of however many samples, no subsample takes more than 128 MB."""
    *small, n = stage_sizes(10**10, 64)
    assert n == 10**10
    assert 2**24 < 4 * 64 * small[-1] <= 2**27


def test_restarts_keep_the_least_gaussian(make_mixture):
    """With n_init the negentropy is the largest of the single starts, on data too small to agree on one."""
    X, _, _ = make_mixture("laplace", 60, 5, seed=2)
    data = _white(X)
    options = {"tol": 1e-3, "max_iter": 100}
    rng = np.random.default_rng(0)
    single = [negentropy(data, fast(data, n_init=1, rng=rng, **options).matrix) for _ in range(5)]
    best = fast(data, n_init=5, rng=np.random.default_rng(0), **options)
    assert negentropy(data, best.matrix) == pytest.approx(max(single))
    assert max(single) > min(single)


@pytest.mark.parametrize("solver", ["auto", "l4", "deflation", "fastica", "picard"])
def test_not_converged_is_said_with_numbers_and_remedy(solver, make_mixture):
    """One iteration is not enough: a ConvergenceWarning names tolerance, iterations and what to do."""
    X, _, _ = make_mixture("laplace", 1000, 6)
    with pytest.warns(ConvergenceWarning, match=r"tol 1\.0e-0\d.*max_iter=1 iterations; raise max_iter"):
        LocalICA(solver=solver, max_iter=1, tol=1e-7, random_state=0).fit(X)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_random_state_gives_the_same_atoms(solver, make_mixture):
    """Bit by bit the same, for an int, and for equal generators."""
    X, _, _ = make_mixture("laplace", 5000, 5)
    first = LocalICA(solver=solver, random_state=3).fit(X)
    assert (LocalICA(solver=solver, random_state=3).fit(X).atoms_ == first.atoms_).all()
    by_generator = LocalICA(solver=solver, random_state=np.random.default_rng(3)).fit(X)
    assert (by_generator.atoms_ == first.atoms_).all()


def test_picard_says_how_to_install_it(monkeypatch, make_mixture):
    """Without picard the error names the extra."""
    monkeypatch.setitem(sys.modules, "picard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedica\[picard\]'"):
        LocalICA(solver="picard").fit(make_mixture("laplace", 200, 3)[0])


@pytest.mark.parametrize("solver", ["fastica", "picard"])
def test_adapters_agree_with_the_default(solver, make_mixture, distance):
    """The three find the same components of one data set, to sampling error."""
    X, _, _ = make_mixture("laplace", 8000, 5)
    assert distance(LocalICA(solver=solver, n_init=2, random_state=0).fit(X).atoms_, LocalICA().fit(X).atoms_) < 0.01

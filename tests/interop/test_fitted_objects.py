"""Fitted FastICA and Picard objects as contributions: the same atoms as our own fit, however they whiten."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA, FastICA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from fedica import LocalICA, aggregate
from fedica.errors import ContributionError, InputError, OptionError
from fedica.interop import from_fastica, from_picard

D, R, N = 6, 3, 2000


def mixed(seed: int = 0, n_samples: int = N) -> np.ndarray:
    """Three sources in six features of different size, with a little noise so that there is something to leave out."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(100).standard_normal((D, R)) * np.array([1, 3, 1, 10, 1, 1])[:, None]
    return rng.laplace(size=(n_samples, R)) @ mixing.T + 0.01 * rng.standard_normal((n_samples, D)) + 5.0


def sklearn_fit(X, **options):
    return FastICA(R, tol=4e-16, max_iter=2000, random_state=1, **options).fit(X)


def same_atoms(one, other) -> float:
    """How far the atoms are apart at most, up to order and sign."""
    cosines = one.T @ other
    order = np.abs(cosines).argmax(axis=0)
    assert sorted(order) == list(range(one.shape[1]))
    signs = np.sign(cosines[order, range(one.shape[1])])
    return np.abs(one[:, order] * signs - other).max()


@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance"])
@pytest.mark.parametrize("whiten_solver", ["svd", "eigh"])
def test_fastica_has_the_atoms_of_our_own_fit(whiten, whiten_solver):
    """To 1e-8, up to order and sign, whichever way it whitens."""
    X = mixed()
    ours = LocalICA(R, solver="fastica", tol=3e-8, max_iter=2000, random_state=0).fit(X)
    theirs = from_fastica(sklearn_fit(X, whiten=whiten, whiten_solver=whiten_solver), "a", n_samples=N)
    assert same_atoms(ours.atoms_, theirs.atoms) < 1e-8
    assert (theirs.n_samples, theirs.independence, theirs.mixing, theirs.solver) == (N, "samples", "general", "fastica")
    own = ours.contribution("a")
    assert (own.independence, own.mixing, own.solver) == (theirs.independence, theirs.mixing, theirs.solver)


def test_a_pipeline_is_undone():
    """PCA and scaling before FastICA: the atoms are directions of what the whole pipeline was fitted to."""
    X = mixed()
    ours = LocalICA(R, solver="fastica", tol=3e-8, max_iter=2000, random_state=0).fit(X)
    ratio = np.sqrt(N / (N - 1))
    without_whitening = FastICA(whiten=False, tol=4e-16, max_iter=2000, random_state=1)
    by_n = FunctionTransformer(
        lambda Z: Z * ratio, lambda Z: Z / ratio
    )  # FastICA's variances are sums over n, not n - 1
    pipeline = make_pipeline(PCA(R, whiten=True), by_n, without_whitening).fit(X)
    assert same_atoms(ours.atoms_, from_fastica(pipeline, "a").atoms) < 1e-8
    assert from_fastica(pipeline, "a").n_samples == N  # PCA has counted them
    scaled = make_pipeline(StandardScaler(), FastICA(R, tol=4e-16, max_iter=2000, random_state=1)).fit(X)
    of_scaled = LocalICA(R, solver="fastica", tol=3e-8, max_iter=2000, random_state=0).fit(X / X.std(axis=0))
    in_features = of_scaled.mixing_ * X.std(axis=0)[:, None]
    assert same_atoms(in_features / np.linalg.norm(in_features, axis=0), from_fastica(scaled, "a").atoms) < 1e-8
    assert from_fastica(scaled, "a").n_samples == N


def test_order_is_kept():
    """Atom k is component k of the fitted object."""
    ica = sklearn_fit(mixed())
    atoms = from_fastica(ica, "a", n_samples=N).atoms
    np.testing.assert_allclose(atoms, ica.mixing_ / np.linalg.norm(ica.mixing_, axis=0), atol=1e-15)


def test_over_features_the_atoms_are_the_sources_of_the_transpose():
    """Data without the mean of samples and features: the same atoms as our own fit over features, to 1e-8."""
    rng = np.random.default_rng(0)
    maps = rng.laplace(size=(500, R))
    X = rng.standard_normal((8, R)) @ maps.T
    X = X - X.mean(axis=0) - X.mean(axis=1, keepdims=True) + X.mean()
    ours = LocalICA(R, solver="fastica", independence="features", tol=3e-8, max_iter=2000, random_state=0).fit(X)
    theirs = from_fastica(sklearn_fit(X.T), "a", independence="features", data=X)
    assert same_atoms(ours.atoms_, theirs.atoms) < 1e-8
    assert (theirs.n_samples, theirs.independence) == (8, "features")
    with pytest.raises(InputError, match=r"data of shape \(8, n_features\) is needed; got none"):
        from_fastica(sklearn_fit(X.T), "a", independence="features")
    with pytest.raises(InputError, match=r"got shape \(500, 8\)"):
        from_fastica(sklearn_fit(X.T), "a", independence="features", data=X.T)
    with pytest.raises(OptionError, match="independence='features' alone"):
        from_fastica(sklearn_fit(X.T), "a", n_samples=500, data=X)


def test_names_come_from_the_data_frame():
    """Of the columns that it was fitted to; over features, of the data; given names come first."""
    pd = pytest.importorskip("pandas")
    names = [f"gene{k}" for k in range(D)]
    frame = pd.DataFrame(mixed(n_samples=50), columns=names, index=[f"s{k}" for k in range(50)])
    ica = FastICA(R, random_state=0, max_iter=1000, tol=1e-2).fit(frame)
    assert from_fastica(ica, "a", n_samples=50).features == tuple(names)
    assert from_fastica(ica, "a", n_samples=50, features=list("uvwxyz")).features == tuple("uvwxyz")
    over_genes = FastICA(R, random_state=0, max_iter=1000, tol=1e-1).fit(frame.T)
    assert from_fastica(over_genes, "a", independence="features", data=frame).features == tuple(names)
    with pytest.raises(ContributionError, match="features"):
        from_fastica(ica, "a", n_samples=50, features=["one"])


def test_the_number_of_samples_is_asked_for_and_never_made_up():
    """A FastICA does not store; a client may keep it to itself."""
    ica = sklearn_fit(mixed())
    with pytest.raises(OptionError, match=r"does not store how many samples .* n_samples='untold'"):
        from_fastica(ica, "a")
    assert from_fastica(ica, "a", n_samples="untold").n_samples is None
    pipeline = make_pipeline(StandardScaler(), FastICA(R, random_state=0)).fit(mixed())
    with pytest.raises(InputError, match=f"n_samples=7 was given; its FastICA was fitted to {N}"):
        from_fastica(pipeline, "a", n_samples=7)


def test_what_is_no_fitted_fastica_is_refused():
    """Not fitted, something else, steps that cannot be undone or are not linear: one sentence each."""
    X = mixed()
    with pytest.raises(InputError, match="client 'a': its FastICA is not fitted"):
        from_fastica(FastICA(R), "a", n_samples=N)
    with pytest.raises(InputError, match="a fitted FastICA was expected, got PCA"):
        from_fastica(PCA(2).fit(X), "a", n_samples=N)
    steps = {
        "cannot be undone": FunctionTransformer(np.arcsinh),
        "cannot be undone .*inverse_transform": Normalizer(),
        "is not linear": FunctionTransformer(np.arcsinh, np.sinh),
    }
    for complaint, step in steps.items():
        with pytest.raises(InputError, match=complaint):
            from_fastica(make_pipeline(step, FastICA(R, random_state=0)).fit(X), "a", n_samples=N)
    with pytest.raises(OptionError, match="independence"):
        from_fastica(sklearn_fit(X), "a", n_samples=N, independence="time")


def test_five_fitted_fasticas_are_aggregated():
    """Results that people have: one mixing matrix from five of them, better than each."""
    clients = [from_fastica(sklearn_fit(mixed(k)), f"client-{k}", n_samples=N) for k in range(5)]
    result = aggregate(clients, R)
    truth = np.random.default_rng(100).standard_normal((D, R)) * np.array([1, 3, 1, 10, 1, 1])[:, None]
    truth /= np.linalg.norm(truth, axis=0)
    assert result.trust.named("outlying") == ()
    errors = [same_atoms(truth, client.atoms) for client in clients]
    assert same_atoms(truth, result.mixing) < np.median(errors)


def test_picard_as_an_estimator_and_as_a_function():
    """Both have the atoms of our own fit with picard; the function's result knows its samples."""
    picard = pytest.importorskip("picard")
    X = mixed()
    ours = LocalICA(R, solver="picard", tol=1e-10, random_state=0).fit(X)
    estimator = picard.Picard(R, tol=1e-10, random_state=1).fit(X)
    theirs = from_picard(estimator, "a", n_samples=N)
    assert same_atoms(ours.atoms_, theirs.atoms) < 1e-8
    assert (theirs.n_samples, theirs.solver) == (N, "picard")
    for options in ({}, {"return_X_mean": True, "return_n_iter": True}):
        returned = picard.picard(X.T, n_components=R, tol=1e-10, random_state=1, **options)
        function = from_picard(returned, "a", features=list("uvwxyz"))
        assert same_atoms(ours.atoms_, function.atoms) < 1e-8
        assert (function.n_samples, function.solver, function.features) == (N, "picard", tuple("uvwxyz"))
    with pytest.raises(OptionError, match="Picard does not store"):
        from_picard(estimator, "a")
    with pytest.raises(OptionError, match="data is not needed"):
        from_picard(returned, "a", data=X)


def test_picard_over_features_and_without_whitening():
    """The sources that the function returned are the maps; without K, W is the whole unmixing matrix."""
    picard = pytest.importorskip("picard")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, R)) @ rng.laplace(size=(R, 500))
    X = X - X.mean(axis=0) - X.mean(axis=1, keepdims=True) + X.mean()
    ours = LocalICA(R, solver="picard", independence="features", tol=1e-10, random_state=0).fit(X)
    returned = picard.picard(X, n_components=R, tol=1e-10, random_state=1)
    theirs = from_picard(returned, "a", independence="features")
    assert same_atoms(ours.atoms_, theirs.atoms) < 1e-8
    assert theirs.n_samples == 8
    white = np.sqrt(N) * np.linalg.svd(mixed() - mixed().mean(axis=0), full_matrices=False)[0][:, :R]
    K, W, Y = picard.picard(white.T, whiten=False, centering=False, tol=1e-10, random_state=1)
    assert K is None
    np.testing.assert_allclose(from_picard((K, W, Y), "a").atoms @ np.diag(np.linalg.norm(W.T, axis=0)), W.T, atol=1e-7)


@pytest.mark.parametrize(
    "returned", [(), (1, 2), (None, None, None), ("K", "W", "Y"), (np.eye(2), np.eye(3), np.eye(3))]
)
def test_what_is_no_result_of_picard_is_refused(returned):
    """One sentence for every fault."""
    with pytest.raises(InputError, match=r"client 'a': the \(K, W, Y\) of picard\.picard was expected"):
        from_picard(returned, "a")

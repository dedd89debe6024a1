"""LocalICA: what holds for every setting, and what it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from fedica.errors import DataError, InputError, OptionError
from fedica.local import SOLVERS, LocalICA

SETTINGS = [("samples", "general"), ("samples", "orthogonal"), ("features", "general")]


@pytest.mark.parametrize(("independence", "mixing"), SETTINGS)
@pytest.mark.parametrize("shape", [(800, 6, None), (800, 9, 6), (12, 30, 5)])
def test_sources_and_mixing_give_the_data_back(independence, mixing, shape):
    """X ~ S mixing' + mean: exactly at full rank, and else the projection on the leading directions."""
    n, d, r = shape
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(n, d)) @ rng.standard_normal((d, d)) + 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a dozen samples need not converge
        local = LocalICA(r, independence=independence, mixing=mixing, random_state=0).fit(X)
    S = local.transform(X)
    left, values, right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    kept = local.mixing_.shape[1]
    nearest = (left[:, :kept] * values[:kept]) @ right[:kept] + X.mean(axis=0)
    np.testing.assert_allclose(local.inverse_transform(S), nearest, atol=1e-8)
    np.testing.assert_allclose(local.components_, np.linalg.pinv(local.mixing_), atol=1e-8)
    np.testing.assert_allclose(local.mean_, X.mean(axis=0))


@pytest.mark.parametrize(("independence", "mixing"), SETTINGS)
def test_atoms_are_unit_signed_and_ordered(independence, mixing, make_mixture):
    """Unit columns along mixing_, the largest entry positive, sorted by the variance that they explain."""
    X, _, _ = make_mixture("laplace", 1000, 12, 5)
    local = LocalICA(5, independence=independence, mixing=mixing, random_state=0).fit(X)
    A = local.atoms_
    np.testing.assert_allclose(np.linalg.norm(A, axis=0), 1)
    np.testing.assert_allclose(A * np.linalg.norm(local.mixing_, axis=0), local.mixing_)
    assert (A[np.argmax(np.abs(A), axis=0), np.arange(5)] > 0).all()
    explained = local.transform(X).var(axis=0) * np.sum(local.mixing_**2, axis=0)
    np.testing.assert_allclose(local.explained_variance_, explained)
    assert (np.diff(explained) <= 0).all()


@pytest.mark.parametrize(("independence", "mixing"), SETTINGS[1:])
def test_orthogonal_atoms_are_orthonormal(independence, mixing, make_mixture):
    """U R and V R have orthonormal columns."""
    X, _, _ = make_mixture("laplace", 1000, 12, 5)
    A = LocalICA(5, independence=independence, mixing=mixing, random_state=0).fit(X).atoms_
    np.testing.assert_allclose(A.T @ A, np.eye(5), atol=1e-10)


def test_general_sources_have_variance_one(make_mixture):
    """For general mixing the sources are white."""
    X, _, _ = make_mixture("laplace", 1000, 4)
    S = LocalICA(random_state=0).fit(X).transform(X)
    np.testing.assert_allclose(np.cov(S.T, bias=True), np.eye(4), atol=1e-9)


def test_orthogonal_is_better_where_it_is_true_and_general_where_it_is_not(make_mixture):
    """U R is the polar factor of U S R when A is orthonormal; with condition number 3 it is far off."""
    X, general, S = make_mixture("bernoulli-gaussian", 5000, 10)
    orthonormal, _ = np.linalg.qr(general)

    def error(data, truth, mixing):
        A = LocalICA(solver="l4", mixing=mixing, random_state=0).fit(data).atoms_
        cosines = np.abs(A.T @ (truth / np.linalg.norm(truth, axis=0)))
        return np.sqrt(np.mean(2 - 2 * cosines.max(axis=0)))

    assert error(S @ orthonormal.T, orthonormal, "orthogonal") < error(S @ orthonormal.T, orthonormal, "general")
    assert error(X, general, "general") < 0.05
    assert error(X, general, "orthogonal") > 0.2


def test_spatial_maps_are_varimax_of_the_principal_directions():
    """Digits: atoms = V R maximise the sum of fourth powers over features, as Eq. (2) on the rows of V does."""
    X = load_digits().data
    with pytest.warns(UserWarning, match=r"3 of 64 features are constant.*column 0, column 32, column 39"):
        local = LocalICA(10, solver="l4", independence="features", random_state=0).fit(X)
    A = local.atoms_
    V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:10].T
    np.testing.assert_allclose(A @ (A.T @ V), V, atol=1e-8)  # the same span
    assert (A[[0, 32, 39]] == 0).all()
    product = A.T @ A**3
    np.testing.assert_allclose(product, product.T, atol=1e-8)  # stationary
    assert np.sum(A**4) > 1.5 * np.sum(V**4)


def test_spatial_maps_ignore_mixing(make_mixture):
    """With independence over features, mixing changes nothing."""
    X, _, _ = make_mixture("laplace", 40, 300, 5)
    one, other = (
        LocalICA(4, independence="features", mixing=mixing, random_state=0).fit(X).atoms_
        for mixing in ("general", "orthogonal")
    )
    assert (one == other).all()


def test_spatial_maps_of_few_samples_and_many_features():
    """55 samples of 2000 features, sparse maps: recovered although n is far below d."""
    rng = np.random.default_rng(0)
    maps = rng.standard_normal((2000, 6)) * (rng.random((2000, 6)) < 0.1)
    X = rng.standard_normal((55, 6)) @ maps.T + 0.01 * rng.standard_normal((55, 2000))
    local = LocalICA(6, independence="features", random_state=0).fit(X)
    cosines = np.abs(local.atoms_.T @ (maps / np.linalg.norm(maps, axis=0)))
    assert cosines.max(axis=0).min() > 0.95


def test_rotating_the_features_rotates_the_atoms(make_mixture, distance):
    """Atoms are equivariant under rotations of feature space."""
    X, _, _ = make_mixture("bernoulli-gaussian", 3000, 6)
    turn, _ = np.linalg.qr(np.random.default_rng(9).standard_normal((6, 6)))
    plain, turned = (LocalICA(solver="l4", random_state=0).fit(data).atoms_ for data in (X, X @ turn.T))
    assert distance(turned, turn @ plain) < 1e-7


@pytest.mark.parametrize("solver", ["auto", "l4", "deflation"])
def test_scaling_and_shifting_the_data_leave_the_atoms(solver, make_mixture):
    """Volts or microvolts, and any offset: the same atoms, in the same order."""
    X, _, _ = make_mixture("bernoulli-gaussian", 3000, 6)
    plain, scaled = (LocalICA(solver=solver, random_state=0).fit(data).atoms_ for data in (X, 1e-6 * X + 3))
    np.testing.assert_allclose(scaled, plain, atol=1e-7)


@pytest.mark.parametrize("solver", ["auto", "l4", "deflation"])
@pytest.mark.parametrize("r", [5, 22])
def test_block_size_changes_nothing(solver, r, make_mixture, monkeypatch):
    """Results agree to 1e-10 for any size of block; columns found one by one to what each adds to the next."""
    X, _, _ = make_mixture("bernoulli-gaussian", 5000, r)
    atol = 1e-7 if solver == "deflation" else 1e-10
    fits = []
    for size in (2**12, 2**19, 2**30):
        monkeypatch.setattr("fedica.blocks.cuts.ROW_BLOCK_BYTES", size)
        fits.append(LocalICA(solver=solver, random_state=0).fit(X).mixing_)
    np.testing.assert_allclose(fits[1], fits[0], atol=atol)
    np.testing.assert_allclose(fits[2], fits[0], atol=atol)


@pytest.mark.parametrize("solver", ["auto", "l4"])
def test_a_memory_mapped_file_gives_the_same(solver, tmp_path, make_mixture):
    """A .npy opened with mmap_mode equals the array in memory, also for integers."""
    X, _, _ = make_mixture("laplace", 6000, 5)
    for name, data in (("floats", X), ("counts", np.round(100 * X).astype(np.int16))):
        np.save(tmp_path / f"{name}.npy", data)
        mapped = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        in_memory = LocalICA(solver=solver, random_state=0).fit(data)
        by_file = LocalICA(solver=solver, random_state=0).fit(mapped)
        assert (by_file.atoms_ == in_memory.atoms_).all()
        assert (by_file.transform(mapped) == in_memory.transform(data)).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_average_referenced_data_is_fitted_on_its_rank(solver, make_mixture):
    """Dependent channels: one component fewer, finite, and every atom sums to zero over channels."""
    X, _, _ = make_mixture("bernoulli-gaussian", 3000, 6)
    X = X - X.mean(axis=1, keepdims=True)
    local = LocalICA(solver=solver, random_state=0).fit(X)
    assert local.atoms_.shape == (6, 5)
    np.testing.assert_allclose(local.atoms_.sum(axis=0), 0, atol=1e-7)
    np.testing.assert_allclose(local.inverse_transform(local.transform(X)), X, atol=1e-7)


@pytest.mark.parametrize("independence", ["samples", "features"])
def test_a_constant_channel_equals_none_at_all(independence, make_mixture):
    """One warning that names it; zero in every atom; the rest is as if it had not been there."""
    X, _, _ = make_mixture("laplace", 500, 30, 4)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    frame.insert(7, "border", 3.25)
    local = LocalICA(4, independence=independence, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        local.fit(frame)
    assert [str(w.message) for w in caught] == [
        "1 of 31 features are constant and get zero in every atom: 'border'. Leave them out to silence this."
    ]
    assert (local.atoms_[7] == 0).all()
    without = LocalICA(4, independence=independence, random_state=0).fit(X)
    np.testing.assert_allclose(np.delete(local.atoms_, 7, axis=0), without.atoms_, atol=1e-9)


def test_the_contribution_carries_what_the_server_needs(make_mixture):
    """Atoms, samples, names of the features from the DataFrame, and how the atoms were found."""
    X, _, _ = make_mixture("laplace", 300, 3)
    frame = pd.DataFrame(X, columns=["Fz", "Cz", "Pz"])
    local = LocalICA(2, solver="l4", mixing="orthogonal", random_state=0).fit(frame)
    sent = local.contribution("client-07", study="eeg", extra={"device": "A"})
    assert (sent.atoms == local.atoms_).all()
    assert (sent.client, sent.n_samples, sent.features) == ("client-07", 300, ("Fz", "Cz", "Pz"))
    assert (sent.solver, sent.independence, sent.mixing, sent.study) == ("l4", "samples", "orthogonal", "eeg")
    assert sent.extra == {"device": "A"}
    plain = LocalICA(2, random_state=0).fit(X)
    assert plain.contribution("a").features is None
    assert plain.contribution("a", features=["x", "y", "z"]).features == ("x", "y", "z")


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 1.0]]), "1 NaN and 0 infinite"),
        (np.array([[1.0, 2.0], [np.inf, 3.0], [4.0, 1.0]]), "0 NaN and 1 infinite"),
        (np.ones((10, 3)), "all 3 features are constant"),
        (np.random.default_rng(0).standard_normal((3, 8)), "n_components=4 needs at least as many samples"),
        (np.random.default_rng(0).standard_normal((30, 3)), "n_components=4 needs at least as many features"),
        (np.random.default_rng(0).standard_normal((30, 2)) @ np.ones((2, 6)), "above the rank of the data: 1 "),
        (np.ones(5), "Expected 2D array"),
        (np.ones((1, 5)), "minimum of 2"),
        (np.full((5, 3), 4.25 + 1j), "Complex data not supported"),
        (np.full((5, 3), np.datetime64("2004-02-05")), r"must be numbers; got dates or times \(datetime64\[D\]\)"),
        (np.full((5, 3), "4.25 (Alice)", dtype=object), "data must be numbers; got text"),
        (np.ma.masked_equal(np.arange(15.0).reshape(5, 3), 4), "data must have no masked values; got 1"),
    ],
)
def test_bad_data_is_refused_in_one_sentence(X, sentence):
    """Each defect of the data is a DataError that names it, and shows no value."""
    with pytest.raises(DataError, match=sentence) as caught:
        LocalICA(4).fit(X)
    assert not any(value in str(caught.value) for value in ("4.25", "2004", "Alice", "\n"))


def test_a_mask_that_hides_nothing_is_no_mask():
    """And one in a block of an iterable is refused as in an array."""
    X = np.random.default_rng(0).laplace(size=(400, 3))
    plain, masked = LocalICA(3, random_state=0).fit(X), LocalICA(3, random_state=0).fit(np.ma.array(X))
    np.testing.assert_array_equal(plain.atoms_, masked.atoms_)
    with pytest.raises(InputError, match="a block must have no masked values; got 3"):
        LocalICA(3).fit([X, np.ma.array(X, mask=np.arange(1200).reshape(X.shape) < 3)])


def test_data_in_small_units_gives_unit_atoms():
    """Magnetic fields in tesla: only the scale of the mixing matrix is another."""
    X = np.random.default_rng(0).laplace(size=(2000, 3)) @ np.random.default_rng(1).standard_normal((3, 3))
    one, other = LocalICA(3, random_state=0).fit(X), LocalICA(3, random_state=0).fit(1e-14 * X)
    np.testing.assert_allclose(np.linalg.norm(other.atoms_, axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(other.atoms_, one.atoms_, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"solver": "l5"}, "solver must be one of 'auto', 'l4'"),
        ({"independence": "time"}, "independence must be one of 'samples', 'features'"),
        ({"mixing": "free"}, "mixing must be one of"),
        ({"n_components": 0}, "n_components must be a whole number of at least 1"),
        ({"n_components": 2.5}, "n_components must be a whole number"),
        ({"n_init": 0}, "n_init must be"),
        ({"tol": 0.0}, "tol must be a number above 0"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"init": "random"}, "init is a choice of solver='deflation' alone; solver='auto' takes none"),
        ({"init": "svd", "solver": "deflation"}, "init must be one of 'moments', 'random'"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(options, sentence):
    """Each bad argument is an OptionError that names it, before the data is looked at."""
    with pytest.raises(OptionError, match=sentence):
        LocalICA(**options).fit(np.full((3, 3), np.nan))


def test_sources_of_another_width_are_refused(make_mixture):
    """inverse_transform wants one column a component."""
    X, _, _ = make_mixture("laplace", 300, 3)
    with pytest.raises(DataError, match=r"shape \(n_samples, 2\).*got \(5, 3\)"):
        LocalICA(2, random_state=0).fit(X).inverse_transform(np.ones((5, 3)))


def test_one_component_of_one_feature():
    """The smallest case works: one feature is its own component."""
    X = np.random.default_rng(0).laplace(size=(100, 1))
    for solver in SOLVERS:
        local = LocalICA(solver=solver, random_state=0).fit(X)
        assert local.atoms_.tolist() == [[1.0]]


def test_a_loop_over_clients_says_a_thing_once():
    """Twelve equal sentences at one line are one, where filters are as Python's are; another sentence is said too."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for k in range(12):
            X = rng.laplace(size=(200, 4))
            X[:, 3 if k < 11 else 2] = 1.0
            LocalICA(2, random_state=0).fit(X)
    assert sorted(str(warning.message).split(":")[1][:10] for warning in caught) == [" column 2.", " column 3."]
    assert {warning.filename for warning in caught} == {__file__}

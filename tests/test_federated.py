"""The whole federation on one machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedica import FederatedICA, LocalICA, refine, score
from fedica.errors import DataError, DataWarning, OptionError
from fedica.evaluate import recovery_error
from fedica.matching import match
from fedica.simulate import federation as simulated


@pytest.fixture(scope="module")
def federation():
    """Eight clients, three Laplace sources in five channels."""
    rng = np.random.default_rng(0)
    sources = rng.laplace(size=(8000, 3))
    mixing = rng.standard_normal((5, 3))
    return sources @ mixing.T + 2.0, np.arange(8000) % 8, sources, mixing / np.linalg.norm(mixing, axis=0)


def error(found, truth):
    matched = match(found, truth)
    return np.linalg.norm(found * matched.signs - truth[:, matched.labels]) / np.sqrt(truth.shape[1])


def test_the_federation_beats_its_clients(federation):
    """The global matrix is nearer to the truth than a typical client's own."""
    X, groups, _, truth = federation
    fed = FederatedICA(n_components=3, random_state=0).fit(X, groups=groups)
    alone = [error(c.atoms, truth) for c in fed.contributions_]
    assert error(fed.atoms_, truth) < 0.7 * np.median(alone)


def test_transform_recovers_the_sources(federation):
    """Sources come back up to order, sign and scale, and mix back to the data."""
    X, groups, sources, _ = federation
    fed = FederatedICA(n_components=3, random_state=0).fit(X, groups=groups)
    S = fed.transform(X)
    correlation = np.abs(np.corrcoef(S.T, sources.T)[:3, 3:])
    assert correlation.max(axis=0).min() > 0.99
    assert np.abs(fed.inverse_transform(S) - X).max() < 0.1 * X.std()
    assert S.mean() == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_number_of_jobs_and_the_order_of_rows_within_clients_of_others_do_not_matter(federation, n_jobs):
    """A client's contribution depends on its own rows alone, and the result on the contributions alone."""
    X, groups, _, _ = federation
    one = FederatedICA(n_components=3, random_state=3).fit(X, groups=groups)
    order = np.argsort(groups, kind="stable")[::-1].reshape(8, -1)[:, ::-1].ravel()  # clients in another order
    other = FederatedICA(n_components=3, random_state=3, n_jobs=n_jobs).fit(X[order], groups=groups[order])
    assert np.allclose(one.mixing_, other.mixing_, atol=1e-12)


def test_one_client_is_local_ica(federation):
    """Without groups all rows are one client's, and its atoms are the result."""
    X, _, _, _ = federation
    with pytest.warns(DataWarning, match="one client"):
        fed = FederatedICA(n_components=3, random_state=0).fit(X)
    local = LocalICA(n_components=3, random_state=0).fit(X)
    assert error(fed.atoms_, local.atoms_) < 1e-3
    assert fed.aggregate_.clients == ("client",)


def test_clients_in_the_place_of_y_are_warned_of(federation):
    """scikit-learn passes y second, which is ignored: the warning names the argument that was meant."""
    X, groups, _, _ = federation
    with pytest.warns(DataWarning, match=r"all 8000 rows belong to one client.*groups="):
        FederatedICA(n_components=3, random_state=0).fit(X, groups)


@pytest.mark.parametrize("settings", [{}, {"mixing": "orthogonal"}, {"independence": "features"}])
def test_sources_are_on_the_scale_of_a_client(federation, settings):
    """Variance one for general mixing, unit columns otherwise; the same in LocalICA, and the data comes back."""
    X, groups, _, _ = federation
    fed = FederatedICA(n_components=3, random_state=0, **settings).fit(X, groups=groups)
    local = LocalICA(n_components=3, random_state=0, **settings).fit(X)
    for estimator in (fed, local):
        size = estimator.transform(X).std(axis=0) if not settings else np.linalg.norm(estimator.mixing_, axis=0)
        np.testing.assert_allclose(size, 1.0, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(fed.atoms_, axis=0), 1.0)
    assert np.abs(fed.inverse_transform(fed.transform(X)) - X).max() < 0.2 * X.std()


@pytest.mark.parametrize("estimator", [LocalICA(2), FederatedICA(2)])
def test_objects_of_other_libraries_are_refused_with_what_to_call(estimator):
    """A recording or an AnnData has channels or genes where an array has columns."""
    anndata = pytest.importorskip("anndata")
    with pytest.raises(DataError, match=r"got AnnData of anndata\. Call fedica\.readers\.as_table"):
        estimator.fit(anndata.AnnData(np.ones((4, 2))))


def test_names_of_clients_and_features_travel(federation):
    """DataFrame columns become features; group values become clients."""
    X, groups, _, _ = federation
    frame = pd.DataFrame(X, columns=list("abcde"))
    fed = FederatedICA(n_components=3, random_state=0).fit(frame, groups=[f"hospital-{g}" for g in groups])
    assert fed.aggregate_.terms.features == tuple("abcde")
    assert fed.aggregate_.clients[0] == "hospital-0"
    assert list(fed.get_feature_names_out()) == ["federatedica0", "federatedica1", "federatedica2"]


def test_groups_of_the_wrong_length(federation):
    """One client for each row, not more, not fewer."""
    X, groups, _, _ = federation
    with pytest.raises(DataError, match=r"groups must name the client of each of the 8000 rows .* got shape \(7999,\)"):
        FederatedICA(n_components=3).fit(X, groups=groups[1:])


def test_a_client_with_too_few_rows_is_named_or_left_out(federation):
    """on_bad="raise" names it; "reject" goes on without it and says so."""
    X, groups, _, _ = federation
    groups = groups.copy()
    groups[:3] = 99
    with pytest.raises(DataError, match="client '99'"):
        FederatedICA(n_components=3).fit(X, groups=groups)
    fed = FederatedICA(n_components=3, on_bad="reject", random_state=0).fit(X, groups=groups)
    assert [r.client for r in fed.rejected_] == ["99"]
    assert len(fed.aggregate_.clients) == 8


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "mean"}, "method must be one of"),
        ({"on_bad": "skip"}, "on_bad must be"),
        ({"solver": "x"}, "solver"),
    ],
)
def test_unknown_options(federation, options, sentence):
    """Each says what there is."""
    X, groups, _, _ = federation
    with pytest.raises(OptionError, match=sentence):
        FederatedICA(n_components=3, **options).fit(X, groups=groups)


def test_data_that_is_not_finite(federation):
    """A NaN is refused in the name of its client; where bad clients are left out, nothing of that client is used."""
    X, groups, _, truth = federation
    spoilt = X.copy()
    spoilt[3, 1] = np.nan
    with pytest.raises(DataError, match=r"client '3': .*NaN"):
        FederatedICA(n_components=3).fit(spoilt, groups=groups)
    fed = FederatedICA(n_components=3, on_bad="reject", random_state=0).fit(spoilt, groups=groups)
    assert [r.client for r in fed.rejected_] == ["3"]
    assert error(fed.atoms_, truth) < 0.05
    np.testing.assert_allclose(fed.mean_, X[groups != 3].mean(axis=0))
    with pytest.raises(DataError, match="NaN"):
        fed.transform(spoilt)


@pytest.mark.parametrize("nobody", [None, np.nan, pd.NA, pd.NaT])
def test_rows_of_nobody_are_refused(federation, nobody):
    """A missing label would make a client of its own out of rows that belong to others."""
    X, groups, _, _ = federation
    labels = pd.Series(groups, dtype=object)
    labels[[7, 9]] = nobody
    with pytest.raises(DataError, match="2 of 8000 are missing, the first at row 7"):
        FederatedICA(n_components=3).fit(X, groups=labels)


@pytest.mark.parametrize("as_labels", [pd.Categorical, pd.Series, list, lambda g: g.astype("S1")])
def test_groups_in_any_form(federation, as_labels):
    """Categories, a Series, a list, bytes: the same clients."""
    X, groups, _, _ = federation
    plain = FederatedICA(n_components=3, random_state=0).fit(X, groups=groups)
    other = FederatedICA(n_components=3, random_state=0).fit(X, groups=as_labels(groups))
    assert other.aggregate_.clients == plain.aggregate_.clients
    assert np.array_equal(other.mixing_, plain.mixing_)


def test_sources_of_another_width_are_refused(federation):
    """inverse_transform wants one column a component."""
    X, groups, _, _ = federation
    with pytest.raises(DataError, match=r"shape \(n_samples, 3\).*got \(5, 2\)"):
        FederatedICA(n_components=3, random_state=0).fit(X, groups=groups).inverse_transform(np.ones((5, 2)))


def test_a_source_of_blocks_is_unmixed_block_by_block(federation):
    """A list of blocks gives what the rows at once give, when it is asked for."""
    X, groups, _, _ = federation
    fed = FederatedICA(n_components=3, random_state=0).fit(X, groups=groups)
    blocks = fed.transform([X[:3000], X[3000:]])
    np.testing.assert_allclose(np.concatenate(list(blocks)), fed.transform(X), atol=1e-12)


def test_a_second_round_is_refine_with_every_clients_scores():
    """Twice the messages, less error; also of clients that are too small for a first message."""
    sim = simulated(40, 5, n_samples=[4] * 5 + [100] * 35, law="laplace", condition=4.0, random_state=2)
    names = np.array([client.name for client in sim.clients])[sim.groups]
    settings = {"n_components": 5, "on_bad": "reject", "random_state": 0}
    once = FederatedICA(**settings).fit(sim.X, groups=names)
    twice = FederatedICA(**settings, rounds=2).fit(sim.X, groups=names)
    scores = [score(client.X, once.aggregate_, client=client.name) for client in sim.clients]
    np.testing.assert_array_equal(twice.atoms_, refine(once.aggregate_, scores).mixing)
    assert once.aggregate_.refinement is None
    assert twice.aggregate_.refinement.taken
    errors = [recovery_error(fed.atoms_, sim.mixing).relative for fed in (once, twice)]
    assert errors[1] < errors[0]
    np.testing.assert_allclose(twice.transform(sim.X).std(axis=0), 1.0, atol=0.05)


def test_rounds_are_checked_before_anything_is_fitted():
    """A whole number of at least one; one for maps over features."""
    with pytest.raises(OptionError, match="rounds must be a whole number of at least 1"):
        FederatedICA(3, rounds=0).fit(np.zeros((4, 3)))
    with pytest.raises(OptionError, match="rounds must be 1"):
        FederatedICA(3, rounds=2, independence="features").fit(np.zeros((4, 3)))

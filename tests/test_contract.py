"""scikit-learn to the letter: what both estimators promise to pipelines, searches, DataFrames and pickles."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedica import FederatedICA, LocalICA
from fedica.errors import DataError
from fedica.local import SOLVERS

pytestmark = pytest.mark.filterwarnings(
    "ignore:FederatedICA. all .* belong to one client"
)  # scikit-learn has no groups

SETTINGS = [
    *(LocalICA(solver=solver) for solver in SOLVERS),
    LocalICA(independence="features"),
    LocalICA(mixing="orthogonal"),
    LocalICA(n_components=2),
    FederatedICA(),
    FederatedICA(method="srf-ica", solver="l4"),
    FederatedICA(method="naive-median", solver="kurtosis"),
    FederatedICA(independence="features"),
    FederatedICA(mixing="orthogonal"),
    FederatedICA(n_components=2, on_bad="reject"),
]
BOTH = [LocalICA(2, random_state=0), FederatedICA(2, random_state=0)]


@pytest.fixture(scope="module")
def frame():
    """Two Laplace sources in three named channels, an index that is not 0, 1, 2, ..."""
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(600, 2)) @ rng.standard_normal((2, 3)) + 5.0
    return pd.DataFrame(X, columns=["Fz", "Cz", "Pz"], index=np.arange(600) * 10)


@pytest.fixture(scope="module")
def hospitals(frame):
    """Four clients, by turns."""
    return np.array([f"hospital-{k % 4}" for k in range(len(frame))])


@pytest.fixture(scope="module")
def ill(frame):
    """Something to learn: whether the first source is large."""
    return (LocalICA(2, random_state=0).fit(frame.to_numpy()).transform(frame.to_numpy())[:, 0] > 0).astype(int)


@parametrize_with_checks(SETTINGS)
def test_scikit_learn_checks(estimator, check):
    """scikit-learn's own checks for every solver and setting; none is expected to fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn fits on a handful of samples
        check(estimator)


def test_no_check_is_skipped():
    """With array-API support switched on, which needs a process of its own, every single check passes."""
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from fedica import FederatedICA, LocalICA\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "results = [r for e in (LocalICA(), FederatedICA()) for r in check_estimator(e, on_fail=None, on_skip=None)]\n"
        "print(len(results), [(r['check_name'], r['status']) for r in results if r['status'] != 'passed'])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )
    count, _, not_passed = result.stdout.partition(" ")
    assert int(count) > 60
    assert not_passed.strip() == "[]"


@pytest.mark.parametrize("estimator", BOTH)
def test_sources_are_labelled(estimator, frame):
    """get_feature_names_out numbers the sources; set_output gives a DataFrame with them and the rows' own index."""
    names = [f"{type(estimator).__name__.lower()}{k}" for k in range(2)]
    plain = clone(estimator).fit(frame)
    assert plain.get_feature_names_out().tolist() == names
    labelled = clone(estimator).set_output(transform="pandas").fit(frame).transform(frame)
    pd.testing.assert_frame_equal(labelled, pd.DataFrame(plain.transform(frame), columns=names, index=frame.index))
    pd.testing.assert_frame_equal(clone(estimator).set_output(transform="pandas").fit_transform(frame), labelled)
    np.testing.assert_allclose(plain.inverse_transform(labelled), frame, atol=1e-8)


@pytest.mark.parametrize("estimator", BOTH)
def test_features_are_those_that_were_fitted(estimator, frame):
    """Other names or another order are refused; an array instead of a DataFrame is taken with a warning."""
    fitted = clone(estimator).fit(frame)
    assert fitted.feature_names_in_.tolist() == ["Fz", "Cz", "Pz"]
    assert fitted.n_features_in_ == 3
    with pytest.raises(DataError, match="in the same order"):
        fitted.transform(frame[["Pz", "Cz", "Fz"]])
    with pytest.raises(DataError, match="Oz"):
        fitted.transform(frame.rename(columns={"Pz": "Oz"}))
    with pytest.raises(DataError, match=r"2 features, but .* is expecting 3"):
        clone(estimator).fit(frame.to_numpy()).transform(frame.to_numpy()[:, :2])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        bare = fitted.transform(frame.to_numpy())
    assert np.array_equal(bare, fitted.transform(frame))


@pytest.mark.parametrize("estimator", BOTH)
def test_single_precision_stays_outside_and_is_solved_in_double(estimator, frame):
    """float32 in, float32 out, both ways; what is learned is float64 and equals that of the same numbers in float64."""
    single = frame.to_numpy(dtype=np.float32)
    one, other = (clone(estimator).fit(X) for X in (single, single.astype(np.float64)))
    for name in ("mixing_", "components_", "mean_"):
        assert getattr(one, name).dtype == np.float64
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10, atol=1e-12)
    sources = one.transform(single)
    assert sources.dtype == np.float32
    assert one.inverse_transform(sources).dtype == np.float32
    assert other.inverse_transform(other.transform(single.astype(np.float64))).dtype == np.float64


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [LocalICA, FederatedICA])
def test_not_settling_is_warned_of_with_numbers_and_a_remedy(kind, solver, frame, hospitals):
    """scikit-learn's class; the tolerance, the iterations, what to change. Who changes it is not warned any more."""
    X, fit = frame.to_numpy(), {} if kind is LocalICA else {"groups": hospitals}
    hasty = kind(solver=solver, n_components=2, max_iter=1, tol=1e-13, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hasty.fit(X, **fit)
    (issue,) = caught
    assert issue.category is ConvergenceWarning
    assert issue.filename == __file__
    sentence = str(issue.message)
    assert "1.0e-13" in sentence
    assert "max_iter=1 " in sentence
    assert "raise max_iter or tol" in sentence
    if fit:
        assert "of 4 clients ('hospital-0', " in sentence
    hasty.set_params(max_iter=500, tol=1e-6).fit(X, **fit)  # warnings are errors here


def test_a_federation_warns_once_of_each_kind_whoever_it_is_about(frame, hospitals):
    """Constant channels of two clients: one warning; the same from worker processes."""
    X = frame.to_numpy(copy=True)
    for client in ("hospital-1", "hospital-2"):
        X[hospitals == client, 1] = 3.0
    for n_jobs in (1, 2):
        with pytest.warns(UserWarning, match=r"^2 of 4 clients \('hospital-1', 'hospital-2'\); of the") as caught:
            FederatedICA(1, n_jobs=n_jobs, random_state=0).fit(X, groups=hospitals)
        assert len(caught) == 1
        assert "features are constant" in str(caught[0].message)


@pytest.mark.parametrize("estimator", BOTH)
def test_clones_copies_and_pickles(estimator, frame, tmp_path):
    """A clone has the parameters and is not fitted; pickles, joblib files and copies do as the original, bit by bit."""
    fitted = clone(estimator).fit(frame)
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    twins = [
        pickle.loads(pickle.dumps(fitted)),  # noqa: S301 - our own
        joblib.load(tmp_path / "fitted.joblib"),
        copy.deepcopy(fitted),
    ]
    for twin in twins:
        assert np.array_equal(twin.transform(frame), fitted.transform(frame))
        assert twin.get_params() == fitted.get_params()
    bare = clone(fitted)
    assert bare.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        bare.transform(frame)


@pytest.mark.parametrize("kind", [LocalICA, FederatedICA])
def test_parameters_are_kept_as_given(kind):
    """Every argument of the constructor is a parameter, and none is looked at before fit."""
    for name in inspect.signature(kind).parameters:
        strange = object()
        assert kind(**{name: strange}).get_params()[name] is strange


def test_what_a_pickled_federation_knows_is_there_too(frame, hospitals):
    """Contributions, trust and rejections survive the trip."""
    fed = FederatedICA(2, random_state=0).fit(frame, groups=hospitals)
    again = pickle.loads(pickle.dumps(fed))  # noqa: S301 - our own
    assert repr(again.aggregate_) == repr(fed.aggregate_)
    assert [c.client for c in again.contributions_] == [c.client for c in fed.contributions_]
    assert all(np.array_equal(a.atoms, b.atoms) for a, b in zip(again.contributions_, fed.contributions_, strict=True))


@pytest.fixture
def routing():
    """Metadata routing for one test."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_groups_are_routed_through_a_pipeline(frame, hospitals, ill):
    """Who asks for groups gets them, in the middle of a pipeline too; who did not say is told to."""
    fed = FederatedICA(2, random_state=0)
    with pytest.raises(UnsetMetadataPassedError, match="groups"):
        make_pipeline(StandardScaler(), clone(fed), LogisticRegression()).fit(frame, ill, groups=hospitals)
    pipe = make_pipeline(StandardScaler(), fed.set_fit_request(groups=True), LogisticRegression())
    pipe.fit(frame, ill, groups=hospitals)
    assert pipe[1].aggregate_.clients == ("hospital-0", "hospital-1", "hospital-2", "hospital-3")
    alone = FederatedICA(2, random_state=0).fit(StandardScaler().fit_transform(frame), groups=hospitals)
    np.testing.assert_array_equal(pipe[1].mixing_, alone.mixing_)
    deaf = make_pipeline(clone(fed).set_fit_request(groups=False), LogisticRegression())
    with pytest.raises(TypeError, match="groups"):
        deaf.fit(frame, ill, groups=hospitals)


@pytest.mark.usefixtures("routing")
def test_groups_are_routed_through_a_search(frame, hospitals, ill):
    """One argument serves the splitter, which keeps clients whole, and the federation, which has those of the fold."""
    pipe = make_pipeline(FederatedICA(random_state=0).set_fit_request(groups=True), LogisticRegression())
    search = GridSearchCV(pipe, {"federatedica__n_components": [1, 2]}, cv=GroupKFold(2), error_score="raise")
    search.fit(frame, ill, groups=hospitals)
    assert search.best_params_ == {"federatedica__n_components": 2}
    assert len(search.best_estimator_[0].aggregate_.clients) == 4
    folds = {"cv": LeaveOneGroupOut(), "params": {"groups": hospitals}}
    scores = cross_validate(pipe, frame, ill, **folds, return_estimator=True, error_score="raise")
    seen = [set(fitted[0].aggregate_.clients) for fitted in scores["estimator"]]
    assert seen == [set(hospitals) - {client} for client in sorted(set(hospitals))]
    assert scores["test_score"].min() > 0.9


def test_groups_reach_the_federation_without_routing(frame, hospitals, ill):
    """The older way: the step's name, two underscores, the argument; the rows of each fold get their own groups."""
    pipe = make_pipeline(FederatedICA(2, random_state=0), LogisticRegression())
    pipe.fit(frame, ill, federatedica__groups=hospitals)
    assert len(pipe[0].aggregate_.clients) == 4
    search = GridSearchCV(pipe, {"federatedica__method": ["consensus", "srf-ica"]}, cv=3, error_score="raise")
    search.fit(frame, ill, federatedica__groups=hospitals)
    assert len(search.best_estimator_[0].aggregate_.clients) == 4
    assert search.best_score_ > 0.9
    direct = FederatedICA(2, random_state=0).fit_transform(frame, groups=hospitals)
    np.testing.assert_array_equal(direct, pipe[0].transform(frame))

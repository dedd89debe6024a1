"""A client's own fit: what it notices of columns is said by their names."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import DataError
from fedica.local import LocalICA
from fedica.workflow import contribute
from fedica.workflow.fit import doubt_note, fit_client

NAMES = ("Fz", "column 3", "Cz", "ECG", "Pz")


@pytest.fixture
def data():
    X = np.random.default_rng(0).laplace(size=(500, 5))
    X[:, [1, 3]] = 7.0
    return X


def test_constant_columns_are_noticed_by_their_names(data):
    """Also where a name looks like a column's number; without names by their numbers."""
    notes = fit_client(data, 3, at_most=False, features=NAMES, random_state=0)[1]
    assert notes == (
        "2 of 5 features are constant and get zero in every atom: 'column 3', 'ECG'. Leave them out to silence this.",
    )
    assert "column 1, column 3." in fit_client(data, 3, at_most=False, random_state=0)[1][0]


@pytest.mark.parametrize("at_most", [False, True])
def test_a_value_that_is_not_finite_is_refused_by_the_name_of_its_column(data, at_most):
    """The error carries the place as data."""
    data[20, 3] = np.nan
    with pytest.raises(DataError, match=r"1 NaN and 0 infinite values, the first at row 20, 'ECG'\. ") as caught:
        fit_client(data, 3, at_most=at_most, features=NAMES)
    assert caught.value.kind == "not-finite"
    assert (caught.value.numbers["row"], caught.value.numbers["columns"]) == (20, (3,))


def test_other_errors_are_said_as_they_are(data):
    """What is not about a column needs no name."""
    with pytest.raises(DataError, match="n_components=4 is above the rank") as caught:
        fit_client(data, 4, at_most=False, features=NAMES)
    assert caught.value.kind == "unusable-data"
    assert fit_client(data, 4, at_most=True, features=NAMES)[1][0].startswith("the data has 3 independent directions")


@pytest.mark.parametrize("solver", ["auto", "fastica"])
def test_remedies_that_no_command_has_are_not_named(solver):
    """A fit that does not settle is noted with what a client can do."""
    X = np.random.default_rng(0).standard_normal((300, 4))
    (note,) = fit_client(X, 4, at_most=False, solver=solver, tol=1e-13, max_iter=1, random_state=0)[1]
    assert "raise" not in note
    assert note.endswith("bring more samples, or ask for fewer components.")


@pytest.fixture
def half_gaussian():
    """Five sources seen each mostly by one column; those of the second and the fourth are Gaussian."""
    rng = np.random.default_rng(0)
    sources = rng.laplace(size=(20_000, 5)) / np.sqrt(2.0)
    sources[:, [1, 3]] = rng.standard_normal((20_000, 2))
    return sources @ (np.eye(5) + 0.1).T


def test_components_that_the_data_does_not_determine_are_noted_by_name_and_number(half_gaussian):
    """By the features at which they are largest; nothing is said where all are determined."""
    local = LocalICA(5, random_state=0).fit(half_gaussian)
    (note,) = doubt_note(local, NAMES)
    assert note.startswith("the data does not tell 2 of the 5 components apart")
    named = {NAMES[k] for k in range(5) if repr(NAMES[k]) in note}
    assert named <= {"column 3", "ECG"}
    assert named
    assert f"is {local.doubts_[0].degrees:.0f} degrees" in note
    assert "largest at columns [" in doubt_note(local, None)[0]
    determined = np.random.default_rng(0).laplace(size=(20_000, 5))
    assert doubt_note(LocalICA(5, random_state=0).fit(determined), NAMES) == ()


def test_a_client_is_told_of_them_and_its_message_marks_them(half_gaussian, tmp_path):
    """Among the notes of the command."""
    np.savetxt(tmp_path / "a.csv", half_gaussian, delimiter=",", header="a,b,c,d,e", comments="")
    sent = contribute(tmp_path / "a.csv", client="x")
    assert any(note.startswith("the data does not tell 2 of the 5") for note in sent.notes)
    assert len(sent.contribution.uncertain) == 2

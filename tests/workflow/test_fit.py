"""A client's own fit: what it notices of columns is said by their names."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import DataError
from fedica.workflow.fit import fit_client

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

"""Records refuse what cannot be, and cannot be changed afterwards."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fedica import Contribution, Study
from fedica.errors import ContributionError, InputError


def test_atoms_are_scaled_to_one_and_cannot_be_written():
    """A contribution is frozen all the way down."""
    contribution = Contribution("a", [[3.0, 0.0], [4.0, 2.0]], 10)
    assert np.allclose(np.linalg.norm(contribution.atoms, axis=0), 1)
    with pytest.raises(ValueError, match="read-only"):
        contribution.atoms[0, 0] = 1.0
    with pytest.raises(AttributeError):
        contribution.client = "b"


def test_unit_atoms_are_kept_bit_by_bit():
    """What was written is what is read."""
    atoms = np.linalg.qr(np.random.default_rng(0).standard_normal((7, 3)))[0]
    assert np.array_equal(Contribution("a", atoms, 10).atoms, atoms)


def test_pickling_keeps_everything():
    """Contributions travel between worker processes."""
    one = Contribution("a", np.eye(2), None, features=["x", "y"], study="s", extra={"note": "1"})
    other = pickle.loads(pickle.dumps(one))  # noqa: S301 - our own
    assert (other.client, other.features, other.study, other.extra["note"]) == ("a", ("x", "y"), "s", "1")
    error = pickle.loads(pickle.dumps(ContributionError("what", "who")))  # noqa: S301 - our own
    assert (str(error), error.client) == ("what", "who")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"client": ""}, "a client's name must be a text that is not empty"),
        ({"client": "a\nb"}, "may not contain control characters"),
        ({"client": "a" * 201}, "at most 200 characters; 201 came"),
        ({"client": 7}, "must be a text"),
        ({"atoms": np.ones(3)}, r"must have shape \(n_features, n_atoms\)"),
        ({"atoms": np.ones((2, 0))}, "neither of them zero"),
        ({"atoms": [["x", "y"], ["z", "w"]]}, "must be numbers"),
        ({"atoms": np.eye(2) * 1j}, "must be real"),
        ({"atoms": np.array([[np.inf, 0], [0, 1]])}, "0 NaN and 1 infinite"),
        ({"n_samples": 0}, "n_samples must be a whole number of at least 1; 0 came"),
        ({"n_samples": 2.5}, "n_samples must be a whole number"),
        ({"features": ["x"]}, "names 1 features, but its atoms have 2"),
        ({"features": ["x", "x"]}, "'x' came more than once"),
        ({"features": "xy"}, "must be a list of names"),
        ({"independence": "time"}, "independence must be one of"),
        ({"mixing": "any"}, "mixing must be one of"),
    ],
)
def test_a_bad_field_is_one_clear_sentence(fields, sentence):
    """Who, what was wanted, what came."""
    with pytest.raises(ContributionError, match=sentence):
        Contribution(**{"client": "a", "atoms": np.eye(2), "n_samples": 10, **fields})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"id": " "}, "a study's id must be a text"),
        ({"features": []}, "at least one feature"),
        ({"units": ["V"]}, "one of units per feature: 2 were wanted, 1 came"),
        ({"scales": [1.0, -1.0]}, "scale must be a number above 0"),
        ({"n_components": 3}, "at most 2; 3 came"),
        ({"min_samples": 1}, "at least 2; 1 came"),
        ({"declare_samples": "maybe"}, "declare_samples must be one of"),
    ],
)
def test_a_bad_study_is_refused(fields, sentence):
    """A study is checked when it is made, not when a client trips over it."""
    with pytest.raises(InputError, match=sentence):
        Study(**{"id": "s", "features": ["x", "y"], **fields})

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


@pytest.mark.parametrize("scale", [1e-200, 1e-13, 1e200])
def test_atoms_are_directions_in_whatever_unit(scale):
    """Tesla are very small numbers, and squares of very large ones are infinite."""
    atoms = np.linalg.qr(np.random.default_rng(0).standard_normal((7, 3)))[0] * [1.0, 0.5, 1e-6]
    scaled = Contribution("a", scale * atoms, 10).atoms
    np.testing.assert_allclose(scaled, atoms / np.linalg.norm(atoms, axis=0), rtol=1e-12)


def test_messages_show_no_value_of_the_data():
    """What cannot be a number may be a name."""
    with pytest.raises(ContributionError) as caught:
        Contribution("a", [["Alice", "1"], ["2", "3"]], 10)
    assert "Alice" not in str(caught.value)


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


def test_a_gram_matrix_of_low_rank_is_one_to_rounding():
    """Positive semidefinite means to rounding, whatever the scale; the numbers stay as they are."""
    half = np.random.default_rng(0).standard_normal((2, 5)) * 1e-150
    gram = half.T @ half
    assert np.array_equal(Contribution("a", np.eye(5), 10, gram=gram).gram, gram)
    assert not np.any(Contribution("a", np.eye(5), 10, gram=np.zeros((5, 5))).gram)


def test_what_was_kept_in_extra_becomes_a_field():
    """Code written for fedica 0.1.0 says `reference` and `grid` in ``extra``."""
    one = Contribution("a", np.eye(2), 10, extra={"reference": "average", "grid": "2 mm", "note": "1"})
    assert (one.reference, one.grid, dict(one.extra)) == ("average", "2 mm", {"note": "1"})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"client": ""}, "a client's name must be a text that is not empty"),
        ({"client": "a\nb"}, "may not contain control characters"),
        ({"client": "a" * 201}, "at most 200 characters; got 201"),
        ({"client": 7}, "must be a text"),
        ({"atoms": np.ones(3)}, r"must have shape \(n_features, n_atoms\)"),
        ({"atoms": np.ones((2, 0))}, "neither of them zero"),
        ({"atoms": [["x", "y"], ["z", "w"]]}, "must be numbers"),
        ({"atoms": np.eye(2) * 1j}, "must be real"),
        ({"atoms": np.zeros((2, 2), "datetime64[D]")}, r"must be numbers; got dates or times \(datetime64\[D\]\)"),
        ({"atoms": np.ma.array(np.eye(2), mask=[[1, 0], [0, 0]])}, "must have no masked values; got 1"),
        ({"atoms": np.ones((2, 3))}, "sends 3 atoms of 2 features; a contribution has at most as many"),
        ({"atoms": np.diag([1.0, 1e-13])}, "atom 1 is zero"),
        ({"atoms": np.array([[np.inf, 0], [0, 1]])}, "0 NaN and 1 infinite"),
        ({"n_samples": 0}, "n_samples must be a whole number of at least 1; got 0"),
        ({"n_samples": 2.5}, "n_samples must be a whole number"),
        ({"features": ["x"]}, "names 1 features, but its atoms have 2"),
        ({"features": ["x", "x"]}, "got 'x' more than once"),
        ({"features": "xy"}, "must be a list of names"),
        ({"independence": "time"}, "independence must be one of"),
        ({"mixing": "any"}, "mixing must be one of"),
        ({"study": ""}, "study must be a text that is not empty"),
        ({"reference": "a\tb"}, "reference may not contain control characters"),
        ({"grid": "x" * 1001}, "grid may have at most 1000 characters; got 1001"),
        ({"extra": {"grid": ""}}, "client 'a': grid must be a text that is not empty"),
        ({"extra": {"grid": "2 mm"}, "grid": "3 mm"}, "grid is given twice, as a field and in extra"),
        ({"extra": {"note": "x" * 65_536}}, "extra may have at most 65536 bytes as JSON; got 65548. Send less along"),
        ({"extra": {"note": "\u00e9" * 33_000}}, "extra may have at most 65536 bytes as JSON"),
        ({"extra": ["grid"]}, "extra must be a mapping from text to text"),
        ({"gram": np.eye(3)}, "gram must have a row for each of the 2 atoms; got 3"),
        ({"gram": np.ones((2, 3))}, r"gram must be a square matrix; got shape \(2, 3\)"),
        ({"gram": [[1, 2], [0, 1]]}, "gram must be symmetric, to 1e-09 of its largest entry"),
        ({"gram": [[1, 2], [2, 1]]}, "gram must be positive semidefinite, to 1e-09 of its largest entry"),
        ({"gram": [[1, np.nan], [np.nan, 1]]}, "gram must be finite"),
        ({"gram": np.eye(2), "noise_floor": -1}, "noise_floor must be at least 0; got -1"),
        ({"gram": np.eye(2), "noise_floor": np.inf}, "noise_floor must be a number"),
        ({"noise_floor": 1.0}, "noise_floor belongs to gram; got noise_floor alone"),
        ({"uncertain": [0, 2]}, "uncertain must be indices of its 2 atoms; got 2"),
        ({"uncertain": [0, 0]}, "uncertain must be distinct whole numbers"),
        ({"uncertain": "01"}, "uncertain must be a list of whole numbers"),
        ({"uncertain": [-1]}, "uncertain must be a whole number of at least 0"),
        ({"persons": 0}, "persons must be a whole number of at least 1"),
        ({"preprocessing": "1 Hz"}, "preprocessing must be a mapping from text to text"),
        ({"preprocessing": {"a": "x" * 10_000}}, "preprocessing may have at most 10000 characters in all; got 10001"),
        ({"serial": -1}, "serial must be a whole number of at least 0"),
    ],
)
def test_a_bad_field_is_one_clear_sentence(fields, sentence):
    """Who, what was expected, what was got."""
    with pytest.raises(ContributionError, match=sentence):
        Contribution(**{"client": "a", "atoms": np.eye(2), "n_samples": 10, **fields})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"id": " "}, "a study's id must be a text"),
        ({"features": []}, "at least one feature"),
        ({"units": ["V"]}, "units must be one per feature: expected 2, got 1"),
        ({"scales": [1.0, -1.0]}, "scale must be a number above 0"),
        ({"n_components": 3}, "at most 2; got 3"),
        ({"min_samples": 1}, "at least 2; got 1"),
        ({"declare_samples": "maybe"}, "declare_samples must be one of"),
    ],
)
def test_a_bad_study_is_refused(fields, sentence):
    """A study is checked when it is made, not when a client trips over it."""
    with pytest.raises(InputError, match=sentence):
        Study(**{"id": "s", "features": ["x", "y"], **fields})

"""Reasons are data: a kind and its numbers, put into words in one place."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fedica.errors import ContributionError, DataWarning, FormatError, InputError
from fedica.records import Reason, Rejection
from fedica.records.reasons import sentence_of
from fedica.records.wordings import DATA_KINDS, KINDS

FACTS = {
    "angle": 12.34,
    "n_atoms": 10,
    "n_unmatched": 2,
    "missing": (1, 4),
    "n_samples": 300,
    "n_copies": 3,
    "n_agreeing": 2,
    "n_uncertain": 4,
    "method": "naive-mean",
    "client": "a {name}",
    "n_contributions": 2,
    "n_rejected": 7,
    "term": "mixing",
    "step": "",
    "value": "general",
    "agreed": "orthogonal",
    "n_clients": 5,
    "values": ("general", "orthogonal"),
    "counts": (3, 3),
    "features": ("Fp1", "Cz"),
    "n_features": 12,
    "n_wanted": 14,
    "n_needed": 13,
    "columns": (3, 5),
    "likeness": 0.977,
    "mean_likeness": 0.35,
    "usual_likeness": 0.72,
    "mean_chance": 0.3,
    "chance": 0.59,
    "n_matched": 2,
    "n_possible": 10,
    "usual_matches": (8, 9, 10),
    "explained": 0.1,
    "usual": 0.6,
    "n_nan": 1,
    "n_infinite": 0,
    "row": 7,
    "node": 12,
    "problem": "x",
    "path": "inbox",
    "key": "0c" * 32,
    "owner": "b",
    "suffix": ".safetensors",
    "refines": "0123456789ab",
    "component": 9,
    "n_components": 4,
}
HALF = "A value holds when more than half of all clients declare it."
LACKS = "; lacks components 1, 4; 2 of its 10 atoms match no component"
UNDETERMINED = "its data does not determine 4 of its 10 atoms, as it says itself"
MEASURED = " (median cosine 0.98; chance 0.59)"
COPIES = "; 3 clients sent these very atoms, and count as one"


def _sent(thing):
    """Return it as another process receives it."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_sentence(kind):
    """Whole and short; nothing is left to fill in."""
    why = Reason(kind, {**FACTS, "study": "rest"} if kind == "other-preprocessing" else FACTS)
    assert why.sentence
    assert why.short
    assert len(why.short) <= len(why.sentence)
    assert "{n_" not in why.sentence


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - DATA_KINDS.keys() - {"not-judged"}))
def test_every_kind_in_a_file_is_documented(kind):
    """The page of the format lists what other programs may meet."""
    page = Path(__file__).parents[1] / "docs" / "format.md"
    assert f"`{kind}`" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "numbers", "sentence"),
    [
        ("agrees", {"likeness": 0.521, "chance": 0.05}, "agrees with the components (median cosine 0.52; chance 0.05)"),
        ("agrees", FACTS, f"agrees with the components (median cosine 0.98; chance 0.59){LACKS}{COPIES}"),
        ("noisy", FACTS, f"noisier than most (median cosine 0.98; chance 0.59){LACKS}{COPIES}"),
        ("few-samples", FACTS, f"noisy, as its 300 samples explain (median cosine 0.98; chance 0.59){LACKS}{COPIES}"),
        ("undetermined", FACTS, f"{UNDETERMINED}{MEASURED}{LACKS}{COPIES}"),
        ("far", FACTS, f"farther from the components than its samples explain{MEASURED}{COPIES}"),
        ("few-matches", FACTS, f"matches 2 of 10 components; the other clients match 8 to 10 (median 9){COPIES}"),
        ("no-match", FACTS, f"none of its 10 atoms matches a component (median cosine 0.98; chance 0.59){COPIES}"),
        ("other-basis", FACTS, f"agrees with 2 other outlying clients on another basis, 12 degrees away{COPIES}"),
        (
            "other-basis",
            {"n_agreeing": 1, "angle": 80.0},
            "agrees with another outlying client on another basis, 80 degrees away",
        ),
        (
            "term-differs",
            FACTS,
            "client 'a {name}' declares mixing 'general'; 5 other clients have 'orthogonal'.",
        ),
        ("no-majority", FACTS, f"the clients do not agree on mixing: 3 say 'general', 3 say 'orthogonal'. {HALF}"),
    ],
)
def test_a_kind_and_its_numbers_make_the_sentence(kind, numbers, sentence):
    """Word by word: coordinators read them, and results of years are compared by them."""
    assert sentence_of(kind, numbers) == sentence


def test_samples_that_nobody_declared_explain_nothing():
    """A client that declared no samples is compared with the others alone; one sample is one sample."""
    why = Reason("far", {"likeness": 0.7, "chance": 0.6, "n_samples": 0})
    assert why.sentence == "farther from the components than the other clients (median cosine 0.70; chance 0.60)"
    assert sentence_of("few-samples", {"angle": 59.0, "n_samples": 1}, short=True) == "noisy, as its 1 sample explains"


def test_the_short_form_leaves_out_the_measurement_alone():
    """What is measured stands in the table; what a client lacks is still told."""
    assert Reason("noisy", {"angle": 3.0, "missing": (2,)}).short == "noisier than most; lacks component 2"


def test_other_numbers_make_another_sentence():
    """Also of a reason that was read from a file with its sentence."""
    read = Reason("noisy", {"angle": 3.0, "missing": (2,)}, "noisier than most, as it was once said")
    assert read.sentence == "noisier than most, as it was once said"
    assert read.changed(missing=(5,)).sentence == "noisier than most (median angle 3.0 degrees); lacks component 5"


def test_a_kind_of_another_version_keeps_its_sentence():
    """It is shown as it was written, whole, in short and after a change."""
    why = Reason("undecided", {"n_matched": 3}, "matches 3 of 10 components")
    assert [why.sentence, why.short, why.changed(n_matched=4).sentence] == ["matches 3 of 10 components"] * 3
    with pytest.raises(KeyError):
        sentence_of("undecided", {})


def test_a_rejection_is_made_from_its_kind_and_becomes_an_error():
    """Both ways, nothing is lost; also between processes."""
    rejection = Rejection.because("b", "duplicate-name", "inbox/b.safetensors", n_contributions=2)
    assert rejection.reason.startswith("client 'b' sent 2 different contributions; every client sends one.")
    assert (rejection.kind, rejection.numbers) == ("duplicate-name", {"n_contributions": 2})
    error = rejection.error("all are required. ")
    assert str(error) == f"all are required. {rejection.reason}"
    again = _sent(error)
    assert (str(again), again.client, again.kind, again.numbers) == (str(error), "b", error.kind, error.numbers)
    assert Rejection.of_error("b", rejection.error(), rejection.source) == rejection
    assert _sent(rejection) == rejection
    assert hash(rejection) == hash(_sent(rejection))


def test_errors_have_a_kind():
    """Their class's own, unless they say a nearer one; a warning too."""
    assert FormatError("x").kind == "unreadable-file"
    assert InputError("x").kind == ""
    assert ContributionError("x", "a", kind="bad-signature").kind == "bad-signature"
    error = _sent(Reason("not-finite", FACTS).error(InputError))
    assert (error.kind, error.numbers["columns"]) == ("not-finite", (3, 5))
    warning = Reason("constant-features", FACTS).error(DataWarning)
    assert isinstance(warning, UserWarning)
    assert str(warning).startswith("2 of 12 features are constant and get zero in every atom: column 3, column 5.")


def test_columns_are_called_by_their_names_where_these_are_known():
    """The names come as data, beside the columns."""
    assert Reason("constant-features", {**FACTS, "names": ("ECG", "EOG")}).sentence.endswith(
        "in every atom: 'ECG', 'EOG'. Leave them out to silence this."
    )
    assert "the first at row 7, column 3. Fill" in sentence_of("not-finite", {**FACTS, "columns": (3,)})

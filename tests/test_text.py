"""Pieces of sentences that several rooms write."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedica.errors import ContributionError
from fedica.text import MAX_SENTENCE, list_names, show_text, show_values


def test_a_few_names_are_listed_in_full():
    """Quoted, in the given order, without a count."""
    assert list_names(["b", "a"]) == "'b', 'a'"
    assert list_names(["a", "b", "c", "d", "e"]) == "'a', 'b', 'c', 'd', 'e'"
    assert list_names([]) == ""


def test_of_many_names_the_first_are_listed_and_the_others_counted():
    """So a message stays one sentence, however many names there are."""
    assert list_names(["a", "b", "c", "d", "e", "f"]) == "'a', 'b', 'c', 'd', 'e' and 1 more"
    assert list_names(["a", "b", "c"], most=1) == "'a' and 2 more"


def test_a_long_name_is_cut():
    """A name of a megabyte, from a file that somebody sent, does not fill the screen."""
    assert list_names(["x" * 1000]) == repr("x" * 60)


@given(st.text(alphabet=st.characters(), max_size=500), st.integers(40, 400))
def test_foreign_text_is_one_printable_line_of_bounded_length(text, most):
    """Whatever it holds, half a surrogate pair too; showing it again changes nothing."""
    shown = show_text(text, most)
    assert shown.isprintable()
    assert len(shown) <= most
    assert show_text(shown, most) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Größe (µV) 大阪 🏥", "Größe (µV) 大阪 🏥"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\r\tc\u2028", "a\\nb\\r\\tc\\u2028"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("a\u200bb\ufeff\u3164\ufe0f", "a\\u200bb\\ufeff\\u3164\\ufe0f"),
        ("\udcff\ud800", "\\udcff\\ud800"),
        (Path("a\nb"), "a\\nb"),
    ],
)
def test_what_is_not_drawn_is_escaped(text, shown):
    """Letters of all languages stay; controls, line breaks, marks of direction and of no width do not."""
    assert show_text(text) == shown


def test_values_of_a_sentence_are_bounded_however_they_nest():
    """Texts are cut at 300 characters, lists at 20 entries; numbers stay."""
    shown = show_values({"n": 3, "value": "x" * 10**6, "names": ["\n" * 10**5] * 1000})
    assert shown["n"] == 3
    assert len(shown["value"]) == 300
    assert len(shown["names"]) == 20
    assert max(map(len, shown["names"])) == 300


def test_every_error_is_one_printable_line():
    """Whatever it quotes: the sentence is what people see, in a terminal, a table or a log."""
    error = ContributionError("client 'a\x1b[2J\n\udcff': " + "y" * 10**6, "a")
    assert str(error).startswith("client 'a\\x1b[2J\\n\\udcff': yyy")
    assert len(str(error)) == MAX_SENTENCE
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own

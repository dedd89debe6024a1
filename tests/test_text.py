"""Pieces of sentences that several rooms write."""

from __future__ import annotations

from fedica.text import list_names


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

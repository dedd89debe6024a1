"""Names of clients: two that a reader cannot tell apart are one client."""

from __future__ import annotations

import numpy as np
import pytest

from fedica import Contribution, aggregate
from fedica.errors import ContributionError
from fedica.exchange import contribution_from_bytes, contribution_to_bytes, keygen, read_public_key
from fedica.records import check_client, client_key
from fedica.server.admission import screen

COMPOSED, DECOMPOSED = "Zürich", "Zu\u0308rich"


def test_names_are_kept_in_one_normal_form(tmp_path):
    """A name typed on one system is the same on another: in records, files and keys."""
    sent = Contribution(DECOMPOSED, np.eye(3), 10)
    assert sent.client == COMPOSED
    raw = contribution_to_bytes(sent).replace(COMPOSED.encode(), DECOMPOSED.encode()[:-1])  # as long as before
    assert contribution_from_bytes(raw).client == "Züric"
    assert read_public_key(keygen(DECOMPOSED, tmp_path)[1])[0] == COMPOSED


@pytest.mark.parametrize(
    "name", ["client-07", "Klinik Süd", "大阪 2", "Клиника", "عيادة", "site-β", "🏥 north", "O'Hara & Co."]
)
def test_ordinary_names_are_taken_as_they_are(name):
    """In any script, and in several if each word has its own."""
    assert check_client(name, "a client's name") == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nor\u200bth", r"U\+200B"),
        ("north\u202e", r"U\+202E"),
        ("\ufeffnorth", r"U\+FEFF"),
        ("north\u00a0one", r"U\+00A0"),
        ("north\u3164", r"U\+3164"),
        ("nor\x07th", "control characters"),
        ("n\u043erth", "Cyrillic and Latin"),
        ("\u0391lpha", "Greek and Latin"),
    ],
)
def test_a_name_that_is_not_what_it_looks_like_is_refused(name, told):
    """The sentence says which character it is: nobody sees it."""
    with pytest.raises(ContributionError, match=told):
        Contribution(name, np.eye(3), 10)


@pytest.mark.parametrize("twin", ["N\uff4frth 1", "North  1", "North １", " North 1"])
def test_two_clients_that_look_the_same_are_one(twin):
    """Different atoms under names that nobody can tell apart are two contributions of one client: both are refused."""
    rng = np.random.default_rng(0)
    sent = [Contribution(name, rng.standard_normal((5, 2)), 10) for name in ("North 1", twin, "South", "West")]
    assert client_key("North 1") == client_key(twin)
    screened = screen(sent)
    assert [c.client for c in screened.contributions] == ["South", "West"]
    assert {rejection.kind for rejection in screened.rejected} == {"duplicate-name"}


def test_names_of_another_script_that_are_drawn_alike_are_one():
    """Cyrillic letters in the place of Latin ones."""
    assert client_key("\u0421\u041e\u0421\u0410") == client_key("COCA")


def test_names_that_differ_visibly_are_different_clients():
    """Also in case, accents and marks."""
    names = ["north", "North", "nörth", "north-1", "north 1", "north1"]
    sent = [Contribution(name, np.eye(3), 10) for name in names]
    assert len(aggregate(sent, 3).clients) == len(names)

"""The headline: what happened, in words, for every kind of federation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedica import Contribution, aggregate
from fedica.records import Rejection
from fedica.report import headline
from fedica.report.headline import MAX_NAMED, short
from fedica.simulate.atoms import atoms_federation
from fedica.simulate.attacks import find_attack


def federation(n_clients=10, n_components=4, **options):
    return atoms_federation(n_clients, n_components, n_features=6, **options).contributions


def test_all_agree():
    """Nobody is named, the tone is good, support and spread are told."""
    result = aggregate(federation(random_state=3), 4)
    said = headline(result)
    assert str(said) == "10 of 10 clients agree on 4 components."
    assert (said.doubts, said.tone, said.warning) == ((), "good", "")
    assert said.details[0] == "The number of components, 4, was given."
    least = f"is at least {np.cos(np.radians(result.spread.max())):.2f} ({result.spread.max():.1f}°)."
    assert (
        said.details[1] == f"Every component is seen by all 10 clients; the median cosine of their atoms to it {least}"
    )


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_the_outlying_are_named_with_their_reason(share):
    """Those and no others; at most six by name, the rest by number."""
    attacked = find_attack("random-bases")(atoms_federation(30, 6, random_state=1), share, random_state=2)
    bad = {c.client for c, honest in zip(attacked.contributions, attacked.honest, strict=True) if not honest}
    said = headline(aggregate(attacked.contributions, 6))
    (group,) = said.doubts
    assert said.agreement == f"{30 - len(bad)} of 30 clients agree on 6 components"
    assert (group.verdict, group.total, said.tone) == ("outlying", len(bad), "mixed")
    assert {doubt.client for doubt in group.named} <= bad
    assert len(group.named) == min(len(bad), MAX_NAMED)
    assert f"{len(bad)} are outlying: {group.named[0].client} (none of its 6 atoms matches a component)" in str(said)
    assert str(said).endswith(f" and {len(bad) - MAX_NAMED} more." if len(bad) > MAX_NAMED else ").")


@pytest.mark.parametrize("n_clients", [2, 3])
def test_unrelated_clients_do_not_agree(n_clients):
    """Nobody agrees: that is said, and the tone is bad."""
    rng = np.random.default_rng(1)
    unrelated = [Contribution(f"c{k}", rng.standard_normal((20, 4)), 5000) for k in range(n_clients)]
    said = headline(aggregate(unrelated, 4))
    assert str(said).startswith(f"Nobody agrees: the atoms of the {n_clients} clients are no more alike than chance")
    assert said.tone == "bad"
    assert ("Two clients disagree" if n_clients == 2 else "Do not rely on it") in said.warning


def test_two_clients_that_agree_are_told_to():
    """Also where their atoms are a few degrees apart."""
    said = headline(aggregate(federation(2, random_state=3), 4))
    assert str(said) == "2 of 2 clients agree on 4 components."
    assert (said.tone, said.warning) == ("good", "")


def test_one_doubted_client_is_singular():
    """It reads "1 is outlying", with the number of its place in the federation."""
    rng = np.random.default_rng(0)
    sent = [*federation(6), Contribution("zz", rng.standard_normal((6, 4)), 5000)]
    said = headline(aggregate(sent, 4))
    assert "; 1 is outlying: zz (" in str(said)
    assert said.doubts[0].named[0].number == 6


def test_who_lacks_a_component_is_told():
    """A client that agrees but sees less is not outlying; it is told apart."""
    sent = list(federation(8))
    sent[2] = replace(sent[2], atoms=sent[2].atoms[:, :3])
    said = headline(aggregate(sent, 4))
    assert said.doubts == ()
    assert any(sent[2].client in line and "lacks components: " in line for line in said.details)
    assert said.agreement.endswith(", 1 of them in part: it lacks some or has others of its own")


def test_one_client_has_nobody_to_be_compared_with():
    """No claim of agreement."""
    said = headline(aggregate(federation(1), 4))
    assert str(said) == "One client alone sent 4 components; there is no other client to compare it with."
    assert len(said.details) == 1
    assert said.tone == "mixed"


def test_components_that_replicate_are_counted():
    """Those first, then the clients that differ; no warning while most replicate."""
    result = aggregate(federation(), 4)
    most = headline(replace(result, replicates=np.array([True, True, True, False])))
    least, highest = result.support[:3].min(), result.support[:3].max()
    clients = f"{highest}" if least == highest else f"{least} to {highest}"
    assert most.agreement == f"3 of 4 components replicate, each in {clients} of {len(result.clients)} clients"
    assert not most.warning
    none = headline(replace(result, replicates=np.zeros(4, dtype=bool)))
    assert (
        none.agreement == f"None of 4 components could be shown to replicate across the {len(result.clients)} clients"
    )


def test_half_of_the_clients_or_more_is_a_warning():
    """No method can tell who is right then, and the page says so."""
    rng = np.random.default_rng(3)
    sent = [*federation(4), *(Contribution(f"x{k}", rng.standard_normal((6, 4)), 5000) for k in range(5))]
    said = headline(aggregate(sent, 4))
    assert said.tone == "bad"
    assert "Do not rely on it" in said.warning


def test_components_that_mean_nothing_are_a_warning():
    """Centres near zero, as the naive mean can have."""
    result = aggregate(federation(), 4)
    said = headline(replace(result, centres=result.centres * [1, 0, 0, 1]))
    assert said.tone == "bad"
    assert "components 1, 2 cancel" in said.warning


def test_rejections_are_counted_and_spoil_the_best_tone():
    """One sentence among the details."""
    result = replace(aggregate(federation(), 4), rejected=(Rejection("late", "too late."),))
    said = headline(result)
    assert said.tone == "mixed"
    assert said.details[-1] == "1 contribution was rejected before aggregating."


def test_without_verdicts_nobody_is_said_to_agree():
    """A result folder of another program may hold none."""
    said = headline(replace(aggregate(federation(), 4), trust=None))
    assert str(said) == "10 clients were put together into 4 components; no client was judged."


@pytest.mark.parametrize(
    ("source", "words"), [("clients", "more than half"), ("spectrum", "gap"), ("support", "left out")]
)
def test_where_the_number_comes_from(source, words):
    """Given, agreed on, or found."""
    result = aggregate(federation(), 4)
    result = replace(result, options={**result.options, "n_components_from": source})
    assert words in headline(result).details[0]


def test_long_names_keep_both_ends():
    """48 characters at most; the end tells apart what starts alike."""
    assert short("client-07") == "client-07"
    cut = short("a" * 100 + "-07")
    assert len(cut) == 48
    assert cut.endswith("-07")
    assert "…" in cut

"""Which contributions are admitted, which are not, and why."""

from __future__ import annotations

import numpy as np
import pytest

from fedica import Contribution, Study, aggregate
from fedica.errors import ContributionError, InputError, OptionError
from fedica.records import CONTRIBUTION_FIELDS
from fedica.server import METHODS, admit
from fedica.server.admit import MUST_AGREE, screen


def contribution(client, d=3, **terms):
    return Contribution(client, np.eye(d)[:, :2], terms.pop("n_samples", 100), **terms)


def test_the_order_depends_on_the_atoms_alone():
    """Atoms of a client stay together; neither arrival nor names decide on their order, and names follow them."""
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((3, n)) for n in (2, 1, 3, 2)]
    one = admit([Contribution(name, atoms, 10) for name, atoms in zip("abcd", blocks, strict=True)])
    other = admit([Contribution(name, atoms, 10) for name, atoms in zip("dcba", blocks, strict=True)][::-1])
    assert np.array_equal(one.atoms.whole(), other.atoms.whole())
    assert np.all(np.diff(one.client_of_atom) >= 0)
    assert sorted(np.bincount(one.client_of_atom)) == [1, 2, 2, 3]
    assert [dict(zip("abcd", "dcba", strict=True))[name] for name in one.clients] == list(other.clients)


def test_swapping_names_changes_no_bit_of_the_result(make_federation):
    """What goes back to the clients cannot depend on who is called what."""
    contributions, _, _ = make_federation(5, 9, noise=0.1)
    swapped = [Contribution(b.client, a.atoms, 1000) for a, b in zip(contributions, contributions[::-1], strict=True)]
    for method in METHODS:
        one, other = aggregate(contributions, 5, method=method), aggregate(swapped, 5, method=method)
        assert np.array_equal(one.mixing, other.mixing)
        assert np.array_equal(one.spread, other.spread)


def test_the_last_digit_of_a_fit_does_not_shuffle_the_clients(make_federation):
    """Another BLAS or another number of threads at a client must not give k-means other starts."""
    contributions, _, _ = make_federation(6, 12, noise=0.25)
    noise = 1e-14 * np.random.default_rng(1).standard_normal(contributions[0].atoms.shape)
    moved = [Contribution(c.client, c.atoms + noise, c.n_samples) for c in contributions]
    assert admit(moved).clients == admit(contributions).clients


def test_the_result_lists_clients_by_name(make_federation):
    """Whatever the order of computation, rows are found where one looks for them."""
    contributions, _, _ = make_federation(4, 6)
    result = aggregate(contributions[::-1], 4)
    assert result.clients == tuple(c.client for c in contributions)
    assert result.trust.clients == result.clients
    assert np.array_equal(result.atoms, np.hstack([c.atoms for c in contributions]))


@pytest.mark.parametrize(
    ("term", "minority", "majority"),
    [("study", "s2", "s1"), ("independence", "features", "samples"), ("mixing", "orthogonal", "general")],
)
def test_who_disagrees_with_most_is_rejected_by_name(term, minority, majority):
    """Study, independence and mixing must be the same; silence agrees with everything."""
    group = [contribution(f"c{k}", **{term: majority}) for k in range(3)]
    group += [contribution("odd", **{term: minority}), contribution("silent")]
    with pytest.raises(
        ContributionError, match=f"'odd' declares {term} '{minority}'; 3 other clients have '{majority}'"
    ):
        admit(group)
    admitted = admit(group, on_bad="reject")
    assert sorted(admitted.clients) == ["c0", "c1", "c2", "silent"]
    assert [r.client for r in admitted.rejected] == ["odd"]
    assert (admitted.rejected[0].kind, admitted.rejected[0].numbers["term"]) == ("term-differs", term)
    assert getattr(admitted.terms, term) == majority


def test_no_majority_is_not_guessed():
    """One against one: nobody can say who is right."""
    group = [contribution("a"), contribution("b", d=4)]
    sentence = "the clients do not agree on n_features: 1 say 3, 1 say 4"
    with pytest.raises(ContributionError, match=f"^no contribution can be used: 2 were refused. The first: {sentence}"):
        admit(group, on_bad="reject")
    with pytest.raises(ContributionError, match=f"^{sentence}"):
        admit(group)


def test_there_must_be_something_to_admit():
    """Nothing, or something else, is refused with one sentence."""
    with pytest.raises(InputError, match="aggregate needs at least one contribution; got none"):
        admit([])
    for wrong in (["a"], iter(["a"])):
        with pytest.raises(InputError, match="aggregate takes Contribution records; got a str"):
            admit(wrong)


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({"study": "s2"}, "'odd' sent a contribution for another study: expected 's'; it is for 's2'"),
        ({"study": None}, "'odd' sent a contribution for another study: expected 's'; none is named"),
        ({"mixing": "orthogonal"}, "'odd' declares mixing 'orthogonal'; study 's' has 'general'"),
        ({"independence": "features"}, "'odd' declares independence 'features'; study 's' has 'samples'"),
        ({"features": ["x", "y", "w"]}, r"'odd' has not the features of study 's' \('w'\)"),
        ({"d": 2, "features": ["x", "y"]}, r"'odd' has not the features of study 's' \('z'\)"),
        ({"d": 4}, "'odd' sent atoms of 4 features without their names; 3 are wanted"),
    ],
)
def test_the_study_decides_not_the_majority(terms, sentence):
    """Whoever sends for another study, or on other terms, is refused, however many do; silence on terms agrees."""
    study = Study("s", ["x", "y", "z"])
    group = [contribution(f"odd-{k}", **{"study": "s", **terms}) for k in range(3)] + [contribution("a", study="s")]
    admitted = admit(group, study=study, on_bad="reject")
    assert admitted.clients == ("a",)
    assert [x.client for x in admitted.rejected] == ["odd-0", "odd-1", "odd-2"]
    assert admitted.terms.features == ("x", "y", "z")
    with pytest.raises(ContributionError, match=sentence.replace("'odd'", "'odd-0'")):
        admit(group, study=study)


def test_who_lacks_features_fits_where_they_are_filled():
    """The gate decides who has enough of the features; what is filled is decided elsewhere."""
    atoms = np.eye(4)[:, :2]
    group = [Contribution(name, atoms, 10, features=list("wxyz")) for name in "abc"]
    group.append(Contribution("lacks", atoms[:3], 10, features=list("wxy")))
    group.append(Contribution("short", atoms[:2], 10, features=["w", "v"]))
    screened = screen(group, may_lack_features=True)
    assert [c.client for c in screened.contributions] == ["a", "b", "c", "lacks"]
    assert screened.features == ("w", "x", "y", "z")
    assert [(x.client, x.kind) for x in screened.rejected] == [("short", "too-few-features")]
    assert [x.client for x in screen(group).rejected] == ["lacks", "short"]


def test_every_field_that_must_agree_is_compared():
    """Admission follows the declaration of the fields."""
    declared = [name for name, field in CONTRIBUTION_FIELDS.items() if field.must_agree]
    assert list(MUST_AGREE) == declared
    assert {"study", "independence", "mixing", "grid"} <= set(declared)


def test_the_same_message_delivered_twice_counts_once():
    """A retry is not a second vote."""
    admitted = admit([contribution("a"), contribution("b"), contribution("a")])
    assert admitted.clients == ("a", "b")
    assert admitted.rejected == ()


def test_two_different_messages_under_one_name_are_both_refused():
    """Whichever arrived first: the result does not depend on the order."""
    twin = Contribution("a", np.eye(3)[:, 1:], 100)
    for order in ([contribution("a"), twin], [twin, contribution("a")]):
        admitted = admit([*order, contribution("b")], on_bad="reject")
        assert admitted.clients == ("b",)
        assert admitted.rejected[0].client == "a"


def test_reordered_features_are_put_right():
    """The same feature names in another order mean the same atoms."""
    rng = np.random.default_rng(1)
    atoms = rng.standard_normal((3, 2))
    order = [2, 0, 1]
    one = Contribution("a", atoms, 10, features=["x", "y", "z"])
    other = Contribution("b", atoms[order], 10, features=["z", "x", "y"])
    third = Contribution("c", atoms, 10, features=["x", "y", "z"])
    admitted = admit([one, other, third])
    atoms = admitted.atoms.whole()
    assert np.allclose(atoms[:, :2], atoms[:, 2:4], atol=1e-15)
    assert admitted.terms.features == ("x", "y", "z")


def test_other_feature_names_are_refused():
    """Features nobody else has."""
    group = [contribution(f"c{k}", features=["x", "y", "z"]) for k in range(2)]
    group.append(contribution("odd", features=["x", "y", "w"]))
    with pytest.raises(ContributionError, match=r"'odd' names features that 2 other clients do not have \('w'\)"):
        admit(group)


def test_voxels_of_another_grid_are_other_places():
    """The same names in another grid are refused; who does not say where its voxels are is believed."""
    group = [contribution(f"c{k}", features=["0,0,0", "0,0,1", "0,1,0"], grid="2 mm") for k in range(2)]
    silent = contribution("silent", features=["0,0,0", "0,0,1", "0,1,0"], reference="average")
    moved = contribution("moved", features=["0,0,0", "0,0,1", "0,1,0"], grid="3 mm")
    assert len(admit([*group, silent]).clients) == 3
    with pytest.raises(ContributionError, match="client 'moved' declares grid '3 mm'; 2 other clients have '2 mm'"):
        admit([*group, silent, moved])


def test_rejections_reach_the_result(make_federation):
    """on_bad="reject" goes on with the rest and says so."""
    contributions, _, _ = make_federation(3, 5)
    contributions[1] = Contribution("client-01", np.eye(4), 10)
    result = aggregate(contributions, 3, on_bad="reject")
    assert result.clients == ("client-00", "client-02", "client-03", "client-04")
    assert result.rejected[0].client == "client-01"
    assert "rejected 'client-01'" in repr(result)


def test_on_bad_must_be_known():
    """No third way."""
    with pytest.raises(OptionError, match="on_bad must be one of 'raise', 'reject'; got 'ignore'"):
        admit([contribution("a")], on_bad="ignore")

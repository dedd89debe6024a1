"""Which contributions are admitted, which are not, and why."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica import Contribution, Study, aggregate
from fedica.errors import ContributionError, InputError, OptionError
from fedica.records import CONTRIBUTION_FIELDS
from fedica.server import METHODS, admit
from fedica.server.admission import MUST_AGREE, screen
from fedica.server.missing_features import fill_features


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


def test_names_decide_on_no_tie():
    """Atoms that are the same to six digits, or to the last: the digits decide, then the samples, and names never."""
    first, second = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 5, 3)))[0]
    sent = [(first, 10), (first + 1e-9, 10), (first, 20), (second, 10), (first - 1e-9, 10)]
    one, other = (
        admit([Contribution(name, atoms, n) for name, (atoms, n) in zip(names, sent, strict=True)])
        for names in ("abcde", "edcba")
    )
    assert np.array_equal(one.atoms.whole(), other.atoms.whole())
    assert np.array_equal(one.n_samples, other.n_samples)


def test_names_decide_on_no_tie_of_strengths():
    """Two clients of the same atoms and samples: what else they send decides, and names never."""
    atoms = np.eye(4)[:, :2]
    sent = [
        {"gram": np.eye(2)},
        {"gram": 2 * np.eye(2)},
        {"gram": 2 * np.eye(2), "noise_floor": 0.5},
        {"uncertain": [0]},
        {"uncertain": [1]},
        {},
    ]
    one, other = (
        admit([Contribution(name, atoms, 10, **own) for name, own in zip(names, sent, strict=True)])
        for names in ("abcdef", "fedcba")
    )
    assert [g is None or g.tolist() for g in one.grams] == [g is None or g.tolist() for g in other.grams]
    assert one.noise_floors == other.noise_floors
    assert one.uncertain.tolist() == other.uncertain.tolist()


def test_swapping_names_changes_no_bit_of_the_result(make_federation):
    """What goes back to the clients cannot depend on who is called what."""
    contributions, _, _ = make_federation(5, 9, noise=0.1)
    swapped = [Contribution(b.client, a.atoms, 1000) for a, b in zip(contributions, contributions[::-1], strict=True)]
    for method in (name for name, method in METHODS.items() if method.matches_atoms):
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


NAMES = ["x", "y", "z"]
OTHER_NAMES = ["u", "v", "w"]
TERMS = {
    "study": ("s1", "s2"),
    "independence": ("samples", "features"),
    "mixing": ("general", "orthogonal"),
    "grid": ("2 mm", "3 mm"),
    "features": (NAMES, OTHER_NAMES),
}


@pytest.mark.parametrize("term", TERMS)
def test_where_most_are_silent_two_that_differ_are_refused_and_nobody_else(term):
    """Twenty clients declare nothing: the reason of the two names the term, and the term is not part of the result."""
    group = [contribution(f"silent-{k:02d}") for k in range(20)]
    odd = [contribution(f"odd-{k}", **{term: TERMS[term][k]}) for k in range(2)]
    admitted = admit([*odd, *group], on_bad="reject")
    assert sorted(admitted.clients) == [c.client for c in group]
    assert [(x.client, x.kind) for x in admitted.rejected] == [("odd-0", "no-majority"), ("odd-1", "no-majority")]
    assert f"do not agree on {term}: 1 says" in admitted.rejected[0].reason
    assert "20 say nothing. A value holds when more than half of all clients declare it" in admitted.rejected[0].reason
    assert getattr(admitted.terms, term, None) is None


@pytest.mark.parametrize("term", TERMS)
def test_a_few_that_agree_with_each_other_set_no_term(term):
    """Two clients declare what twenty do not: all are admitted, and the term is not part of the result."""
    group = [contribution(f"silent-{k:02d}") for k in range(20)]
    few = [contribution(f"few-{k}", **{term: TERMS[term][1]}) for k in range(2)]
    admitted = admit([*few, *group])
    assert len(admitted.clients) == 22
    assert getattr(admitted.terms, term, None) is None


@pytest.mark.parametrize("term", TERMS)
def test_a_term_holds_when_more_than_half_of_all_clients_declare_it(term):
    """Eleven of twenty: the silent agree. Ten of twenty: nothing is decided."""
    for n_declaring, expected in ((11, 1), (10, 0)):
        group = [contribution(f"c{k:02d}", **{term: TERMS[term][0]}) for k in range(n_declaring)]
        group += [contribution(f"silent-{k}") for k in range(20 - n_declaring)]
        admitted = admit(group)
        assert len(admitted.clients) == 20
        assert (getattr(admitted.terms, term) is not None) == bool(expected)


def test_terms_are_decided_over_all_clients_not_over_those_that_are_left():
    """Clients of another study are refused, and have voted on the grid all the same: no order of checks matters."""
    group = [contribution(f"c{k:02d}", study="s1") for k in range(7)]
    group += [contribution(f"moved-{k}", study="s1", grid="3 mm") for k in range(4)]
    group += [contribution(f"other-{k}", study="s2", grid="2 mm") for k in range(4)]
    rejected = {x.client: x.numbers["term"] for x in admit(group, on_bad="reject").rejected}
    assert {client[:5] for client, term in rejected.items() if term == "study"} == {"other"}
    assert {client[:5] for client, term in rejected.items() if term == "grid"} == {"moved"}


def test_the_order_of_arrival_and_the_names_decide_on_no_term():
    """However many declare what: shuffling contributions, or exchanging names, changes nothing."""
    rng = np.random.default_rng(3)
    declared = [{}, {"grid": "2 mm"}, {"grid": "3 mm"}, {"features": NAMES}, {"features": NAMES[::-1]}]
    for _ in range(30):
        terms = [declared[k] for k in rng.integers(0, len(declared), 9)]
        names, order = rng.permutation(9), rng.permutation(9)
        one = screen([contribution(f"c{k}", **own) for k, own in enumerate(terms)])
        other = screen([contribution(f"c{names[k]}", **terms[k]) for k in order])
        assert one.features == other.features
        assert {f"c{names[int(c.client[1:])]}" for c in one.contributions} == {c.client for c in other.contributions}


def test_clients_without_names_are_kept_where_one_order_of_the_names_is_agreed_on():
    """Most name their features in one order: who names none has it too. In several orders: nobody knows which."""
    one_order = [contribution(f"c{k}", features=NAMES) for k in range(4)]
    admitted = admit([*one_order, contribution("unnamed"), contribution("unnamed-2"), contribution("unnamed-3")])
    assert len(admitted.clients) == 7
    orders = [["x", "y", "z"], ["y", "x", "z"], ["z", "x", "y"], ["x", "z", "y"]]
    several = [contribution(f"c{k}", features=order) for k, order in enumerate(orders)]
    admitted = admit([*several, contribution("unnamed")], on_bad="reject")
    assert [(x.client, x.kind) for x in admitted.rejected] == [("unnamed", "unordered-features")]
    assert admitted.terms.features == ("x", "y", "z")


@pytest.mark.parametrize("may_lack_features", [False, True])
def test_two_that_name_features_do_not_outvote_twenty_that_name_none(may_lack_features):
    """Also where missing features are filled: clients of .npy files are not refused for the names of others."""
    group = [contribution(f"c{k:02d}", d=4) for k in range(20)]
    few = [contribution(f"few-{k}", d=4, features=["a", "b", "c", "d"]) for k in range(2)]
    short = [contribution("short", d=3, features=NAMES)]
    screened = screen([*group, *few, *short], may_lack_features=may_lack_features)
    assert len(screened.contributions) == 20
    assert screened.features is None
    assert {x.client for x in screened.rejected} == {"few-0", "few-1", "short"}


PREPARED = {"reference": "average"}


class TestWithAStudy:
    """No set of fewer than half of the clients can refuse an honest client, stop the run, or set a term."""

    STUDY = Study("s", ["x", "y", "z"], mixing="general")
    LIES = (
        {"study": "s2"},
        {"study": None},
        {"independence": "features"},
        {"mixing": "orthogonal"},
        {"grid": "3 mm"},
        {"grid": "4 mm"},
        {"reference": "average"},
        {"features": ["x", "y", "w"]},
        {"features": ["z", "y", "x"]},
        {"d": 4},
        {"d": 2, "features": ["x", "y"]},
        {"gram": 1e300 * np.eye(2), "noise_floor": 1e300},
        {"gram": np.zeros((2, 2)), "noise_floor": 0.0},
        {"gram": np.ones((2, 2))},
        {"uncertain": (0, 1)},
        {"persons": 10**17},
        {"serial": 10**17},
        {"n_samples": 10**17},
        {"n_samples": None},
        {"preprocessing": {"reference": "REST"}},
        {"preprocessing": None},
        {"solver": "other", "extra": {"note": "x" * 60_000}},
    )
    HONEST = (
        {},
        {"grid": "2 mm"},
        {"features": ["x", "y", "z"]},
        {"features": ["z", "x", "y"]},
        {"mixing": "general"},
        {"gram": np.eye(2), "noise_floor": 0.1, "uncertain": (1,)},
        {"persons": 3, "serial": 2, "reference": "average"},
    )

    def test_every_field_has_a_lie(self):
        """A field that contributions get later is not forgotten here."""
        assert {"client", "atoms"} | {name for lie in self.LIES for name in lie} >= CONTRIBUTION_FIELDS.keys()

    @given(
        data=st.data(),
        n_hostile=st.integers(1, 5),
        may_lack_features=st.booleans(),
        other_preprocessing=st.sampled_from([None, "name", "refuse"]),
        spatial=st.booleans(),
    )
    @settings(max_examples=100)
    def test_a_hostile_minority_changes_nothing_for_the_others(
        self, data, n_hostile, may_lack_features, other_preprocessing, spatial
    ):
        """Whatever a minority declares, in whatever combination."""
        study = replace(
            self.STUDY,
            independence="features" if spatial else "samples",
            preprocessing=None if other_preprocessing is None else PREPARED,
            other_preprocessing=other_preprocessing,
        )
        lies = st.lists(st.sampled_from(self.LIES), max_size=4).map(lambda some: dict(ChainMap(*some)))
        hostile = [self.client(f"hostile-{k}", data.draw(lies)) for k in range(n_hostile)]
        n_honest = data.draw(st.integers(n_hostile + 1, 8))
        honest = [self.client(f"honest-{k}", data.draw(st.sampled_from(self.HONEST))) for k in range(n_honest)]
        everyone = data.draw(st.permutations([*hostile, *honest]))
        screened = screen(everyone, study=study, may_lack_features=may_lack_features)
        kept = {c.client: c for c in screened.contributions}
        assert {c.client for c in honest} <= kept.keys()
        assert all(any(refused is sent for sent in everyone) for refused, _ in screened.refused)  # as they came
        assert screened.features == ("x", "y", "z")
        filled = fill_features(screened.contributions, features=screened.features, n_components=2)
        terms = aggregate(filled.contributions, 2).terms  # nothing is refused any more
        assert (terms.study, terms.independence, terms.mixing) == ("s", study.independence, "general")
        assert all(c.grid in (None, "2 mm") for c in screened.contributions)

    @staticmethod
    def client(name, declared):
        """Give a contribution to the study that declares this besides, as far as it can."""
        d = declared.get("d", len(declared.get("features", "xyz")))
        named = {k: v for k, v in declared.items() if k != "d"}
        if "features" in named and len(named["features"]) != d:
            del named["features"]
        return contribution(name, d=d, **{"study": "s", "preprocessing": PREPARED, **named})


def test_no_majority_is_not_guessed():
    """One against one: nobody can say who is right."""
    group = [contribution("a"), contribution("b", d=4)]
    sentence = "the clients do not agree on n_features: 1 says 3, 1 says 4"
    with pytest.raises(ContributionError, match=f"2 contributions were refused. The first: {sentence}"):
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


def test_the_same_atoms_on_other_terms_are_another_message():
    """Which of the two counts would otherwise depend on which arrived first."""
    strengths = {"gram": np.eye(contribution("a").n_atoms), "noise_floor": 0.1}
    others = ({"grid": "3 mm"}, strengths, {"uncertain": [0]}, {"reference": "average"})
    for twin in (contribution("a", **other) for other in others):
        for order in ([contribution("a"), twin], [twin, contribution("a")]):
            assert [x.kind for x in screen([*order, contribution("b")]).rejected] == ["duplicate-name"]


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
    group = [contribution(f"c{k}", features=["0,0,0", "0,0,1", "0,1,0"], grid="2 mm") for k in range(3)]
    silent = contribution("silent", features=["0,0,0", "0,0,1", "0,1,0"], reference="average")
    moved = contribution("moved", features=["0,0,0", "0,0,1", "0,1,0"], grid="3 mm")
    assert len(admit([*group, silent]).clients) == 4
    with pytest.raises(ContributionError, match="client 'moved' declares grid '3 mm'; 3 other clients have '2 mm'"):
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

"""Clients with different features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedica.local import LocalICA
from fedica.matching import match
from fedica.records import Contribution
from fedica.server import aggregate
from fedica.server.missing_features import fill_features
from fedica.simulate import federation

D, R = 12, 5
NAMES = [f"f{i}" for i in range(D)]


def error(mixing, truth):
    found = match(mixing, truth)
    return np.linalg.norm(mixing * found.signs - truth[:, found.labels]) / np.sqrt(truth.shape[1])


def partial(client, rows, random_state=0):
    local = LocalICA(R, random_state=random_state).fit(client.X[:, rows])
    return local.contribution(client.name, features=[NAMES[i] for i in rows])


def cut(contribution, rows):
    return replace(contribution, atoms=contribution.atoms[rows], features=[NAMES[i] for i in rows])


@pytest.fixture(scope="module")
def clients():
    """Twelve clients of one truth."""
    return federation(12, R, n_features=D, n_samples=1500, condition=3, random_state=5)


def test_exact_atoms_are_filled_exactly(clients):
    """Without errors, whoever lacks whatever: the aggregate is the truth."""
    rng = np.random.default_rng(0)
    whole = [partial(c, range(D)) for c in clients.clients]
    exact = [replace(c, atoms=clients.mixing * rng.choice([-1, 1], R)) for c in whole]
    lacking = [cut(c, np.sort(rng.choice(D, 9, replace=False))) for c in exact]
    filled = fill_features(lacking, features=NAMES, n_components=R)
    assert error(aggregate(filled.contributions, R).mixing, clients.mixing) < 1e-6
    assert {len(names) for names in filled.lacking.values()} == {3}


def test_strengths_of_other_features_are_left_out(clients):
    """A Gram matrix belongs to the atoms on the features that they were found on; who has all of them keeps its own."""
    whole = [replace(partial(c, range(D)), gram=np.eye(R), noise_floor=1.0) for c in clients.clients]
    whole[1] = cut(whole[1], np.arange(1, D))
    atoms = np.array(whole[2].atoms)
    atoms[:, 0] = np.eye(D)[0]  # nothing of it lies in the features that all have
    whole[2] = replace(whole[2], atoms=atoms)
    filled = fill_features(whole, features=NAMES, n_components=R).contributions
    assert {c.client for c in filled if c.gram is None and c.noise_floor is None} == {clients.clients[1].name}


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_clients_that_lack_channels_help_those_that_have_them(share):
    """Over six federations: nearly as good as if nobody lacked anything, and better than without them."""
    got, best, without = [], [], []
    for seed in range(6):
        fed = federation(12, R, n_features=D, n_samples=1500, condition=3, random_state=seed)
        rng = np.random.default_rng(seed)
        whole = [partial(c, range(D)) for c in fed.clients]
        n_lacking = round(share * len(whole))
        some = [partial(c, np.sort(rng.choice(D, 10, replace=False))) for c in fed.clients[:n_lacking]]
        filled = fill_features([*some, *whole[n_lacking:]], features=NAMES, n_components=R)
        got.append(error(aggregate(filled.contributions, R).mixing, fed.mixing))
        best.append(error(aggregate(whole, R).mixing, fed.mixing))
        if share < 1:
            without.append(error(aggregate(whole[n_lacking:], R).mixing, fed.mixing))
    assert np.mean(got) < 1.3 * np.mean(best)
    assert share == 1 or np.mean(got) < np.mean(without)


def test_a_client_hardly_moves_the_features_that_it_lacks(clients):
    """Their entries come from the others, as far as a unit vector allows."""
    whole = [partial(c, range(D)) for c in clients.clients]
    others = aggregate(whole[1:], R).mixing

    def moved(contributions):
        mixing = aggregate(contributions, R).mixing
        found = match(mixing, others)
        return np.linalg.norm((mixing * found.signs - others[:, found.labels])[9:])

    filled = fill_features([cut(whole[0], list(range(9))), *whole[1:]], n_components=R)
    assert moved(filled.contributions) < 0.5 * moved(whole)


def test_the_features_are_those_that_half_of_the_clients_have(clients):
    """A surplus channel of a few is cut; the order is the most common one."""
    whole = [partial(c, range(D)) for c in clients.clients]
    most = [cut(c, list(range(10))) for c in whole[:9]]
    filled = fill_features([*most, *whole[9:]], n_components=R)
    assert filled.features == tuple(NAMES[:10])
    assert filled.surplus == {c.client: ("f10", "f11") for c in whole[9:]}
    assert all(c.n_features == 10 for c in filled.contributions)


def test_too_few_or_unknown_features_are_refused_by_name(clients):
    """So are atoms without names of another length; nobody vanishes."""
    whole = [partial(c, range(D)) for c in clients.clients[:6]]
    whole[0] = replace(whole[0], features=[f"x{i}" for i in range(D)])
    whole[1] = replace(whole[1], features=NAMES[:3], atoms=np.eye(3))
    whole[2] = replace(whole[2], features=None, atoms=whole[2].atoms[:8])
    filled = fill_features(whole, n_components=R)
    assert [x.client for x in filled.rejected] == [c.client for c in whole[:3]]
    assert "0 of the 12 features" in filled.rejected[0].reason
    assert "3 of the 12 features; at least 4" in filled.rejected[1].reason
    assert "without their names" in filled.rejected[2].reason
    assert [x.kind for x in filled.rejected] == ["too-few-features", "too-few-features", "unnamed-features"]
    assert filled.rejected[1].numbers == {"n_features": 3, "n_wanted": 12, "n_needed": 4, "n_atoms": 3}
    assert len(filled.contributions) + len(filled.rejected) == len(whole)


def test_who_has_all_features_in_another_order_keeps_its_strengths(clients):
    """Though another client lacks a feature: otherwise one client decided that the others' strengths do not count."""
    whole = [replace(partial(c, range(D)), gram=np.eye(R), noise_floor=1.0) for c in clients.clients]
    turned = [cut(c, np.arange(D)[::-1]) for c in whole[1:]]
    short = cut(whole[0], np.arange(1, D))
    filled = fill_features([short, *turned], features=NAMES, n_components=R).contributions
    assert [c.client for c in filled if c.gram is None] == [short.client]
    plain = {c.client: c.atoms for c in fill_features([short, *whole[1:]], features=NAMES).contributions}
    assert all(np.array_equal(c.atoms, plain[c.client]) for c in filled if c.gram is not None)


def test_a_client_that_shares_no_feature_with_the_core_stops_nobody(clients):
    """Two clients have the other half of the features: nothing tells which of their atoms is which component."""
    whole = [partial(c, range(D)) for c in clients.clients]
    few = [cut(c, np.arange(6)) for c in whole[:1]] + [cut(c, np.arange(6, D)) for c in whole[1:3]]
    filled = fill_features([*few, *whole[3:]], features=NAMES, n_components=R)
    assert len(filled.contributions) == len(whole)
    assert error(aggregate(filled.contributions, R).mixing, clients.mixing) < 0.1


def test_a_client_with_half_of_the_features_stops_nobody(clients):
    """Clients know three of the components each: the core keeps as many features as there are components in all."""
    rng = np.random.default_rng(1)
    truth = np.linalg.qr(rng.standard_normal((D, 8)))[0]
    known = [truth[:, rng.permutation(8)[:3]] for _ in clients.clients]
    whole = [
        replace(partial(c, range(D)), atoms=own + 0.01 * rng.standard_normal(own.shape))
        for c, own in zip(clients.clients, known, strict=True)
    ]
    filled = fill_features([cut(whole[0], np.arange(6)), *whole[1:]], features=NAMES, n_components=8)
    assert aggregate(filled.contributions, 8).n_components == 8


def test_a_client_without_the_features_that_tell_components_apart_stops_nobody(clients):
    """Two components differ in three features alone. One client lacks these: on what it shares with the others, the
    atoms form one group fewer than there are components.
    """
    truth = np.linalg.qr(np.random.default_rng(1).standard_normal((D, R)))[0]
    truth[3:, 1] = truth[3:, 0]
    exact = [replace(partial(c, range(D)), atoms=truth) for c in clients.clients]
    filled = fill_features([cut(exact[0], np.arange(3, D)), *exact[1:]], features=NAMES, n_components=R)
    unit = truth / np.linalg.norm(truth, axis=0)
    assert error(aggregate(filled.contributions, R).mixing, unit) < 1e-6


def test_an_average_reference_takes_one_direction_from_the_features_in_common():
    """Two components on three channels; without their mean, all atoms on two channels lie on one line."""
    truth = np.array([[1.0, 2.0], [-3.0, 2.0], [2.0, -4.0]])
    truth /= np.linalg.norm(truth, axis=0)
    names = NAMES[:3]
    whole = [Contribution(f"c{k}", truth, 500, features=names, reference="average") for k in range(3)]
    short = Contribution("short", truth[:2], 500, features=names[:2], reference="average")
    filled = fill_features([short, *whole], n_components=2)
    assert error(aggregate(filled.contributions, 2).mixing, truth) < 1e-6


def test_a_hostile_client_with_few_features_spoils_nothing(clients):
    """It cannot shrink what the others have in common."""
    whole = [partial(c, range(D)) for c in clients.clients]
    rows = list(range(5))
    hostile = cut(whole[0], rows)
    hostile = replace(hostile, atoms=np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0])
    filled = fill_features([hostile, *whole[1:]], n_components=R)
    got = error(aggregate(filled.contributions, R).mixing, clients.mixing)
    assert got < 1.1 * error(aggregate(whole[1:], R).mixing, clients.mixing)


@pytest.mark.parametrize("n_components", [R, None])
@pytest.mark.parametrize("n_hostile", [1, 3])
def test_clients_with_as_many_atoms_as_features_do_not_outweigh_those_that_lack_some(clients, n_components, n_hostile):
    """They have all features and nobody else has: they decide neither on the components nor on their number."""
    rng = np.random.default_rng(4)
    lacking = [partial(c, np.sort(rng.choice(D, 10, replace=False))) for c in clients.clients[n_hostile:]]
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
    first = replace(partial(clients.clients[0], range(D)), atoms=basis)
    full = [
        replace(first, client=f"h{k}", atoms=basis + 1e-3 * k * rng.standard_normal((D, D))) for k in range(n_hostile)
    ]

    def result(group):
        filled = fill_features(group, features=NAMES, n_components=n_components)
        return aggregate(filled.contributions, n_components).mixing

    assert error(result([*full, *lacking]), clients.mixing) < 1.1 * error(result(lacking), clients.mixing)


@pytest.mark.parametrize("reference", [None, "average"])
def test_atoms_that_vanish_on_common_features_stop_nobody(clients, reference):
    """One in a single feature that others lack, one that is constant: the result is that of the other atoms."""
    rng = np.random.default_rng(5)
    lacking = [partial(c, np.sort(rng.choice(D, 10, replace=False))) for c in clients.clients[2:]]
    lacking = [replace(c, reference=reference) for c in lacking]
    whole = replace(partial(clients.clients[0], range(D)), reference=reference)
    odd = np.column_stack([np.eye(D)[:, -1], np.ones(D)])
    hostile = [replace(whole, client="few", atoms=odd), replace(whole, atoms=np.hstack([whole.atoms, odd]))]
    filled = fill_features([*hostile, *lacking], features=NAMES, n_components=R)
    assert len(filled.contributions) == 12
    with_them, without = (
        aggregate(fill_features(group, features=NAMES, n_components=R).contributions, R).mixing
        for group in ([*hostile, *lacking], [whole, *lacking])
    )
    assert error(with_them, without) < 0.05


def test_nothing_is_touched_when_nothing_is_missing(clients):
    """The same records come out, bit by bit."""
    whole = [partial(c, range(D)) for c in clients.clients[:3]]
    assert fill_features(whole).contributions == tuple(whole)
    unnamed = [replace(c, features=None) for c in whole]
    assert fill_features(unnamed).contributions == tuple(unnamed)


def test_signs_are_those_of_what_came(clients):
    """An atom that was filled still points where the client said, so that the aggregate's signs speak of that."""
    rng = np.random.default_rng(1)
    exact = [replace(partial(c, range(D)), atoms=clients.mixing * rng.choice([-1, 1], R)) for c in clients.clients]
    lacking = [cut(c, np.sort(rng.choice(D, 9, replace=False))) for c in exact]
    filled = fill_features(lacking, features=NAMES, n_components=R)
    atoms = {c.client: c.atoms for c in filled.contributions}
    for c in exact:
        np.testing.assert_allclose(np.sum(atoms[c.client] * c.atoms, axis=0), 1.0, atol=1e-6)


def test_an_average_over_different_features_is_brought_to_one_level(clients):
    """Everybody took off the mean of the features that it has: the aggregate is the truth without its mean over all."""
    rng = np.random.default_rng(2)
    level = clients.mixing - clients.mixing.mean(axis=0)

    def lacking(**extra):
        found = []
        for client in clients.clients:
            rows = np.sort(rng.choice(D, 9, replace=False))
            atoms = clients.mixing[rows] - clients.mixing[rows].mean(axis=0)
            names = [NAMES[i] for i in rows]
            found.append(
                replace(partial(client, rows), atoms=atoms * rng.choice([-1, 1], R), features=names, extra=extra)
            )
        return found

    declared = fill_features(lacking(reference="average"), features=NAMES, n_components=R)
    result = aggregate(declared.contributions, R)
    assert error(result.mixing, level / np.linalg.norm(level, axis=0)) < 1e-4
    assert (result.labels >= 0).all()
    silent = fill_features(lacking(), features=NAMES, n_components=R)
    assert error(aggregate(silent.contributions, R).mixing, level / np.linalg.norm(level, axis=0)) > 0.02


def test_one_client_cannot_take_the_level_off(clients):
    """What most declare holds: one that says otherwise changes nothing."""
    rng = np.random.default_rng(3)
    whole = [partial(c, range(D)) for c in clients.clients]
    plain = [cut(c, np.sort(rng.choice(D, 9, replace=False))) for c in whole]
    odd = [replace(plain[0], extra={"reference": "average"}), *plain[1:]]
    first, second = (fill_features(those, n_components=R).contributions for those in (plain, odd))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.atoms, other.atoms)

"""Each attack does what it says, to the attackers alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedica.arrays import unit
from fedica.errors import GroupingError, InputError, OptionError
from fedica.evaluate import recovery_error
from fedica.matching import match
from fedica.simulate import atoms_federation
from fedica.simulate.attacks import ATTACKS, find_attack
from fedica.simulate.forging import choose_attackers

JITTERED = 1e-5
"""Colluding attackers add 1e-6 to every number; angles and lengths change by less than this, in radians."""
FORGED = [name for name in ATTACKS if name != "none"]


def mean_server(contributions):
    """The weakest of servers: clients matched to the first one, then averaged."""
    first = contributions[0].atoms
    total = np.zeros_like(first)
    for contribution in contributions:
        found = match(contribution.atoms, first)
        kept = found.labels >= 0
        np.add.at(total.T, found.labels[kept], (contribution.atoms * found.signs)[:, kept].T)
    return total


def attack(name, federation, share, *, server=None, random_state=0, **changes):
    """Carry out a listed attack with another strength, or with or without collusion."""
    return replace(ATTACKS[name], **changes)(federation, share, server=server, random_state=random_state)


@pytest.fixture(scope="module")
def honest():
    return atoms_federation(12, 6, random_state=3)


def attackers_of(attacked):
    return [int(k) for k in np.flatnonzero(~attacked.honest)]


def angles_to_truth(federation, k):
    """Degrees between each matched atom of client k and its component; 90 for one that matches none."""
    found = match(federation.contributions[k].atoms, federation.mixing)
    return np.rad2deg(np.arccos(np.clip(found.cosines, 0, 1)))


def same_up_to_signed_order(one, other):
    gram = np.abs(one.T @ other)
    return (
        one.shape == other.shape
        and np.allclose(np.sort(gram.max(axis=0)), 1, atol=1e-9)
        and np.allclose(np.sort(gram.max(axis=1)), 1, atol=1e-9)
    )


@pytest.mark.parametrize("name", FORGED)
def test_attacks_touch_the_attackers_and_nobody_else(honest, name):
    """As many attackers as the share says, unit atoms, unchanged names; the honest send what they sent, bit by bit."""
    attacked = find_attack(name)(honest, 0.375, server=mean_server, random_state=1)
    assert len(attackers_of(attacked)) == 5  # 4.5 rounds up
    for k, (before, after) in enumerate(zip(honest.contributions, attacked.contributions, strict=True)):
        assert after.client == before.client
        assert attacked.labels[k].size == attacked.signs[k].size == after.n_atoms
        if attacked.honest[k]:
            assert after is before
            assert attacked.labels[k] is honest.labels[k]
        else:
            np.testing.assert_allclose(np.linalg.norm(after.atoms, axis=0), 1, atol=1e-9)
            assert np.any(after.atoms.shape != before.atoms.shape) or np.any(after.atoms != before.atoms)
            assert np.all(attacked.labels[k] == -1)


@pytest.mark.parametrize("name", FORGED)
def test_attacks_are_functions_of_the_seed(honest, name):
    """The same seed forges the same atoms; another seed others."""
    one, again, other = (
        find_attack(name)(honest, 0.25, server=mean_server, random_state=seed).contributions for seed in (1, 1, 2)
    )
    assert all(np.array_equal(a.atoms, b.atoms) for a, b in zip(one, again, strict=True))
    assert any(not np.array_equal(a.atoms, b.atoms) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", FORGED)
def test_attacks_work_where_clients_see_some_components_only(name):
    """Unequal numbers of atoms, a general mixing matrix, more features than components."""
    partial = atoms_federation(9, 6, n_features=8, components_per_client=[2, 3, 4] * 3, condition=10, random_state=5)
    attacked = find_attack(name)(partial, 0.4, server=lambda c: partial.honest_mean(), random_state=2)
    assert len(attackers_of(attacked)) == 4
    for contribution in attacked.contributions:
        assert np.isfinite(contribution.atoms).all()


@pytest.mark.parametrize("name", [n for n in FORGED if not ATTACKS[n].needs_server])
def test_facts_about_the_spread_are_measured(name):
    """Attacks said to go beyond the honest spread have an atom farther than any honest one; the others have not."""
    federation = atoms_federation(40, 6, random_state=8)
    attacked = find_attack(name)(federation, 0.3, random_state=4)
    largest = max(angles_to_truth(federation, k).max() for k in range(40))
    forged = np.median([angles_to_truth(attacked, k).max() for k in attackers_of(attacked)])
    if ATTACKS[name].beyond_spread:
        assert forged > 1.3 * largest
    else:
        assert forged <= 1.3 * largest


@pytest.mark.parametrize(
    "name",
    [
        "random-bases",
        "inflated-samples",
        "flood-false",
        "flood-true",
        "bridges",
        "alie",
        "inner-product",
        "mimicry",
        "duplicated-clients",
        "few-samples",
    ],
)
def test_colluders_send_the_same_and_loners_do_not(honest, name):
    """Colluding attackers agree up to order and sign; otherwise no two of them do."""
    for colluding in (True, False):
        attacked = attack(name, honest, 0.3, colluding=colluding, random_state=6)
        first, *others = (attacked.contributions[k].atoms for k in attackers_of(attacked))
        agree = [same_up_to_signed_order(first, other) for other in others]
        assert all(agree) if colluding else not any(agree)


def test_a_larger_share_adds_attackers(honest):
    """With one seed the attackers of 0.2 are among those of 0.4."""
    few, many = (set(choose_attackers(honest, share, 9).attackers) for share in (0.2, 0.4))
    assert few < many


def test_nobody_attacks_at_share_zero_and_somebody_must_stay_honest(honest):
    """The edges, and a federation that is attacked already."""
    assert attack("rotation", honest, 0).contributions == honest.contributions
    assert ATTACKS["none"](honest, 0.4) is honest
    with pytest.raises(OptionError, match="leave an honest client"):
        attack("rotation", honest, 1.0)
    with pytest.raises(InputError, match="attack already"):
        attack("rotation", attack("rotation", honest, 0.3), 0.3)


@pytest.mark.parametrize("degrees", [5.0, 15.0, 45.0])
@pytest.mark.parametrize("colluding", [True, False])
def test_rotation_turns_every_atom_by_its_angle(honest, degrees, colluding):
    """Exactly, in six dimensions; and at most, in five."""
    attacked = attack("rotation", honest, 0.3, strength=degrees, colluding=colluding)
    for k in attackers_of(attacked):
        before, after = honest.contributions[k].atoms, attacked.contributions[k].atoms
        cosines = np.sort(np.abs(before.T @ after).max(axis=0))
        np.testing.assert_allclose(np.rad2deg(np.arccos(cosines)), degrees, atol=np.rad2deg(JITTERED))
        np.testing.assert_allclose(  # a rotation keeps the angles between atoms
            np.linalg.svd(before, compute_uv=False), np.linalg.svd(after, compute_uv=False), atol=JITTERED
        )
    odd = atoms_federation(6, 5, random_state=1)
    attacked = attack("rotation", odd, 0.3, strength=degrees, colluding=colluding)
    for k in attackers_of(attacked):
        cosines = np.abs(odd.contributions[k].atoms.T @ attacked.contributions[k].atoms).max(axis=0)
        assert np.rad2deg(np.arccos(cosines)).max() <= degrees + np.rad2deg(JITTERED)


@pytest.mark.parametrize("colluding", [True, False])
def test_wrong_bases_are_orthonormal_and_can_be_mixed_with_the_truth(honest, colluding):
    """Full strength: an orthonormal basis; a little: next to the client's own atoms; none: the client's own."""
    full, little, none = (
        attack("random-bases", honest, 0.3, strength=s, colluding=colluding) for s in (1.0, 0.05, 0.0)
    )
    for k in attackers_of(full):
        wrong, own = full.contributions[k].atoms, honest.contributions[k].atoms
        np.testing.assert_allclose(wrong.T @ wrong, np.eye(6), atol=JITTERED)
        assert same_up_to_signed_order(none.contributions[k].atoms, own)
        cosines = match(little.contributions[k].atoms, own).cosines
        assert np.all(cosines > np.cos(np.arcsin(0.05 / 0.95)))  # moved by 0.05, at most, from 0.95
        assert np.all(cosines < 1 - 1e-6)


@pytest.mark.parametrize("n_phantoms", [1, 2])
def test_a_phantom_takes_the_place_of_one_atom(honest, n_phantoms):
    """All other atoms are the client's own; colluders share the phantoms."""
    attacked = attack("phantom", honest, 0.3, strength=n_phantoms)
    phantoms = []
    for k in attackers_of(attacked):
        kept = np.abs(attacked.contributions[k].atoms.T @ honest.contributions[k].atoms).max(axis=1) > 1 - 1e-9
        assert kept.sum() == 6 - n_phantoms
        phantoms.append(attacked.contributions[k].atoms[:, ~kept])
    assert all(same_up_to_signed_order(phantoms[0], other) for other in phantoms)


@pytest.mark.parametrize("name", ["flood-false", "flood-true"])
def test_floods_are_copies(honest, name):
    """All atoms are one direction, or a share of them; a true flood is an atom that an attacker found."""
    for share, n_copies in ((1.0, 6), (0.5, 3)):
        attacked = attack(name, honest, 0.3, strength=share)
        found = np.concatenate([honest.contributions[k].atoms for k in attackers_of(attacked)], axis=1)
        for k in attackers_of(attacked):
            atoms = attacked.contributions[k].atoms
            copies = (np.abs(atoms.T @ atoms) > 1 - 1e-9).sum(axis=1)
            assert copies.max() - n_copies in {0, int(name == "flood-true" and share < 1)}  # and the original
            copied = atoms[:, np.argmax(copies)]
            assert (np.abs(copied @ found).max() > 1 - 1e-9) == (name == "flood-true")


def test_bridges_lie_between_two_components(honest):
    """At full weight an atom has cosine 1/sqrt(2) to two true columns; every column is in two bridges."""
    attacked = attack("bridges", honest, 0.3)
    for k in attackers_of(attacked):
        cosines = np.abs(attacked.contributions[k].atoms.T @ honest.mixing)
        np.testing.assert_allclose(np.sort(cosines, axis=1)[:, -2:], np.sqrt(0.5), atol=JITTERED)
        np.testing.assert_array_equal((cosines > 0.5).sum(axis=0), 2)
    light = attack("bridges", honest, 0.3, strength=0.1)
    k = attackers_of(light)[0]
    np.testing.assert_allclose(np.deg2rad(angles_to_truth(light, k)), np.arctan(0.1), atol=JITTERED)


def test_inflated_samples_are_declared(honest):
    """A wrong basis, and a thousand times the samples."""
    attacked = attack("inflated-samples", honest, 0.3)
    assert {attacked.contributions[k].n_samples for k in attackers_of(attacked)} == {5_000_000}


def test_alie_is_the_mean_plus_deviations(honest):
    """Coordinate by coordinate, over the honest clients alone."""
    attacked = attack("alie", honest, 0.3, strength=1.5)
    expected = np.stack(
        [attacked.honest_atoms(a).mean(axis=1) + 1.5 * attacked.honest_atoms(a).std(axis=1, ddof=1) for a in range(6)],
        axis=1,
    )
    for k in attackers_of(attacked):
        assert same_up_to_signed_order(attacked.contributions[k].atoms, unit(expected))


def test_inner_product_manipulation_leaves_no_inner_product(honest):
    """At strength one an atom has nearly nothing of the honest mean; at zero it is the client's own."""
    attacked = attack("inner-product", honest, 0.3)
    own = attack("inner-product", honest, 0.3, strength=0)
    for k in attackers_of(attacked):
        mean = attacked.honest_mean()[:, honest.labels[k]]
        manipulated = honest.aligned(k) - mean
        assert np.all(np.abs(np.sum(unit(manipulated) * mean, axis=0)) < 0.1)
        assert same_up_to_signed_order(attacked.contributions[k].atoms, unit(manipulated))
        assert same_up_to_signed_order(own.contributions[k].atoms, honest.contributions[k].atoms)


def test_mimicry_copies_the_farthest_honest_client(honest):
    """Full strength copies the farthest from the honest mean, zero the nearest."""
    for strength, choose in ((1.0, np.argmax), (0.0, np.argmin)):
        attacked = attack("mimicry", honest, 0.3, strength=strength)
        mean = attacked.honest_mean()
        candidates = np.flatnonzero(attacked.honest)
        cosines = [np.sum(honest.aligned(k) * mean[:, honest.labels[k]], axis=0).mean() for k in candidates]
        victim = candidates[choose(-np.array(cosines))]
        for k in attackers_of(attacked):
            assert same_up_to_signed_order(attacked.contributions[k].atoms, honest.contributions[victim].atoms)


def test_searching_attackers_find_more_harm_than_guessing_ones(honest):
    """The angle, and the number of deviations, that they find harm this server at least as much as others do."""

    def harm(attacked):
        return recovery_error(mean_server(attacked.contributions), attacked.honest_mean()).frobenius

    found = attack("alie-optimised", honest, 0.3, server=mean_server, strength=6.0)
    assert harm(found) >= max(harm(attack("alie", honest, 0.3, strength=tau)) for tau in (0.5, 1.5, 3.0)) - 1e-9
    widest = attack("worst-angle", honest, 0.3, server=mean_server)
    narrow = attack("worst-angle", honest, 0.3, server=mean_server, strength=5.0)
    assert harm(widest) >= harm(narrow) > 0
    for k in attackers_of(narrow):
        cosines = np.abs(narrow.contributions[k].atoms.T @ narrow.honest_mean()).max(axis=1)
        degrees = np.rad2deg(np.arccos(cosines))
        np.testing.assert_allclose(degrees, degrees[0], rtol=1e-4, atol=np.rad2deg(JITTERED))
        assert degrees[0] <= 5 + np.rad2deg(JITTERED)


def test_a_server_that_gives_up_is_the_most_harm(honest):
    """The search keeps the strength at which the server refuses to answer."""

    def fragile(contributions):
        if recovery_error(mean_server(contributions), honest.mixing).frobenius > 0.3:
            raise GroupingError("too much")
        return mean_server(contributions)

    with pytest.raises(GroupingError):
        fragile(attack("worst-angle", honest, 0.4, server=fragile).contributions)


def test_permuted_channels_are_the_same_numbers_in_another_order(honest):
    """Rows move; at least two, or all of them."""
    for strength, n_moved in ((1.0, 6), (0.01, 2)):
        attacked = attack("permuted-channels", honest, 0.3, strength=strength)
        for k in attackers_of(attacked):
            before, after = (np.sort(np.abs(x.contributions[k].atoms), axis=1) for x in (honest, attacked))
            assert sum(not np.allclose(a, b) for a, b in zip(before, after, strict=True)) == n_moved
            np.testing.assert_allclose(np.sort(before.ravel()), np.sort(after.ravel()), atol=1e-12)


def test_rescaled_channels_are_a_diagonal_matrix_away(honest):
    """After over before is one factor per feature times one scale per atom; colluders share the factors."""
    attacked = attack("rescaled-channels", honest, 0.3, strength=0.3, colluding=True)
    factors = []
    tolerance = 1e-3  # of ratios of small numbers, each with its jitter
    for k in attackers_of(attacked):
        before, after = honest.contributions[k].atoms, attacked.contributions[k].atoms
        ratio = np.abs(after / before[:, match(after, before).labels])
        left, values, _ = np.linalg.svd(ratio)
        assert values[1] < tolerance * values[0]  # rank one
        factors.append(np.abs(left[:, 0]))
    assert np.ptp(factors[0]) > 0.1
    np.testing.assert_allclose(factors, np.broadcast_to(factors[0], (len(factors), 6)), atol=tolerance)


@pytest.mark.parametrize("colluding", [True, False])
def test_dropped_components_are_missing(honest, colluding):
    """The rest is the client's own; colluders miss the same; one atom always stays."""
    attacked = attack("dropped-component", honest, 0.4, strength=2, colluding=colluding)
    missing = []
    for k in attackers_of(attacked):
        assert attacked.contributions[k].n_atoms == 4
        kept = np.abs(attacked.contributions[k].atoms.T @ honest.contributions[k].atoms) > 1 - 1e-9
        assert kept.any(axis=1).all()
        missing.append(frozenset(honest.labels[k][~kept.any(axis=0)]))
    assert (len(set(missing)) == 1) == colluding
    nearly_all = attack("dropped-component", honest, 0.3, strength=50)
    assert {nearly_all.contributions[k].n_atoms for k in attackers_of(nearly_all)} == {1}


def test_few_samples_scale_the_errors_and_are_declared(honest):
    """Four times the error, a sixteenth of the samples."""
    attacked = attack("few-samples", honest, 0.3, strength=4.0)
    for k in attackers_of(attacked):
        sines = np.sin(np.deg2rad(np.sort(angles_to_truth(honest, k))))
        tangents = np.tan(np.deg2rad(np.sort(angles_to_truth(attacked, k))))
        np.testing.assert_allclose(tangents, 4 * sines, rtol=0.05)
        assert attacked.contributions[k].n_samples == round(5000 / 16)


def test_strong_noise_is_not_declared(honest):
    """Errors of about the length asked for; the samples stay as declared."""
    attacked = attack("strong-noise", honest, 0.4, strength=0.5)
    angles = np.concatenate([angles_to_truth(attacked, k) for k in attackers_of(attacked)])
    assert np.median(np.tan(np.deg2rad(angles))) == pytest.approx(0.5, rel=0.25)
    assert all(attacked.contributions[k].n_samples == 5000 for k in attackers_of(attacked))


def test_duplicates_are_copies_of_honest_clients(honest):
    """Each of another client, or as many of the same as the strength says."""
    for strength, n_victims in ((1, 4), (2, 2)):
        attacked = attack("duplicated-clients", honest, 0.33, strength=strength)
        victims = [
            [
                h
                for h in np.flatnonzero(attacked.honest)
                if same_up_to_signed_order(attacked.contributions[k].atoms, honest.contributions[h].atoms)
            ]
            for k in attackers_of(attacked)
        ]
        assert all(len(v) == 1 for v in victims)
        assert len({v[0] for v in victims}) == n_victims


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("hacking", "'rotation'.*got 'hacking'"), ("rotation:x", "strength"), ("none:2", "no strength")],
)
def test_unknown_attacks_are_refused(name, sentence):
    """The sentence says what there is."""
    with pytest.raises(OptionError, match=sentence):
        find_attack(name)


@pytest.mark.parametrize(
    ("name", "strength"),
    [
        ("rotation", -1),
        ("rotation", 200),
        ("phantom", 1.5),
        ("flood-false", 2),
        ("alie", -1),
        ("mimicry", 1.1),
        ("permuted-channels", 0),
        ("duplicated-clients", 0),
        ("worst-angle", 91),
    ],
)
def test_impossible_strengths_are_refused(honest, name, strength):
    """Whatever the attack counts in."""
    with pytest.raises(OptionError, match="strength"):
        attack(name, honest, 0.3, strength=strength)


def test_a_strength_can_be_given_with_the_name_and_a_server_must_be(honest):
    """The name rotation:15 is a rotation by 15 degrees; a search without a server is refused."""
    assert find_attack("rotation:15").strength == 15
    with pytest.raises(OptionError, match="give server="):
        find_attack("worst-angle")(honest, 0.3)


def unsearched(name, federation, share, strength):
    """Carry out an attack that would search, with one strength."""
    return attack(name, federation, share, strength=strength, needs_server=False)


@pytest.mark.parametrize("name", [n for n in FORGED if ATTACKS[n].colluding])
def test_no_two_colluders_send_an_identical_atom(honest, name):
    """Copies of one direction differ in their last digits, so that a test for identical atoms does not find them."""
    attacked = find_attack(name)(honest, 0.375, server=mean_server, random_state=1)
    atoms = np.concatenate([attacked.contributions[k].atoms for k in attackers_of(attacked)], axis=1)
    gaps = np.linalg.norm(atoms[:, :, None] - atoms[:, None, :], axis=0) + np.eye(atoms.shape[1])
    assert gaps.min() > 1e-8


def test_atoms_outside_the_span_are_orthogonal_to_every_component():
    """As many as asked for while they fit; a basis of all features beyond that."""
    federation = atoms_federation(8, 4, n_features=12, condition=10, components_per_client=3)
    for n_atoms in (1, 8, 12):
        attacked = unsearched("outside-span", federation, 0.2, n_atoms)
        for k in attackers_of(attacked):
            atoms = attacked.contributions[k].atoms
            np.testing.assert_allclose(atoms.T @ atoms, np.eye(n_atoms), atol=1e-9)
            assert (np.abs(federation.mixing.T @ atoms).max() < 1e-9) == (n_atoms <= 8)


def test_a_tight_basis_is_whole_where_honest_clients_see_a_part():
    """All r atoms, of one basis; attackers differ by the length asked for."""
    federation = atoms_federation(10, 6, components_per_client=3, random_state=1)
    attacked = attack("tight-basis", federation, 0.3, strength=0.01)
    first, second, _ = (attacked.contributions[k].atoms for k in attackers_of(attacked))
    assert first.shape == (6, 6)
    sines = np.sqrt(1 - match(first, second).cosines ** 2)
    assert 0.003 < sines.mean() < 0.03
    assert match(first, federation.mixing).cosines.min() < 0.9


@pytest.mark.parametrize("n_bent", [1, 2])
def test_bent_atoms_are_45_degrees_off_and_the_others_true(honest, n_bent):
    """Exactly so many, the same ones at every attacker."""
    attacked = attack("bent-atoms", honest, 0.3, strength=n_bent)
    bent = set()
    for k in attackers_of(attacked):
        cosines = np.sort(np.abs(honest.mixing.T @ attacked.contributions[k].atoms), axis=0)
        is_bent = cosines[-1] < 0.9
        assert is_bent.sum() == n_bent
        np.testing.assert_allclose(cosines[-2:, is_bent], np.sqrt(0.5), atol=1e-5)
        np.testing.assert_allclose(cosines[-1, ~is_bent], 1, atol=1e-9)
        bent.add(tuple(np.sort(np.abs(attacked.contributions[k].atoms[0, is_bent])).round(4)))
    assert len(bent) == 1


@pytest.mark.parametrize(("name", "n_leaning"), [("lean", 6), ("lean-one", 1)])
def test_a_lean_stays_inside_the_spread_and_is_common(name, n_leaning):
    """Of the length asked for, in typical errors of honest clients; with one component the others are their mean."""
    federation = atoms_federation(30, 6, condition=10, random_state=4)
    sources = np.linalg.pinv(federation.mixing)

    def shifts(attacked, k):
        own = sources @ attacked.contributions[k].atoms
        own = own[:, np.argsort(np.argmax(np.abs(own), axis=0))]
        mean = sources @ attacked.honest_mean()
        return np.linalg.norm(own / np.diag(own) - mean / np.diag(mean), axis=0)

    attacked = unsearched(name, federation, 0.3, 0.8)
    first, *others = attackers_of(attacked)
    leaning = shifts(attacked, first) > 0.02
    assert leaning.sum() == n_leaning
    assert leaning[0]
    assert shifts(attacked, first)[leaning].max() < 0.03 * np.sqrt(5) * 1.2
    for k in others:
        np.testing.assert_allclose(shifts(attacked, k), shifts(attacked, first), atol=1e-4)


def test_phantoms_are_added_and_merged_components_are_one_fewer():
    """Two atoms more, the same at every attacker, or one fewer: the sum of two."""
    federation = atoms_federation(10, 5, n_features=9, random_state=1)
    added, merged = (attack(name, federation, 0.3) for name in ("added-phantoms", "merged-components"))
    phantoms = []
    for k in attackers_of(added):
        own = match(added.contributions[k].atoms, federation.contributions[k].atoms).cosines > 1 - 1e-9
        assert own.size == 7
        assert own.sum() == 5
        phantoms.append(added.contributions[k].atoms[:, ~own])
        cosines = match(merged.contributions[k].atoms, federation.mixing).cosines
        assert cosines.size == 4
        assert (cosines < 0.8).sum() == 1
    assert all(same_up_to_signed_order(phantoms[0], other) for other in phantoms)


def test_a_claim_of_an_orthogonal_mixing_is_all_that_changes():
    """The atoms are the client's own."""
    federation = atoms_federation(10, 5, condition=10, declare_mixing=False)
    attacked = attack("claims-orthogonal", federation, 0.2)
    for k in attackers_of(attacked):
        assert attacked.contributions[k].mixing == "orthogonal"
        assert same_up_to_signed_order(attacked.contributions[k].atoms, federation.contributions[k].atoms)


def test_flips_and_shifts_move_features_and_change_no_number(honest):
    """Reversed where features have no places; shifted by a share of them."""
    flipped, shifted = (
        attack("flipped-maps", honest, 0.3),
        attack("shifted-features", honest, 0.3, strength=0.5, colluding=False),
    )
    for k in attackers_of(flipped):
        own = honest.contributions[k].atoms
        assert same_up_to_signed_order(flipped.contributions[k].atoms, own[::-1])
        assert same_up_to_signed_order(shifted.contributions[k].atoms, np.roll(own, 3, axis=0))


@pytest.mark.parametrize("name", ["none:1", "claims-orthogonal:1"])
def test_an_attack_without_a_strength_takes_none(name):
    """Said by its name."""
    with pytest.raises(OptionError, match=f"the attack '{name[:-2]}' has no strength"):
        find_attack(name)

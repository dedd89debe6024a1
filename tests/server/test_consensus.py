"""Consensus: a minority of bad clients barely affects the result."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine

from fedica import Contribution, LocalICA, aggregate
from fedica.arrays import polar, unit
from fedica.blocks import columns_of
from fedica.evaluate import recovery_error
from fedica.matching import match
from fedica.server.assign import MAX_DISTANCE, assign_atoms
from fedica.server.consensus.held_out import CONSENSUS, MEAN, best_for_others
from fedica.server.consensus.one_to_one import _mean_of_best, matched_one_to_one, mean_components
from fedica.server.consensus.shared_errors import _voices
from fedica.server.consensus.spreads import measure_spreads
from fedica.simulate import atoms_federation, people
from fedica.simulate.lean import Lean

seeds = st.integers(0, 2**32 - 1)


def conditioned(rng, d, r, condition):
    left, right = polar(rng.standard_normal((d, r))), polar(rng.standard_normal((r, r)))
    return unit(left @ np.diag(np.geomspace(1, 1 / condition, r)) @ right.T)


def honest_blocks(rng, A, n, noise=0.03):
    r = A.shape[1]
    return [unit(A @ (np.eye(r) + noise * rng.standard_normal((r, r)))) for _ in range(n)]


def send(blocks, rng):
    """Every client in its own order, with its own signs."""
    return [
        Contribution(f"client-{k:02d}", (b * rng.choice([-1.0, 1.0], b.shape[1]))[:, rng.permutation(b.shape[1])], 1000)
        for k, b in enumerate(blocks)
    ]


def error(found, truth):
    matched = match(found, truth)
    return np.linalg.norm(found * matched.signs - truth[:, matched.labels]) / np.sqrt(truth.shape[1])


BAD = {
    "random bases": lambda rng, A, own: polar(rng.standard_normal(A.shape)),
    "one wrong basis": lambda rng, A, own: polar(np.random.default_rng(99).standard_normal(A.shape)),
    "copies of a false atom": lambda rng, A, own: np.repeat(unit(np.ones((A.shape[0], 1))), A.shape[1], axis=1),
    "copies of a true atom": lambda rng, A, own: np.repeat(A[:, :1], A.shape[1], axis=1),
    "bridges": lambda rng, A, own: unit(A + np.roll(A, 1, axis=1)),
    "two bridged atoms": lambda rng, A, own: unit(np.hstack([A[:, :1] + A[:, 1:2], A[:, :1] - A[:, 1:2], own[:, 2:]])),
    "a phantom": lambda rng, A, own: np.hstack([unit(np.ones((A.shape[0], 1))), own[:, 1:]]),
    "swapped channels": lambda rng, A, own: own[np.random.default_rng(5).permutation(A.shape[0])],
}


@pytest.mark.parametrize("condition", [1.0, 30.0])
@pytest.mark.parametrize("attack", BAD)
def test_four_bad_clients_in_ten_change_nothing(attack, condition):
    """The error is that of the mean of the honest clients, where Algorithm 1 is far off or not."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A = conditioned(rng, 8, 8, condition)
        blocks = honest_blocks(rng, A, 30)
        honest = error(unit(np.mean(blocks[12:], axis=0)), A)
        spoilt = [BAD[attack](rng, A, blocks[k]) for k in range(12)] + blocks[12:]
        ratios.append(error(aggregate(send(spoilt, rng), 8).mixing, A) / honest)
    assert np.median(ratios) < 1.15


def test_flooding_breaks_algorithm_1_and_not_the_consensus():
    """One client in ten sends copies of one direction."""
    rng = np.random.default_rng(0)
    A = polar(rng.standard_normal((10, 10)))
    blocks = honest_blocks(rng, A, 30)
    flood = np.repeat(unit(rng.standard_normal((10, 1))), 10, axis=1)
    contributions = send([flood] * 3 + blocks[3:], rng)
    assert error(aggregate(contributions, 10, method="srf-ica").mixing, A) > 0.1
    assert error(aggregate(contributions, 10).mixing, A) < 0.02


def test_without_bad_clients_it_is_as_good_as_the_mean():
    """No attack: within two per cent of SF-ICA, on average over federations."""
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        A = conditioned(rng, 10, 10, 2.0)
        contributions = send(honest_blocks(rng, A, 30), rng)
        sf = error(aggregate(contributions, 10, method="sf-ica").mixing, A)
        ratios.append(error(aggregate(contributions, 10).mixing, A) / sf)
    assert np.mean(ratios) < 1.02


def test_rare_components_are_found():
    """Each client sees four of ten components, one of them three clients in thirty: still found."""
    rng = np.random.default_rng(1)
    A = polar(rng.standard_normal((10, 10)))
    seen = [rng.choice(9, 4, replace=False) for _ in range(30)]
    for k in range(3):
        seen[k][0] = 9
    blocks = [b[:, s] for b, s in zip(honest_blocks(rng, A, 30), seen, strict=True)]
    result = aggregate(send(blocks, rng), 10)
    assert error(result.mixing, A) < 0.06
    assert result.support.min() == 3


def test_orthogonal_mixing_gives_an_orthonormal_matrix():
    """Where the clients declare it, the result keeps it, and is no worse for it."""
    rng = np.random.default_rng(2)
    A = polar(rng.standard_normal((6, 6)))
    blocks = honest_blocks(rng, A, 12, noise=0.1)
    declared = [Contribution(f"c{k}", b, 10, mixing="orthogonal") for k, b in enumerate(blocks)]
    mixing = aggregate(declared, 6).mixing
    assert np.allclose(mixing.T @ mixing, np.eye(6), atol=1e-12)
    assert error(mixing, A) <= 1.05 * error(aggregate(send(blocks, rng), 6).mixing, A)


def test_clients_that_send_the_same_atoms_share_one_vote():
    """Fourteen copies of one honest client do not pull the result onto it."""
    rng = np.random.default_rng(3)
    A = polar(rng.standard_normal((10, 10)))
    blocks = honest_blocks(rng, A, 30)
    contributions = send([blocks[14]] * 14 + blocks[14:], rng)
    honest = error(unit(np.mean(blocks[14:], axis=0)), A)
    result = aggregate(contributions, 10)
    assert error(result.mixing, A) < 1.2 * honest
    assert error(aggregate(contributions, 10, method="srf-ica").mixing, A) > 2 * honest
    assert "15 clients sent these very atoms" in result.trust["client-00"].reason


def test_exact_agreement_of_a_majority_wins():
    """Clients without noise agree bit by bit: that is agreement, not collusion."""
    rng = np.random.default_rng(4)
    A = polar(rng.standard_normal((5, 5)))
    blocks = [A] * 8 + [polar(rng.standard_normal((5, 5))) for _ in range(5)]
    result = aggregate(send(blocks, rng), 5)
    assert error(result.mixing, A) < 1e-12
    assert len(result.trust.named("outlying")) == 5


@settings(max_examples=15, deadline=None)
@given(seed=seeds)
@example(seed=9999999)  # the test of (C5) is at its bound
def test_signs_and_order_do_not_matter(seed):
    """Flipping and permuting atoms change nothing."""
    rng = np.random.default_rng(seed)
    blocks = honest_blocks(rng, polar(rng.standard_normal((4, 4))), 9)
    reference = aggregate(send(blocks, rng), 4)
    again = aggregate(send(blocks, rng), 4)
    assert np.allclose(again.mixing, reference.mixing, atol=1e-7)


def test_a_change_of_basis_hardly_matters():
    """Any invertible map of the features maps the result, up to a fifth of its noise in the median federation."""
    over_noise, errors = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        A, turn = polar(rng.standard_normal((4, 4))), conditioned(rng, 4, 4, 5.0)
        blocks = honest_blocks(rng, A, 9)
        mapped = aggregate(send([unit(turn @ b) for b in blocks], rng), 4).mixing
        expected = unit(turn @ aggregate(send(blocks, rng), 4).mixing)
        over_noise.append(error(mapped, expected) / error(expected, unit(turn @ A)))
        errors.append(error(mapped, unit(turn @ A)))
    assert np.median(over_noise) < 0.2
    assert max(errors) < 0.05


class TestHowManyComponents:
    """n_components=None."""

    @pytest.mark.parametrize(("r", "d"), [(2, 2), (5, 10), (10, 10)])
    def test_counted_from_the_clients_that_agree(self, r, d):
        """Three bad clients in ten, well or badly conditioned."""
        for condition in (1.0, 10.0):
            rng = np.random.default_rng(r)
            A = conditioned(rng, d, r, condition)
            blocks = [polar(rng.standard_normal((d, r))) for _ in range(9)] + honest_blocks(rng, A, 21)
            result = aggregate(send(blocks, rng))
            assert result.n_components == r
            assert result.options["n_components_from"] == "clients"

    def test_counted_from_the_spectrum_when_clients_see_different_ones(self):
        """Every client sees six of ten: the gap in the spectrum tells."""
        rng = np.random.default_rng(7)
        A = polar(rng.standard_normal((10, 10)))
        blocks = [b[:, rng.choice(10, 6, replace=False)] for b in honest_blocks(rng, A, 30)]
        result = aggregate(send(blocks, rng))
        assert result.n_components == 10
        assert result.options["n_components_from"] == "spectrum"
        assert result.spectrum[9] > 2 * result.spectrum[10]

    def test_one_client_alone_keeps_what_it_has(self):
        """K = 1: nobody to disagree."""
        A = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
        assert aggregate([Contribution("a", A[:, :3], 10)]).n_components == 3

    def test_what_one_client_alone_sees_is_not_invented(self):
        """Eleven clients share three components; the twelfth has two of its own."""
        rng = np.random.default_rng(8)
        A = polar(rng.standard_normal((8, 8)))
        blocks = [b[:, :3] for b in honest_blocks(rng, A, 11)] + [honest_blocks(rng, A, 1)[0][:, 3:5]]
        assert aggregate(send(blocks, rng)).n_components == 3


def assign(atoms, owner, reference):
    return assign_atoms(columns_of(atoms, owner), owner, reference)


class TestAssignment:
    """Distances in the coordinates of the reference."""

    @settings(max_examples=25, deadline=None)
    @given(seed=seeds)
    def test_unchanged_by_any_invertible_map(self, seed):
        """Mapping atoms and reference together changes no label and no distance where d = r."""
        rng = np.random.default_rng(seed)
        B, T = conditioned(rng, 5, 5, 3.0), conditioned(rng, 5, 5, 4.0)
        atoms = np.hstack(honest_blocks(rng, B, 4, noise=0.1))
        owner = np.repeat(np.arange(4), 5)
        one = assign(atoms, owner, B)
        scaled = T @ B
        other = assign(T @ atoms, owner, scaled)
        assert np.array_equal(one.labels, other.labels)
        assert np.allclose(one.distance, other.distance, rtol=1e-6, atol=1e-9)

    def test_a_client_gives_each_component_at_most_one_atom(self):
        """Copies of one atom are spread over components, and all but one are far."""
        B = np.eye(3)
        atoms = np.repeat(B[:, :1], 3, axis=1)
        found = assign(atoms, np.zeros(3, dtype=int), B)
        assert sorted(found.labels) == [0, 1, 2]
        assert sorted(found.distance) == [0.0, MAX_DISTANCE, MAX_DISTANCE]

    def test_distance_is_the_tangent_of_the_angle_for_an_orthonormal_reference(self):
        """Degenerate oracle: thirty degrees off, also out of the span of the reference."""
        B = np.eye(3)[:, :2]
        out = np.array([[np.cos(np.pi / 6)], [0.0], [np.sin(np.pi / 6)]])
        inside = np.array([[np.cos(np.pi / 6)], [-np.sin(np.pi / 6)], [0.0]])
        for atom in (out, inside, -inside):
            found = assign(atom, np.zeros(1, dtype=int), B)
            assert found.labels[0] == 0
            assert found.distance[0] == pytest.approx(np.tan(np.pi / 6))


def test_atoms_of_a_whole_brain_need_no_square_of_their_length():
    """A matrix of features by features would take 3.2 GB here; the atoms themselves take 2 MB."""
    rng = np.random.default_rng(0)
    truth = unit(rng.standard_normal((20_000, 3)))
    contributions = send(honest_blocks(rng, truth, 4), rng)
    tracemalloc.start()
    try:
        result = aggregate(contributions, 3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.support.tolist() == [4, 4, 4]
    assert peak < 100e6


def test_one_client_cannot_outvote_sixty_by_sending_more_atoms():
    """Each knows six of ten components; one sends 54 atoms outside their span: one vote per client."""
    rng = np.random.default_rng(0)
    A = conditioned(rng, 64, 10, 10.0)
    blocks = [b[:, rng.permutation(10)[:6]] for b in honest_blocks(rng, A, 60, noise=0.05)]
    outside = rng.standard_normal((64, 54))
    outside = unit(outside - polar(A) @ (polar(A).T @ outside))
    honest = error(aggregate(send(blocks[1:], rng), 10).mixing, A)
    assert error(aggregate(send([outside, *blocks[1:]], rng), 10).mixing, A) < 1.05 * honest


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_a_minority_that_shares_an_error_inside_the_spread_stands_apart(share):
    """Attackers lean by 0.8 of an honest client's error, all in one direction, each jittered by 1e-6."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A = conditioned(rng, 10, 10, 10.0)
        blocks = honest_blocks(rng, A, 30, noise=0.05)
        n_bad = round(30 * share)
        lean = rng.standard_normal((10, 10)) * (1 - np.eye(10))
        lean *= 0.8 * 0.05 * 3 / np.linalg.norm(lean, axis=0)
        centre = np.linalg.solve(A, unit(np.mean(blocks[n_bad:], axis=0)))
        leaning = [unit(A @ (centre + lean) + 1e-6 * rng.standard_normal(A.shape)) for _ in range(n_bad)]
        honest = error(aggregate(send(blocks[n_bad:], rng), 10).mixing, A)
        ratios.append(error(aggregate(send(leaning + blocks[n_bad:], rng), 10).mixing, A) / honest)
    assert max(ratios) < 1.15


def over_honest_alone(faced, component=None):
    """Error over that on the honest clients alone, of one component or of all."""
    honest = [c for c, is_honest in zip(faced.contributions, faced.honest, strict=True) if is_honest]
    r = faced.mixing.shape[1]
    ours, alone = (recovery_error(aggregate(c, r).mixing, faced.mixing) for c in (faced.contributions, honest))
    return (
        ours.relative / alone.relative if component is None else (ours.per_component / alone.per_component)[component]
    )


@pytest.mark.parametrize(("size", "scatter"), [(1.2, 0.0), (2.2, 0.6)])
def test_a_minority_that_leans_with_one_component_does_not_decide_on_it(size, scatter):
    """Two in five clients turn one component, with errors of their own or none; the rest is the honest mean."""
    drawn = [
        atoms_federation(30, 10, condition=10.0, error=0.05, declare_mixing=False, random_state=s) for s in range(4)
    ]
    lean = Lean(size=size, scatter=scatter, share=0.0)
    assert np.median([over_honest_alone(lean(d, 0.4, random_state=s), 0) for s, d in enumerate(drawn)]) < 1.5


def test_few_clients_that_differ_are_not_taken_for_two_parties():
    """Ten clients whose noise differs log-normally, 20 components: chance splits so few in two that seem far apart."""
    ratios = []
    for seed in (0, 4, 7, 8):
        drawn = atoms_federation(10, 20, error=0.05, error_law="clients", declare_mixing=False, random_state=seed)
        found = (aggregate(drawn.contributions, 20, method=m).mixing for m in ("consensus", "srf-ica"))
        ours, median = (recovery_error(mixing, drawn.mixing).relative for mixing in found)
        ratios.append(ours / median)
    assert max(ratios) < 1.1


def test_a_chain_of_attackers_among_many_clients_stands_apart():
    """Two in five of a hundred clients lean, half of them half as far: what many clients show is told from chance."""
    lean = Lean(size=1.91, scatter=0.16, share=0.49, steps=2, along=0.55)
    drawn = [
        atoms_federation(100, 10, condition=10.0, error=0.05, declare_mixing=False, random_state=s) for s in range(2)
    ]
    assert max(over_honest_alone(lean(d, 0.4, random_state=s)) for s, d in enumerate(drawn)) < 1.2


def test_attackers_who_agree_closely_do_not_pass_for_the_most_accurate():
    """Noise differs log-normally between honest clients; two in five clients lean by 0.6 of a typical error, as one."""
    drawn = [
        atoms_federation(30, 10, error=0.05, error_law="clients", declare_mixing=False, random_state=s)
        for s in range(4)
    ]
    lean = Lean(size=0.6)
    assert np.median([over_honest_alone(lean(d, 0.4, random_state=s)) for s, d in enumerate(drawn)]) < 1.3


def test_many_attackers_near_the_centre_do_not_gain_weight_where_dimensions_are_many():
    """A small lean of 40% of a hundred clients, in 20 components: each seems accurate, and all err the same way."""
    lean = Lean(size=0.22, share=0.96, steps=2, along=0.77)
    costs = [
        over_honest_alone(
            lean(
                atoms_federation(100, 20, error=0.05, condition=10.0, declare_mixing=False, random_state=seed),
                0.4,
                random_state=seed,
            )
        )
        for seed in (1, 2)
    ]
    assert max(costs) < 1.6  # 2.1 where they gain weight


def test_clients_that_agree_closely_because_they_are_accurate_are_not_left_out():
    """Twelve of thirty clients have a 25th of the others' errors: the result is not that of the others alone."""
    rng = np.random.default_rng(0)
    A = conditioned(rng, 10, 10, 10.0)
    blocks = honest_blocks(rng, A, 12, noise=0.002) + honest_blocks(rng, A, 18, noise=0.05)
    others = error(aggregate(send(blocks[12:], rng), 10).mixing, A)
    assert error(aggregate(send(blocks, rng), 10).mixing, A) < 0.2 * others


def test_clients_that_send_the_same_are_no_majority():
    """(C4): twelve clients in one place count for next to nothing beside thirteen that scatter."""
    rng = np.random.default_rng(0)
    vectors = np.concatenate([3 + 1e-6 * rng.standard_normal((12, 2, 5)), rng.standard_normal((13, 2, 5))])
    together, scattered = _voices(vectors, np.ones((25, 2), dtype=bool), np.arange(25) >= 12)
    assert together < 1e-3
    assert 10 < scattered <= 13


def test_clients_of_unequal_noise_count_by_their_accuracy():
    """Noise differs log-normally between clients: better than the plain mean, by a tenth at least."""
    ratios = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A = conditioned(rng, 10, 10, 2.0)
        blocks = [honest_blocks(rng, A, 1, noise=0.05 * np.exp(0.6 * rng.standard_normal()))[0] for _ in range(30)]
        contributions = send(blocks, rng)
        sf = error(aggregate(contributions, 10, method="sf-ica").mixing, A)
        ratios.append(error(aggregate(contributions, 10).mixing, A) / sf)
    assert np.mean(ratios) < 0.9


@pytest.mark.parametrize(("law", "of_mean", "of_median"), [("clients", 0.9, 1.05), ("equal", 1.05, 1.05)])
def test_five_clients_count_by_their_accuracy_as_far_as_they_show_it(law, of_mean, of_median):
    """Better than the mean where clients differ, as good where they do not; never much worse than Algorithm 1."""
    errors = []
    for seed in range(6):
        drawn = atoms_federation(5, 10, error=0.05, error_law=law, declare_mixing=False, random_state=700 + seed)
        found = [aggregate(drawn.contributions, 10, method=m).mixing for m in ("consensus", "sf-ica", "srf-ica")]
        errors.append([recovery_error(mixing, drawn.mixing).relative for mixing in found])
    ours, mean, median = np.exp(np.log(errors).mean(axis=0))
    assert ours < of_mean * mean
    assert ours < of_median * median


@pytest.mark.parametrize("n_clients", [20, 50])
def test_heavy_tails_show_among_few_components_too(n_clients):
    """Student's t, 3 degrees of freedom, five components: as good as geometric medians of the true groups."""
    errors = []
    for seed in range(8):
        drawn = atoms_federation(
            n_clients, 5, error=0.05, error_law="heavy-tailed", declare_mixing=False, random_state=seed
        )
        answers = [aggregate(drawn.contributions, 5, method=method).mixing for method in ("consensus", "srf-ica")]
        errors.append([recovery_error(answer, drawn.mixing).relative for answer in answers])
    ours, paper = np.exp(np.log(errors).mean(axis=0))
    assert ours < 1.05 * paper


@pytest.mark.parametrize("n_clients", [20, 50])
@pytest.mark.parametrize("law", ["equal", "heavy-tailed"])
def test_degrees_of_freedom_follow_the_tails(n_clients, law):
    """Few where tails are heavy; as many as there are clients where errors are normal, in four dimensions too.

    Where clients are taken to be alike, so are their tails: there is none.
    """
    found = []
    for seed in range(5):
        drawn = atoms_federation(n_clients, 5, error=0.05, error_law=law, random_state=seed)
        owner = np.repeat(np.arange(n_clients), 5)
        atoms = columns_of(np.concatenate([c.atoms for c in drawn.contributions], axis=1), owner)
        assignment = assign_atoms(atoms, owner, drawn.mixing)
        told = 0.455 / np.median(np.random.default_rng(seed).beta(0.5, 1.5, 10_000))  # squared cosines, p = 4
        as_alike, as_found = (
            measure_spreads(assignment, owner, n_clients, 5, dimension=told, alike=alike) for alike in (True, False)
        )
        assert as_alike.freedom == n_clients
        found.append(as_found.freedom)
    assert np.median(found) == n_clients if law == "equal" else np.median(found) < 8


def test_a_minority_near_the_centre_gains_no_more_than_clients_differ():
    """Three of ten send nearly the same, beside the mean of clients that are alike; 1.4 x the error if believed."""
    moved = []
    for seed in range(4):
        drawn = atoms_federation(100, 20, condition=10, error=0.05, declare_mixing=False, random_state=seed)
        faced = Lean(size=0.13, scatter=0.04, along=0.1)(drawn, 0.3, random_state=seed)
        honest = [c for c, good in zip(faced.contributions, faced.honest, strict=True) if good]
        errors = [
            recovery_error(aggregate(sent, 20).mixing, drawn.mixing).relative for sent in (faced.contributions, honest)
        ]
        moved.append(errors[0] / errors[1])
    assert np.median(moved) < 1.3


def test_atoms_between_components_are_not_forced_onto_one():
    """(C6): atoms of twelve clients that lie between components; the halves agree better than those of Algorithm 1."""
    rng = np.random.default_rng(4)
    A = polar(rng.standard_normal((100, 8)))
    mixed = [A @ unit(np.eye(8) + 0.35 * rng.standard_normal((8, 8))) for _ in range(24)]
    blocks = [unit(b + 0.6 * unit(rng.standard_normal(b.shape))) for b in mixed]
    halves = send(blocks[:12], rng), send(blocks[12:], rng)
    likeness = {
        method: match(*(aggregate(half, 8, method=method).mixing for half in halves)).cosines.mean()
        for method in ("consensus", "srf-ica")
    }
    assert likeness["consensus"] > likeness["srf-ica"]


def test_halves_with_fewer_atoms_than_components_are_no_obstacle():
    """Fourteen clients with five atoms each that agree on little, and forty components: a half has 35 atoms."""
    rng = np.random.default_rng(8)
    blocks = [unit(rng.standard_normal((60, 5))) for _ in range(14)]
    assert aggregate(send(blocks, rng), 40).n_components == 40


@pytest.mark.parametrize(("n_others", "chosen"), [(4, CONSENSUS), (6, MEAN)])
def test_fewer_than_half_of_the_clients_do_not_choose_the_answer(n_others, chosen):
    """Ten clients, of which some are served by another basis than the rest: the median client decides."""
    rng = np.random.default_rng(0)
    ours, theirs = (np.linalg.qr(rng.standard_normal((6, 3)))[0] for _ in range(2))
    atoms = np.concatenate([theirs if k < n_others else ours for k in rng.permutation(10)], axis=1)
    owner = np.repeat(np.arange(10), 3)
    fitted = []

    def fitted_to(own):
        fitted.append(own)
        return ours, ours, ours, ours, theirs

    assert best_for_others(fitted_to, atoms, owner) == chosen
    held_out = [np.setdiff1d(np.arange(30), own) for own in fitted]
    assert np.array_equal(np.sort(np.concatenate(held_out)), np.arange(30))  # every client is held out once


def test_components_that_are_alike_and_known_to_some_are_kept_apart():
    """EEG of simulated people, some of whom lack components: over draws, consensus is nearer than Algorithm 1.

    On single draws either may merge two of these components, and rounding decides which.
    """
    ratios = []
    for seed in (8, 9, 10):
        drawn = people(20, 12, kind="eeg", random_state=seed)
        ours, paper = (
            recovery_error(aggregate(drawn.contributions, 12, method=method).mixing, drawn.mixing).relative
            for method in ("consensus", "srf-ica")
        )
        ratios.append(ours / paper)
    assert np.exp(np.mean(np.log(ratios))) < 0.9


class TestOneToOne:
    """Components to which every client gives at most one atom: the matched answer of (C6)."""

    def test_two_alike_components_in_one_group_are_told_apart(self):
        """A start that has one component twice and another not at all loses against one that has both."""
        rng = np.random.default_rng(0)
        truth = np.eye(5)[:, :4]
        truth[:, 1] = unit(truth[:, [0]] + 0.8 * truth[:, [1]])[:, 0]
        atoms = unit(np.tile(truth, 12) + 0.2 * rng.standard_normal((5, 48)))
        merged = unit(np.stack([truth[:, 0] + truth[:, 1], truth[:, 2], truth[:, 3], truth[:, 3] + 0.1], axis=1))
        found = matched_one_to_one(atoms, np.repeat(np.arange(12), 4), (merged, truth))
        assert match(found, truth).cosines.min() > 0.98

    def test_ends_between_which_clients_do_not_decide_are_averaged(self):
        """Two ends, of which either serves half of the twelve clients better; and two of which all prefer the same."""
        one, other = np.eye(4)[:, :2], np.eye(4)[:, :2].copy()
        other[:, 1] = unit(np.array([[0.0], [1.0], [0.8], [0.0]]))[:, 0]
        found = _mean_of_best([(one, np.tile([2.0, 1.6], 6)), (other, np.tile([1.6, 2.0], 6))])
        assert found[:, 0] == pytest.approx(one[:, 0])
        between = unit(one[:, 1:] + other[:, 1:] / 1.64)[:, 0]  # 1 / 1.64 is the squared cosine
        assert abs(between @ found[:, 1]) == pytest.approx(1)
        found = _mean_of_best([(one, np.tile([2.0, 1.6], 6)), (other, np.tile([1.9, 1.5], 6))])
        assert found == pytest.approx(one, abs=1e-12)  # every client says that the first is better

    @given(seeds)
    @settings(max_examples=20)
    def test_the_mean_of_answers_follows_neither_their_order_nor_their_signs(self, seed):
        """The mean of an answer with itself, reordered and flipped, is that answer; it lies between two answers."""
        rng = np.random.default_rng(seed)
        one, other = (np.linalg.qr(rng.standard_normal((6, 3)))[0] for _ in range(2))
        order, signs = rng.permutation(3), rng.choice([-1.0, 1.0], 3)
        assert mean_components((one, one[:, order] * signs)) == pytest.approx(one, abs=1e-12)
        mean = mean_components((one, other))
        assert mean == pytest.approx(mean_components((one, other[:, order] * signs)), abs=1e-12)
        matched = match(other, one)
        assert (np.abs(np.sum(mean * one, axis=0))[matched.labels] >= matched.cosines - 1e-12).all()

    @given(seeds)
    @settings(max_examples=20)
    def test_signs_and_order_of_atoms_do_not_matter(self, seed):
        """The same components, to rounding."""
        rng = np.random.default_rng(seed)
        atoms, owner = unit(rng.standard_normal((4, 15))), np.repeat(np.arange(5), 3)
        start = np.linalg.qr(rng.standard_normal((4, 3)))[0]
        order = np.concatenate([3 * k + rng.permutation(3) for k in range(5)])
        turned = (atoms * rng.choice([-1.0, 1.0], 15))[:, order]
        one, other = (matched_one_to_one(x, owner, (start,)) for x in (atoms, turned))
        assert one == pytest.approx(other, abs=1e-12)

    def test_each_component_is_the_weighted_mean_of_its_atoms(self):
        """At the end the components are a fixed point: the means of their atoms, weighed by squared cosines."""
        rng = np.random.default_rng(1)
        truth = np.linalg.qr(rng.standard_normal((6, 3)))[0]
        atoms = unit(np.tile(truth, 10) + 0.1 * rng.standard_normal((6, 30)))
        found = matched_one_to_one(atoms, np.repeat(np.arange(10), 3), (truth,))
        likeness = found.T @ atoms
        labels = np.abs(likeness).argmax(axis=0)
        for a in range(3):
            own = likeness[a, labels == a]
            mean = atoms[:, labels == a] @ (own**2 * np.sign(own))
            assert abs(unit(mean[:, None])[:, 0] @ found[:, a]) == pytest.approx(1, abs=1e-4)


class TestHowManyReplicate:
    """``n_components=None`` where clients have components of their own, or where some want to change the number."""

    def test_components_of_ones_own_are_not_counted(self):
        """Each client has six components of all and four of its own, seen at a cosine of about 0.8."""
        rng = np.random.default_rng(5)
        A = polar(rng.standard_normal((120, 6)))
        blocks = [
            unit(np.hstack([A, polar(rng.standard_normal((120, 4)))]) + 0.07 * rng.standard_normal((120, 10)))
            for _ in range(20)
        ]
        result = aggregate(send(blocks, rng))
        assert result.n_components == 6
        assert result.options["n_components_from"] == "replication"

    def test_a_gap_in_the_spectrum_of_four_clients_is_not_enough(self):
        """Wine, dealt to four clients that send five atoms each; two or three replicate, and the gap is at 6 to 13."""
        rows = load_wine().data
        counts = []
        for seed in (1, 14, 15, 18):
            order = np.random.default_rng(seed).permutation(len(rows))
            parts = np.array_split((rows / rows.std(axis=0))[order], 4)
            fits = [LocalICA(5, random_state=0).fit(part).contribution(f"client-{k}") for k, part in enumerate(parts)]
            result = aggregate(fits)
            assert result.options["n_components_from"] == "replication"
            counts.append(result.n_components)
        assert max(counts) <= 4
        assert np.median(counts) >= 2

    @pytest.mark.parametrize("kind", ["two phantoms more", "as many random atoms as features"])
    def test_a_fifth_of_the_clients_does_not_change_it(self, kind):
        """Honest clients know six of ten components."""
        rng = np.random.default_rng(6)
        A, phantoms = polar(rng.standard_normal((20, 10))), unit(rng.standard_normal((20, 2)))
        blocks = [b[:, rng.permutation(10)[:6]] for b in honest_blocks(rng, A, 30, noise=0.05)]
        for k in range(6):
            if kind == "two phantoms more":
                blocks[k] = np.hstack([blocks[k], unit(phantoms + 0.01 * rng.standard_normal((20, 2)))])
            else:
                blocks[k] = unit(rng.standard_normal((20, 20)))
        assert aggregate(send(blocks, rng)).n_components == 10

"""Who is trusted, who is weak, who is outlying, and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student_t

from fedica import Contribution, aggregate
from fedica.arrays import polar, unit
from fedica.blocks import Drawn, columns_of
from fedica.matching import match
from fedica.server.agreement import efficient_deviation
from fedica.server.trust.judge import expected_likeness, span_is_right
from fedica.server.trust.likeness import FREEDOM_LOST, Chance, chance_likeness, unlike_others
from fedica.server.trust.measure import deviations
from fedica.simulate import find_attack, people


def federation(seed=0, K=30, r=10, noise=0.03):
    rng = np.random.default_rng(seed)
    A = polar(rng.standard_normal((r, r)))
    return A, [unit(A @ (np.eye(r) + noise * rng.standard_normal((r, r)))) for _ in range(K)], rng


def named(blocks, samples=None):
    samples = samples or [5000] * len(blocks)
    return [Contribution(f"client-{k:02d}", b, n) for k, (b, n) in enumerate(zip(blocks, samples, strict=True))]


def test_honest_clients_are_trusted():
    """No false alarm among thirty honest clients."""
    _, blocks, _ = federation()
    trust = aggregate(named(blocks), 10).trust
    assert set(trust.verdict) == {"trusted"}
    assert trust.summary(5) == []
    assert "agrees with the components (median cosine 1.00; chance 0." in trust["client-03"].reason


@pytest.mark.parametrize("method", ["consensus", "srf-ica"])
def test_random_atoms_are_outlying(method):
    """Whatever the method, a client with random atoms is named."""
    _, blocks, rng = federation()
    blocks[4] = polar(rng.standard_normal((10, 10)))
    trust = aggregate(named(blocks), 10, method=method).trust
    assert trust.named("outlying") == ("client-04",)
    assert "none of its 10 atoms matches a component" in trust["client-04"].reason
    assert trust["client-04"].n_unmatched == 10
    assert trust.summary(1)[0].startswith("outlying: 'client-04'")


def test_outliers_that_agree_are_said_to_agree():
    """A wrong preprocessing shared by three clients is visible as such."""
    _, blocks, rng = federation()
    swap = rng.permutation(10)
    for k in range(3):
        blocks[k] = blocks[k][swap]
    trust = aggregate(named(blocks), 10).trust
    assert trust.named("outlying") == ("client-00", "client-01", "client-02")
    assert "agrees with 2 other outlying clients on another basis" in trust["client-00"].reason


def test_one_component_of_its_own_is_told_and_not_held_against_a_client():
    """A single atom of ten that nobody else has: people have components of their own."""
    _, blocks, rng = federation()
    blocks[7][:, 3] = unit(rng.standard_normal((10, 1)))[:, 0]
    trust = aggregate(named(blocks), 10).trust
    assert trust.named("outlying") == ()
    assert "1 of its 10 atoms matches no component" in trust["client-07"].reason


def test_a_client_that_matches_few_components_is_outlying():
    """Half of its atoms are its own, where the others match nearly all: that is said with numbers."""
    _, blocks, rng = federation()
    blocks[7][:, 2:8] = unit(rng.standard_normal((10, 6)))
    trust = aggregate(named(blocks), 10).trust
    assert trust.named("outlying") == ("client-07",)
    assert trust["client-07"].reason.startswith("matches 4 of 10 components; the other clients match 10")


@pytest.mark.parametrize("seed", range(3))
def test_people_who_differ_are_not_accused(seed):
    """Cosines of about one half, components of one's own, unequal noise: hardly anybody is outlying."""
    rng = np.random.default_rng(seed)
    A = polar(rng.standard_normal((300, 8)))
    blocks = []
    for _ in range(24):
        clarity = np.clip(0.55 * np.exp(0.25 * rng.standard_normal(8)), 0, 0.95)
        own = rng.random(8) < 0.15
        noise = polar(rng.standard_normal((300, 8)))
        blocks.append(unit(A * np.where(own, 0, clarity) + noise * np.sqrt(1 - np.where(own, 0, clarity) ** 2)))
    result = aggregate(named(blocks), 8)
    assert len(result.trust.named("outlying")) <= 1
    cosines = np.abs(A.T @ result.mixing).max(axis=0)
    assert cosines.min() > 0.85


def test_few_declared_samples_explain_noise():
    """A client with few samples that says so is weak; one that claims many is outlying."""
    A, blocks, rng = federation()
    noisy = unit(A @ (np.eye(10) + 0.12 * rng.standard_normal((10, 10))))
    samples = [5000] * 30
    samples[2] = 300
    blocks[2] = noisy
    trust = aggregate(named(blocks, samples), 10).trust
    assert trust["client-02"].verdict == "weak"
    assert "as its 300 samples explain" in trust["client-02"].reason
    samples[2] = 5000
    assert aggregate(named(blocks, samples), 10).trust["client-02"].verdict == "outlying"


def test_as_many_samples_as_the_others_explain_no_noise():
    """A client a little noisier than the rest is weak; that its many samples explain it would be nonsense."""
    A, blocks, rng = federation(noise=0.005)
    blocks[2] = unit(A @ (np.eye(10) + 0.02 * rng.standard_normal((10, 10))))
    row = aggregate(named(blocks, [5000] * 30), 10).trust["client-02"]
    assert row.verdict == "weak"
    assert row.reason.startswith("noisier than most (median cosine")


def test_atoms_beyond_the_components_are_no_fault():
    """Clients that agree on five components, and found more of their own, agree in part; nobody is in doubt."""
    rng = np.random.default_rng(0)
    A = polar(rng.standard_normal((12, 5)))
    blocks = [
        unit(np.column_stack([A + 0.01 * rng.standard_normal((12, 5)), rng.standard_normal(12)])) for _ in range(20)
    ]
    blocks[4][:, 2] = unit(rng.standard_normal((12, 1)))[:, 0]  # one has two of its own, and so lacks a component
    trust = aggregate(named(blocks), 5).trust
    assert len(trust.named("partial")) == 20
    assert trust.summary(10) == []
    assert "2 of its 6 atoms match no component" in trust["client-04"].reason
    assert "1 of its 6 atoms matches no component" in trust["client-00"].reason


def test_a_missing_component_is_named():
    """A client that lacks one component agrees in part; the others are trusted."""
    A, blocks, _ = federation()
    blocks[5] = blocks[5][:, :9]
    result = aggregate(named(blocks), 10)
    row = result.trust["client-05"]
    lacking = int(np.argmax(np.abs(A[:, 9] @ result.mixing)))
    assert row.verdict == "partial"
    assert row.reason.startswith("agrees on what it has (median cosine")
    assert len(result.trust.named("trusted")) == 29
    assert row.missing == (lacking,)
    assert f"lacks component {lacking}" in row.reason
    assert result.trust.angles[5, lacking] == 90.0
    assert result.support[lacking] == 29


@pytest.mark.parametrize(("method", "off"), [("sf-ica", 1e-4), ("consensus", 0.5), ("srf-ica", 0.5)])
def test_influence_is_what_leaving_the_client_out_does(method, off):
    """Against refitting without each client: exact for means, one reweighting off for the others."""
    _, blocks, _ = federation(K=20, r=6, noise=0.08)
    contributions = named(blocks)
    result = aggregate(contributions, 6, method=method)
    for k in range(20):
        without = aggregate(contributions[:k] + contributions[k + 1 :], 6, method=method)
        cosine = np.abs(result.mixing.T @ without.mixing).max(axis=1)
        turned = np.degrees(np.arccos(np.minimum(cosine, 1))).max()
        assert result.trust[f"client-{k:02d}"].influence == pytest.approx(turned, rel=off, abs=0.1 if off > 0.1 else 0)


def test_outlying_clients_have_no_influence_on_the_consensus():
    """They count nothing: leaving them out moves nothing."""
    _, blocks, rng = federation()
    blocks[0] = polar(rng.standard_normal((10, 10)))
    trust = aggregate(named(blocks), 10).trust
    assert trust["client-00"].influence == 0
    assert trust["client-01"].influence > 0


def test_a_small_federation_that_agrees_closely_raises_no_alarm():
    """Five clients within two degrees: some are several times as far as others, and none is outlying."""
    for seed in range(20):
        _, blocks, _ = federation(seed=seed, K=5, r=3, noise=0.01)
        assert not aggregate(named(blocks), 3).trust.named("outlying")


def test_trust_is_found_by_name_and_iterates_by_row():
    """Columns for the many, rows for the one."""
    _, blocks, _ = federation(K=4)
    trust = aggregate(named(blocks), 10).trust
    assert len(trust) == 4
    assert [row.client for row in trust] == list(trust.clients)
    with pytest.raises(KeyError):
        trust["nobody"]


@pytest.mark.parametrize(
    ("wrong", "uncertain", "verdict"),
    [
        (range(6), None, "outlying"),
        (range(6), range(6), "weak"),  # not blamed for what it says it does not know, and not trusted for saying so
        (range(5), range(5), "weak"),
        (range(6), range(6, 10), "outlying"),  # the marks are on other atoms
        (range(10), range(10), "weak"),
        (range(10), range(9), "outlying"),  # the one atom that it vouches for is wrong
        ((), range(10), "weak"),
        ((), range(4), "trusted"),
        (range(2), range(2), "partial"),
    ],
)
def test_uncertain_atoms_do_not_count_against_a_client(wrong, uncertain, verdict):
    """Marks excuse the atoms that they are on; who marks more than half of its atoms is weak at best."""
    _, blocks, rng = federation()
    blocks[7][:, list(wrong)] = unit(rng.standard_normal((10, len(wrong))))
    contributions = named(blocks)
    contributions[7] = replace(contributions[7], uncertain=None if uncertain is None else list(uncertain))
    trust = aggregate(contributions, 10).trust
    assert trust["client-07"].verdict == verdict
    assert all(row.verdict == "trusted" for row in trust if row.client != "client-07")
    if verdict == "weak":
        n = len(uncertain)
        assert trust["client-07"].reason.startswith(f"its data does not determine {n} of its 10 atoms, as it says")


@pytest.mark.parametrize(("right", "verdict"), [(True, "weak"), (False, "outlying")])
def test_few_samples_explain_a_rotation_and_not_a_span(right, verdict):
    """Sixty samples let a local ICA find any rotation, but of the leading directions, which they do show."""
    rng = np.random.default_rng(0)
    A = polar(rng.standard_normal((40, 8)))
    blocks = [unit(A + 0.02 * rng.standard_normal(A.shape)) for _ in range(20)]
    blocks[4] = blocks[4] @ polar(rng.standard_normal((8, 8))) if right else polar(rng.standard_normal((40, 8)))
    trust = aggregate(named(blocks, [60 if k == 4 else 5000 for k in range(20)]), 8).trust
    assert trust["client-04"].verdict == verdict
    assert all(row.verdict != "outlying" for row in trust if row.client != "client-04")


@pytest.mark.parametrize(
    ("n_few", "inside", "right"), [(1, 0.5, True), (4, 0.5, False), (4, 0.7, True), (1, 0.1, False)]
)
def test_clients_with_few_samples_tell_what_few_samples_do_to_a_span(n_few, inside, right):
    """A fifth of the samples may explain half a span; not where others with as few have nearly all of it."""
    shares = np.array([*[0.9] * 10, *[0.85] * (n_few - 1), inside])
    excess = np.array([*[1.0] * 10, *[np.sqrt(5.0)] * n_few])
    assert span_is_right(shares, excess)[-1] == right


def test_a_span_of_the_whole_space_says_nothing():
    """With as many atoms as features every span holds all: whoever has few samples stays excused."""
    assert span_is_right(np.ones(12), np.array([*[1.0] * 11, 5.0])).all()


class TestDeviation:
    """How much clients differ, told by a few of them."""

    def test_one_far_value_does_not_count(self):
        """The deviation of normal values, with and without one that is far from them."""
        values = np.random.default_rng(0).standard_normal(2000)
        assert efficient_deviation(values) == pytest.approx(1.0, abs=0.05)
        assert efficient_deviation(np.append(values, 1e6)) == pytest.approx(efficient_deviation(values), rel=1e-2)

    def test_equal_values_have_no_deviation(self):
        """Also where one of them is not equal."""
        assert efficient_deviation(np.array([1.0, 1.0, 1.0, 1.0, 2.0])) == 0

    @pytest.mark.parametrize("n", [6, 12, 16])
    def test_a_quantile_is_exceeded_about_as_often_as_it_says(self, n):
        """One new value in a hundred; with the median absolute deviation it would be nearly two."""
        values = np.random.default_rng(n).standard_normal((20_000, n + 1))
        quantile = student_t.ppf(0.99, n - FREEDOM_LOST)
        limit = [np.median(row[:n]) + quantile * efficient_deviation(row[:n]) for row in values]
        assert 0.008 < np.mean(values[:, n] > limit) < 0.0145

    def test_clients_that_are_far_do_not_widen_the_spread_of_distances(self):
        """A fifth of them, a hundred times as far as the others."""
        near = np.exp(0.3 * np.random.default_rng(0).standard_normal(40)) * 0.01
        all_of_them = deviations(np.append(near, [1.0] * 10), np.full(50, 10), 10)
        assert all_of_them[0] == pytest.approx(deviations(near, np.full(40, 10), 10)[0], rel=1e-6)


@pytest.mark.parametrize(("n_few", "likeness", "explained"), [(1, 0.35, True), (4, 0.35, False), (4, 0.65, True)])
def test_clients_with_few_samples_tell_what_few_samples_explain(n_few, likeness, explained):
    """A tenth of the samples may explain ten times the squared error; not where others with as few are like most."""
    likenesses = np.array([*[0.75] * 10, *[0.7] * (n_few - 1), likeness])
    excess = np.array([*[1.0] * 10, *[np.sqrt(10.0)] * n_few])
    assert (likenesses >= expected_likeness(likenesses, excess))[-1] == explained


class TestLikeness:
    """Clients whose atoms are much less like the components than those of the others."""

    def unlike(self, likeness, n_atoms=10, within=0.1, own=0.3):
        """The clients that are found."""
        likeness = np.array(likeness)
        n_atoms, own, spread = (np.broadcast_to(x, likeness.shape) for x in (n_atoms, own, 0.05))
        chance = Chance(typical=0.3, high=0.4, mean=0.3, own=own, deviation=spread, inside=np.ones(likeness.size))
        return np.flatnonzero(unlike_others(likeness, n_atoms, within, chance, 0.005)).tolist()

    @pytest.mark.parametrize("n_bad", [1, 3, 6])
    def test_several_do_not_hide_one_another(self, n_bad):
        """Up to six of twenty are found, and nobody else."""
        honest = np.linspace(0.65, 0.8, 14)
        assert self.unlike([*honest, *np.linspace(0.35, 0.4, n_bad)]) == list(range(14, 14 + n_bad))

    def test_more_than_half_of_the_likeness_beyond_chance_is_enough(self):
        """However alike the others are: 0.58 is 0.28 beyond chance, and they are 0.45 beyond it."""
        assert self.unlike([*np.linspace(0.749, 0.751, 19), 0.58]) == []

    def test_no_better_than_chance_is_enough_where_the_others_are_unequal(self):
        """The spread of the others does not excuse atoms that mean nothing."""
        spread = np.linspace(0.56, 0.95, 16)
        assert self.unlike([*spread, 0.3], within=0.3) == [16]

    def test_a_fifth_of_the_clients_does_not_make_the_spread_of_the_others(self):
        """Likeness of twenty simulated people, four of them wrecked: with these four in it, the spread excuses them."""
        honest = [0.56, 0.57, 0.58, 0.64, 0.66, 0.66, 0.73, 0.73, 0.74, 0.74, 0.79, 0.8, 0.82, 0.82, 0.89, 0.91]
        wrecked = [0.24, 0.29, 0.33, 0.4]
        own = [0.5] * 16 + [0.25, 0.3, 0.3, 0.35]
        assert self.unlike([*honest, *wrecked], n_atoms=6, within=0.18, own=own) == [16, 17, 18, 19]

    def test_a_client_of_few_atoms_is_not_compared_with_chance(self):
        """Two components of one's own are no offence."""
        assert self.unlike([*np.linspace(0.56, 0.95, 16), 0.3], n_atoms=[12] * 16 + [2], within=0.3) == []

    def test_half_of_the_clients_are_never_unlike_the_others(self):
        """Who is right cannot be told."""
        assert self.unlike([0.7] * 5 + [0.31] * 5) == []

    def test_nobody_is_unlike_where_nobody_is_like(self):
        """All are near chance."""
        assert self.unlike(np.linspace(0.25, 0.4, 20)) == []

    def test_chance_is_less_for_a_client_whose_span_has_less_of_the_components(self):
        """Cosines by chance are as large as random turns of each client's own basis give, also for unlike spans."""
        rng = np.random.default_rng(0)
        mixing = np.linalg.qr(rng.standard_normal((40, 6)))[0]
        inside = [np.linalg.qr(mixing + 0.1 * rng.standard_normal(mixing.shape))[0] for _ in range(8)]
        outside = [np.linalg.qr(rng.standard_normal((40, 6)))[0] for _ in range(4)]
        bases = [*inside, *outside]
        owner = np.repeat(np.arange(12), 6)
        columns = columns_of(np.concatenate(bases, axis=1), owner)
        chance = chance_likeness(columns, Drawn(owner, np.arange(12)), mixing)
        turned = [[match(b @ polar(t), mixing).cosines.mean() for t in rng.standard_normal((40, 6, 6))] for b in bases]
        assert np.allclose(chance.own, np.mean(turned, axis=1), rtol=0.15)
        assert chance.own[8:].max() < 0.7 * chance.own[:8].min()

    def test_wrecked_people_are_named_and_honest_ones_are_not(self):
        """EEG of simulated people, a fifth of whom permuted their channels, or have nothing but noise."""
        for name in ("permuted-channels", "noise-alone"):
            faced = find_attack(name)(people(20, 12, kind="eeg", random_state=200), 0.2, random_state=200)
            verdict = np.array(aggregate(faced.contributions, 12, method="consensus").trust.verdict)
            assert np.array_equal(verdict == "outlying", ~faced.honest)

    def test_shifted_features_of_few_maps_are_named(self):
        """Six maps a person, and a mask that is off by some places: the spread of sixteen people must be told well."""
        faced = find_attack("shifted-features")(people(20, 6, kind="eeg", random_state=104), 0.2, random_state=104)
        verdict = np.array(aggregate(faced.contributions, 6, method="consensus").trust.verdict)
        assert np.array_equal(verdict == "outlying", ~faced.honest)

    def test_the_share_inside_a_span_is_beyond_that_of_a_random_one(self):
        """One for a span that holds the components and for the whole space, about none for a random span."""
        rng = np.random.default_rng(0)
        mixing = np.linalg.qr(rng.standard_normal((60, 6)))[0]
        bases = [mixing, np.eye(60), *(np.linalg.qr(rng.standard_normal((60, 6)))[0] for _ in range(20))]
        owner = np.repeat(np.arange(len(bases)), [basis.shape[1] for basis in bases])
        columns = columns_of(np.concatenate(bases, axis=1), owner)
        inside = chance_likeness(columns, Drawn(owner, np.arange(len(bases))), mixing).inside
        assert np.allclose(inside[:2], 1)
        assert abs(inside[2:].mean()) < 0.03

    def test_the_reason_compares_with_the_others_and_with_chance(self):
        """The sentence has three mean cosines."""
        faced = find_attack("flipped-maps")(people(20, 12, kind="eeg", random_state=201), 0.2, random_state=201)
        trust = aggregate(faced.contributions, 12, method="consensus").trust
        told = [why.sentence for why in trust.why if why.kind == "unlike"]
        assert told
        assert all("much less like the components than the other clients (mean cosine 0." in text for text in told)

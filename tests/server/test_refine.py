"""Second messages: the Newton step of the pooled data, from what each client averages over its own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import FastICA

from fedica import Contribution, LocalICA, Scores, aggregate, refine, score
from fedica.errors import ContributionError, InputError
from fedica.evaluate import recovery_error
from fedica.matching import match
from fedica.records import fingerprints
from fedica.server.refinement.agreement import geometric_median
from fedica.server.refinement.own_fits import own_steps, unexplained
from fedica.server.refinement.pooled import Pooled
from fedica.server.refinement.steps import Statistics, median_scale, on_common_scale, steps_of
from fedica.server.refinement.support import Judged, supported
from fedica.simulate import federation

R = 4


def contributions_of(fed, r=R):
    return [LocalICA(r, random_state=0).fit(c.X).contribution(c.name) for c in fed.clients]


def scores_of(fed, result):
    return [score(c.X, result, client=c.name) for c in fed.clients]


def turned_scores(client, result, degrees, seed=7):
    """The statistics of data in which every component is turned by about so many degrees."""
    r = result.n_components
    skew = np.random.default_rng(seed).standard_normal((r, r))
    skew = np.radians(degrees) * (skew - skew.T) / np.sqrt(2 * (r - 1))
    sources = client.sources - client.sources.mean(axis=0)
    return score(sources @ (np.eye(r) + skew).T @ result.mixing.T, result, client=client.name)


def error(result, fed):
    return recovery_error(result.mixing, fed.mixing).relative


@pytest.fixture(scope="module")
def weak():
    return federation(40, R, n_samples=80, law="laplace", condition=5.0, random_state=3)


@pytest.fixture(scope="module")
def first(weak):
    return aggregate(contributions_of(weak), R)


@pytest.fixture(scope="module")
def strong():
    return federation(20, R, n_samples=2000, law="laplace", condition=5.0, random_state=4)


@pytest.fixture(scope="module")
def strong_first(strong):
    return aggregate(contributions_of(strong), R)


@pytest.mark.parametrize("law", ["laplace", "uniform"])
def test_repeated_it_is_symmetric_fastica_of_the_pooled_data(law):
    """Clients centred one by one, each weighed by its samples: the same matrix as FastICA (tanh), to 1e-6."""
    fed = federation(8, R, n_samples=[300, 500, 400, 350, 600, 450, 500, 300], law=law, condition=5.0, random_state=1)
    result = aggregate(contributions_of(fed), R)
    for _ in range(12):
        result = refine(result, scores_of(fed, result), max_weight=None, min_gain=0.0)
        assert len(result.refinement.counted) == 8
    X = np.concatenate([c.X - c.X.mean(axis=0) for c in fed.clients])
    pooled = FastICA(R, tol=1e-13, max_iter=2000, random_state=0, whiten="unit-variance").fit(X).mixing_
    assert recovery_error(result.mixing, pooled / np.linalg.norm(pooled, axis=0)).per_component.max() < 1e-6
    assert result.refinement.round == 13


def test_weak_clients_gain_what_pooling_would_give(weak, first):
    """One second message brings the error to within a tenth of pooled FastICA."""
    result = refine(first, scores_of(weak, first))
    pooled = LocalICA(R, random_state=0).fit(np.concatenate([c.X - c.X.mean(axis=0) for c in weak.clients])).atoms_
    assert result.refinement.taken
    assert error(result, weak) < 0.95 * error(first, weak)
    assert error(result, weak) < 1.1 * recovery_error(pooled, weak.mixing).relative
    assert np.all(result.refinement.turned > 0)
    assert result.refinement.turned.max() < 20


def test_neither_order_nor_sign_of_components_matters(weak, first):
    """Scores are of the components as the aggregate has them: renumbered, the same matrix renumbered comes out."""
    order, signs = np.array([2, 0, 3, 1]), np.array([1.0, -1.0, -1.0, 1.0])
    other = first.renumbered(order, signs)
    mixing = refine(first, scores_of(weak, first)).mixing
    turned = refine(other, scores_of(weak, other)).mixing
    np.testing.assert_allclose(np.abs(np.sum(mixing[:, order] * turned, axis=0)), 1.0, atol=1e-12)


def test_the_order_of_arrival_does_not_matter(weak, first):
    """Bit for bit."""
    scores = scores_of(weak, first)
    assert np.array_equal(refine(first, scores).mixing, refine(first, scores[::-1]).mixing)


def test_labels_and_signs_still_fit_the_atoms(weak, first):
    """Atoms times their signs point along the turned components, and the spread is measured to them."""
    result = refine(first, scores_of(weak, first))
    known = result.labels >= 0
    along = np.sum(result.atoms * result.mixing[:, result.labels], axis=0) * result.signs
    assert np.all(along[known] > 0)
    assert not np.array_equal(result.spread, first.spread)


def test_a_common_turn_in_perfect_data_does_not_count(strong, strong_first):
    """Six of twenty clients whose data is turned by 10 degrees: the answer is that of the honest ones alone."""
    honest = scores_of(strong, strong_first)
    attacked = [turned_scores(c, strong_first, 10.0) for c in strong.clients[:6]] + honest[6:]
    alone = refine(strong_first, honest[6:], min_gain=0.0)
    result = refine(strong_first, attacked, min_gain=0.0)
    assert set(result.refinement.left_out) == {c.name for c in strong.clients[:6]}
    assert error(result, strong) < 1.05 * error(alone, strong)


def test_a_turn_of_weak_clients_that_do_not_stand_apart_is_not_followed():
    """40% of the clients turned by 8 degrees in the second message alone: the first answer stands.

    Where there are first messages, most of these clients are left out, and the others are too few for a better answer.
    What such weak fits find depends on rounding, and so on the processor: the bounds have a margin for that.
    """
    n_seen = []
    for seed in range(5, 11):
        fed = federation(80, R, n_samples=200, law="laplace", condition=5.0, random_state=seed)
        first = aggregate(contributions_of(fed), R)
        honest = scores_of(fed, first)
        attacked = [turned_scores(c, first, 8.0) for c in fed.clients[:32]] + honest[32:]
        seen = refine(first, attacked)
        bad = {c.name for c in fed.clients[:32]}
        n_seen.append(len(bad & set(seen.refinement.left_out)))
        assert len(set(seen.refinement.left_out) - bad) <= 4
        assert not seen.refinement.taken
        if seed == 5:
            assert refine(first, honest).refinement.taken
            unseen = refine(first, renamed(attacked))
            assert not unseen.refinement.taken
            assert "a deviation that some of them share" in unseen.refinement.reason
            assert error(refine(first, renamed(attacked), min_gain=0.0), fed) > 1.2 * error(first, fed)
    assert min(n_seen) > 16
    assert np.mean(n_seen) >= 21  # of 32


def test_inflated_samples_do_not_count(strong, strong_first):
    """A billion samples do not make a wrong basis right."""
    honest = scores_of(strong, strong_first)
    loud = [replace(turned_scores(c, strong_first, 20.0), n_samples=10**9) for c in strong.clients[:4]]
    result = refine(strong_first, loud + honest[4:], min_gain=0.0)
    assert error(result, strong) < 1.1 * error(refine(strong_first, honest[4:], min_gain=0.0), strong)


@pytest.fixture(scope="module")
def hundred():
    return federation(100, 10, n_samples=200, law="laplace", condition=5.0, random_state=13)


@pytest.fixture(scope="module")
def hundred_first(hundred):
    return aggregate(contributions_of(hundred, 10), 10)


def renamed(scores):
    """The same second messages of clients that sent no first one."""
    return [replace(one, client=f"new-{one.client}") for one in scores]


def fitting_scores(client, result, degrees, fed):
    """As `turned_scores`, with the sources in the order of the answer: but for the turn it fits the first message."""
    found = match(result.mixing, fed.mixing / np.linalg.norm(fed.mixing, axis=0))
    in_order = SimpleNamespace(name=client.name, sources=client.sources[:, found.labels] * found.signs)
    return turned_scores(in_order, result, degrees)


def test_a_turn_that_a_part_shares_is_left_out_of_the_step(hundred, hundred_first):
    """30% of the clients turned by 7 degrees, no first messages to compare: a step is taken, but not along the turn."""
    attacked = [turned_scores(c, hundred_first, 7.0) for c in hundred.clients[:30]]
    attacked = renamed(attacked + scores_of(hundred, hundred_first)[30:])
    result, whole = (refine(hundred_first, attacked, min_gain=gain) for gain in (0.12, 0.0))
    assert "its part along this is left out" in result.refinement.reason
    assert error(whole, hundred) > 1.2 * error(hundred_first, hundred)
    assert error(result, hundred) < 0.9 * error(hundred_first, hundred)


def own_step(scores, result):
    """The steps that clients ask for, and equal weights."""
    statistics = Statistics.of(scores, result.n_components)
    statistics = on_common_scale(statistics, statistics.n_samples)
    return steps_of(statistics, statistics.n_samples), statistics.n_samples


@pytest.mark.parametrize("n_absent", [0, 15, 30])
def test_the_step_is_shortened_by_what_the_clients_that_do_not_count_are_worth(hundred, hundred_first, n_absent):
    """(q - (1 - f)) / (q + 0.2) of it, of gain q, where a share f of the clients counts; the whole if asked for."""
    steps, weights = own_step(scores_of(hundred, hundred_first), hundred_first)
    counts = np.arange(100) >= n_absent
    mean, errors = steps.mean(weights * counts), steps.expected_errors(weights * counts)
    gain = np.mean(mean**2 / errors) / max(1.0, np.median(steps.distances(mean)[counts]))
    judged = Judged(np.ones(100, dtype=bool), counts, 100)
    verdict = supported(steps, steps, weights * counts, judged, 0.12, np.inf)
    assert verdict.taken
    np.testing.assert_allclose(mean - verdict.left_out, (gain - n_absent / 100) / (gain + 0.2) * mean, rtol=1e-9)
    whole = supported(steps, steps, weights * counts, judged, 0.0, np.inf)
    assert not whole.left_out.any()


def test_a_step_that_is_no_longer_than_absent_clients_explain_is_not_taken(hundred, hundred_first):
    """49 of 100 clients do not count, and the others ask for less than half of their squared error."""
    steps, weights = own_step(scores_of(hundred, hundred_first), hundred_first)
    counts = np.arange(100) >= 49
    mean = steps.mean(weights * counts)
    short = replace(steps, values=steps.values - 0.8 * mean)
    judged = Judged(np.ones(100, dtype=bool), counts, 100)
    verdict = supported(short, short, weights * counts, judged, 0.12, np.inf)
    assert not verdict.taken
    assert "not better than the answer before" in verdict.reason
    everybody = Judged(judged.judged, counts, 51)
    assert supported(short, short, weights * counts, everybody, 0.001, np.inf).taken


@pytest.fixture(scope="module")
def draws(hundred, hundred_first):
    """Three federations of a hundred weak clients, with their first answers."""
    others = [federation(100, 10, n_samples=200, law="laplace", condition=5.0, random_state=s) for s in (14, 15)]
    return [(hundred, hundred_first), *((drawn, aggregate(contributions_of(drawn, 10), 10)) for drawn in others)]


def attacked_draws(draws, forge, n_bad):
    """Refine every draw in which some second messages are forged.

    Return the names of those clients, what was refined, and its error over the first answer's, of each draw; and that
    error where the forged messages come without first ones and all of the step is taken.
    """
    found, unseen = [], []
    for drawn, first in draws:
        forged = [forge(c, first, drawn) for c in drawn.clients[:n_bad]] + scores_of(drawn, first)[n_bad:]
        result, before = refine(first, forged), error(first, drawn)
        found.append(({c.name for c in drawn.clients[:n_bad]}, result.refinement, error(result, drawn) / before))
        unseen.append(error(refine(first, renamed(forged), min_gain=0.0), drawn) / before)
    return found, unseen


def test_second_messages_that_are_unlike_the_first_do_not_count(draws):
    """40% of weak clients turned by 5 degrees are within each other's errors; their first messages tell."""
    found, unseen = attacked_draws(draws, lambda c, first, _: turned_scores(c, first, 5.0), 40)
    for bad, refinement, ratio in found:
        assert len(bad & set(refinement.left_out)) >= 36
        assert set(refinement.left_out) <= bad
        assert ratio <= 1
    assert np.median([ratio for *_, ratio in found]) < 0.95
    assert min(unseen) > 1


@pytest.mark.parametrize(("n_bad", "degrees"), [(30, 6.0), (40, 3.8)])
def test_a_turn_that_first_messages_do_not_explain_is_seen(draws, n_bad, degrees):
    """Messages that are alike but for the turn: their clients are left out, or the part of the step along it."""
    found, unseen = attacked_draws(draws, lambda c, first, drawn: fitting_scores(c, first, degrees, drawn), n_bad)
    for bad, refinement, ratio in found:
        left_out = len(bad & set(refinement.left_out)) > 0.8 * n_bad
        assert left_out or not refinement.taken or "its part along this is left out" in refinement.reason
        assert ratio <= 1
    assert np.median([ratio for *_, ratio in found]) < 0.98
    assert np.median(unseen) > 1.1


def test_clients_whose_fits_failed_count_if_their_data_agrees(hundred, hundred_first):
    """Clients whose messages are unlike each other are not left out while these ask for what the others ask for."""
    strangers = contributions_of(federation(10, 10, n_samples=200, law="laplace", condition=5.0, random_state=99), 10)
    atoms = np.array(hundred_first.atoms)
    for k, stranger in enumerate(strangers):
        atoms[:, hundred_first.client_of_atom == k] = stranger.atoms
    odd = replace(hundred_first, atoms=atoms)
    scores = scores_of(hundred, hundred_first)
    likeness = own_fits_of(odd, scores).likeness
    names = [one.client for one in scores]
    strange = np.isin(names, hundred_first.clients[:10])
    assert np.median(likeness[strange]) < 0.3
    assert np.median(likeness[~strange]) > 0.6
    assert len(set(hundred_first.clients[:10]) & set(refine(odd, scores).refinement.left_out)) <= 2


def own_fits_of(result, scores):
    """What the clients' atoms leave of their steps."""
    statistics = Statistics.of(scores, result.n_components)
    statistics = on_common_scale(statistics, statistics.n_samples)
    steps = steps_of(statistics, statistics.n_samples)
    scale = median_scale(statistics, statistics.n_samples)
    own = own_steps(steps, result, [one.client for one in scores], scale)
    return unexplained(steps, geometric_median(steps), statistics.n_samples, own)


def test_first_messages_explain_most_of_what_clients_ask_for(hundred, hundred_first):
    """Half of the variance of the steps of weak clients is left, and all of that of clients without first messages."""
    scores = scores_of(hundred, hundred_first)
    known, unknown = own_fits_of(hundred_first, scores), own_fits_of(hundred_first, renamed(scores))
    rotation, correlation = known.steps.kinds
    for kind in (rotation, correlation):
        assert 0.1 < np.var(known.steps.values[:, kind]) / np.var(unknown.steps.values[:, kind]) < 0.55
    assert np.all(unknown.likeness == 0)
    assert np.median(known.likeness) > 0.6


def test_what_is_left_out_of_a_step_is_not_in_it(weak, first):
    """Without its whole first-order part the step is next to nothing."""
    statistics = Statistics.of(scores_of(weak, first), R)
    statistics = on_common_scale(statistics, statistics.n_samples)
    steps = steps_of(statistics, statistics.n_samples)
    pooled = Pooled.of(statistics, statistics.n_samples)
    without = pooled.without(*steps.as_matrices(steps.mean(statistics.n_samples)))
    off = 1 - np.eye(R)
    assert np.abs(without.step() * off).max() < 0.1 * np.abs(pooled.step() * off).max()


def test_outlying_clients_of_the_first_message_count_if_their_second_agrees(strong):
    """One whose atoms were wrong and whose data is fine counts; one whose data is turned does not."""
    sent = contributions_of(strong)
    rng = np.random.default_rng(0)
    for k in (3, 4):
        sent[k] = Contribution(sent[k].client, rng.standard_normal((R, R)), 2000)
    first = aggregate(sent, R)
    assert set(first.trust.named("outlying")) == {sent[3].client, sent[4].client}
    scores = scores_of(strong, first)
    assert refine(first, scores).refinement.left_out == ()
    scores[4] = turned_scores(strong.clients[4], first, 20.0)
    assert refine(first, scores).refinement.left_out == (sent[4].client,)


def test_outlying_clients_that_agree_on_another_turn_do_not_count():
    """Each of them is within the errors of weak clients, but not their mean."""
    fed = federation(60, 8, n_samples=200, law="laplace", condition=5.0, random_state=8)
    sent = contributions_of(fed, 8)
    rng = np.random.default_rng(0)
    for k in range(15):
        sent[k] = Contribution(sent[k].client, rng.standard_normal((8, 8)), 200)
    first = aggregate(sent, 8)
    bad = {c.name for c in fed.clients[:15]}
    assert bad <= set(first.trust.named("outlying"))
    turned = [turned_scores(c, first, 7.0) for c in fed.clients[:15]]
    honest = scores_of(fed, first)
    assert bad <= set(refine(first, turned + honest[15:]).refinement.left_out)
    assert bad <= set(refine(first, honest).refinement.counted)


def test_clients_without_a_first_message_take_part(weak, first):
    """Too small to fit an ICA: three samples each, whose sums still add up."""
    small = federation(200, R, n_samples=3, law="laplace", condition=5.0, random_state=3)
    scores = [score(c.X, first, client=f"small-{c.name}") for c in small.clients]
    result = refine(first, scores_of(weak, first) + scores, max_weight=None)
    assert sum(name.startswith("small-") for name in result.refinement.counted) > 150


def test_clients_that_lack_a_component_take_part_with_the_others():
    """A fifth of the clients has no component 3. If nobody scores a component, it stays as it was."""
    ratios = []
    for seed in range(8, 14):
        fed = federation(30, R, n_features=6, n_samples=150, law="laplace", condition=3.0, random_state=seed)
        first = aggregate(contributions_of(fed), R)
        kept = match(first.mixing, fed.mixing).labels[:3]
        part = [
            score(c.sources[:, kept] @ fed.mixing[:, kept].T, first, client=c.name, components=[0, 1, 2])
            for c in fed.clients
        ]
        mixed = refine(first, scores_of(fed, first)[:24] + part[24:])
        ratios.append(error(mixed, fed) / error(first, fed))
    assert max(ratios) < 1.01
    assert np.mean(ratios) < 0.95
    fewer = refine(first, part)
    assert np.array_equal(fewer.mixing[:, 3], first.mixing[:, 3])
    assert fewer.refinement.turned[3] == 0
    assert np.isnan(fewer.scale[3])
    assert refine(fewer, scores_of(fed, fewer)).refinement.round == 3


def test_an_answer_that_is_already_there_stands(strong, strong_first):
    """A step within its own error is not taken, and the result says so."""
    there = refine(strong_first, scores_of(strong, strong_first), min_gain=0.0)
    again = refine(there, scores_of(strong, there))
    assert not again.refinement.taken
    assert "not better than the answer before" in again.refinement.reason
    assert np.array_equal(again.mixing, there.mixing)
    assert np.array_equal(again.scale, there.scale)


def test_a_first_answer_that_is_better_than_pooling_stands():
    """Sparse sources without noise: each client's own fit is so good that their consensus beats FastICA of all data."""
    fed = federation(60, R, n_samples=60, law="bernoulli-gaussian", random_state=100)
    first = aggregate(contributions_of(fed), R)
    result, forced = (refine(first, scores_of(fed, first), min_gain=gain) for gain in (0.05, 0.0))
    assert not result.refinement.taken
    assert "times that of the answer before" in result.refinement.reason
    assert forced.refinement.taken
    assert error(forced, fed) > error(first, fed)


def test_without_a_majority_the_first_answer_stands(strong, strong_first):
    """Half of the clients ask for a turn that the other half does not ask for."""
    scores = [turned_scores(c, strong_first, 20.0) for c in strong.clients[:10]]
    result = refine(strong_first, scores + scores_of(strong, strong_first)[10:])
    assert not result.refinement.taken
    assert "only 10 of 20 clients agree" in result.refinement.reason
    assert np.array_equal(result.mixing, strong_first.mixing)


def test_scores_of_another_aggregate_are_refused(weak, first, strong_first):
    """One sentence that names the client; or a rejection."""
    scores = scores_of(weak, first)
    foreign = score(weak.clients[0].X, strong_first, client="foreign")
    with pytest.raises(ContributionError, match="'foreign': its second message refines another aggregate"):
        refine(first, [*scores, foreign])
    result = refine(first, [*scores, foreign], on_bad="reject")
    assert [x.client for x in result.rejected] == ["foreign"]
    assert "foreign" not in result.refinement.counted
    with pytest.raises(ContributionError, match="another aggregate"):
        refine(refine(first, scores), scores)


def test_every_client_sends_one(weak, first):
    """Two messages of one name are refused both: nobody knows which is whose."""
    scores = scores_of(weak, first)
    with pytest.raises(ContributionError, match="sent different second messages"):
        refine(first, [*scores, replace(scores[0], n_samples=10**6)])


def test_the_same_message_twice_counts_once(weak, first):
    """Whoever sends a client's message again knocks nobody out."""
    scores = scores_of(weak, first)
    again = refine(first, [*scores, replace(scores[0]), replace(scores[1])])
    assert np.array_equal(again.mixing, refine(first, scores).mixing)
    assert again.rejected == ()


def test_many_messages_of_one_client_do_not_decide_what_is_refined(weak, first):
    """They refine the first columns alone, and are more than all others together."""
    scores = scores_of(weak, first)
    short = replace(
        scores[0],
        refines=fingerprints(first.mixing)[R - 2],
        components=range(R - 1),
        **{name: getattr(scores[0], name)[: R - 1] for name in ("scale", "slopes")},
        **{name: getattr(scores[0], name)[: R - 1, : R - 1] for name in ("covariance", "products")},
    )
    many = [replace(short, n_samples=n) for n in range(100, 200)]
    refined = refine(first, [*many, *scores[1:]], on_bad="reject")
    assert {x.client for x in refined.rejected} == {scores[0].client}
    assert np.array_equal(refined.mixing, refine(first, scores[1:]).mixing)


def test_components_that_the_aggregate_does_not_have_are_refused(weak, first):
    """By name; the others count."""
    scores = scores_of(weak, first)
    beyond = replace(scores[0], components=(0, 1, 2, 99))
    refined = refine(first, [beyond, *scores[1:]], on_bad="reject")
    assert [(x.client, x.kind) for x in refined.rejected] == [(beyond.client, "unknown-component")]
    with pytest.raises(ContributionError, match="is of component 99, and the aggregate has 4"):
        refine(first, [beyond, *scores[1:]])


@pytest.mark.parametrize(
    "lie",
    [
        {"scale": np.full(R, 1e300)},
        {"scale": np.full(R, 5e-324)},
        {"covariance": 1e300 * np.eye(R)},
        {"covariance": 1e4 * np.eye(R)},
        {"covariance": 1e300 * np.eye(R), "scale": np.full(R, 1e300), "n_samples": 10**17},
        {"covariance": np.zeros((R, R)), "products": np.zeros((R, R))},
        {"slopes": np.zeros(R)},
    ],
)
@pytest.mark.parametrize("n_hostile", [1, 8, 16])
def test_numbers_that_a_minority_makes_up_count_for_nothing(weak, first, lie, n_hostile):
    """Up to 16 of 40 clients: the answer is that of the others alone, to rounding. A step is taken in any case."""
    scores = scores_of(weak, first)
    lying = [replace(one, **lie) for one in scores[:n_hostile]]
    refined = refine(first, [*lying, *scores[n_hostile:]], min_gain=0)
    honest = refine(first, scores[n_hostile:], min_gain=0)
    assert refined.refinement.counted == honest.refinement.counted
    np.testing.assert_allclose(refined.mixing, honest.mixing, atol=1e-9)
    np.testing.assert_allclose(refined.scale, honest.scale, rtol=1e-9)


def test_nothing_to_refine_with(first):
    """One sentence."""
    with pytest.raises(InputError, match="no second message can be used"):
        refine(first, [])


def test_the_public_columns_are_enough(weak, first):
    """Clients that see the leading columns alone refine these; the others stay."""
    public = replace(
        first,
        mixing=first.mixing[:, :3],
        centres=first.centres[:, :3],
        support=first.support[:3],
        spread=first.spread[:3],
        labels=np.where(first.labels < 3, first.labels, -1),
    )
    result = refine(first, scores_of(weak, public))
    assert np.array_equal(result.mixing[:, 3], first.mixing[:, 3])
    assert result.refinement.turned[:3].min() > 0


def test_orthogonal_mixing_stays_orthogonal():
    """What is known of the mixing matrix still holds after the step."""
    fed = federation(30, R, n_samples=100, law="laplace", random_state=2)
    sent = [LocalICA(R, mixing="orthogonal", random_state=0).fit(c.X).contribution(c.name) for c in fed.clients]
    result = refine(aggregate(sent, R), scores_of(fed, aggregate(sent, R)), min_gain=0.0)
    np.testing.assert_allclose(result.mixing.T @ result.mixing, np.eye(R), atol=1e-12)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("refines", "abc", "64 hexadecimal digits"),
        ("n_samples", 0, "at least 1"),
        ("components", [0, 1], "must have shapes"),
        ("scale", [1.0, 1.0, -1.0, 1.0], "scale must be positive"),
        ("covariance", np.diag([1.0, 1.0, 1.0, -1.0]), "positive semidefinite"),
        ("products", np.full((4, 4), 5.0), "none of them above the standard deviation"),
        ("products", np.full((4, 4), np.nan), "must be finite"),
        ("slopes", [0.5, 0.5, 1.5, 0.5], "from 0 to 1"),
    ],
)
def test_averages_that_no_samples_have_are_refused(weak, first, field, value, sentence):
    """The sentence names the client."""
    fine = score(weak.clients[0].X, first, client="a")
    with pytest.raises(ContributionError, match=sentence) as refused:
        replace(fine, **{field: value})
    assert refused.value.client == "a"
    assert isinstance(fine, Scores)

"""Group ICA: spans are pooled, one ICA finds the components, and whoever does not fit is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedica.errors import GroupingError
from fedica.local import LocalICA
from fedica.matching import match
from fedica.records import AtomArray, Contribution
from fedica.server import admit, aggregate
from fedica.server.group import spans as spans_module
from fedica.server.group.spans import spans_of

D, R, K, N_SAMPLES = 1200, 5, 12, 30


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    """Five sparse maps over 1200 features, orthonormal."""
    rng = np.random.default_rng(1)
    return np.linalg.qr(rng.standard_normal((D, R)) * (0.01 + (rng.random((D, R)) < 0.1)))[0]


def sent(name: str, X: np.ndarray, m: int, **fields: object) -> Contribution:
    """Send m maps with their strengths as a client does, without the time that its ICA takes: any rotation will do."""
    X = X - X.mean(axis=0)
    _, s, right = np.linalg.svd(X, full_matrices=False)
    variances = s[: len(X) - 1] ** 2 / len(X)
    turn = np.linalg.qr(np.random.default_rng(m).standard_normal((m, m)))[0]
    gram = turn.T * variances[:m] @ turn
    floor = float(np.median(variances))
    values = {"gram": (gram + gram.T) / 2, "noise_floor": floor, **fields}
    return Contribution(name, right[:m].T @ turn, len(X), independence="features", **values)  # type: ignore[arg-type]


def data_of(truth: np.ndarray, seed: int, noise: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng((7, seed))
    return rng.standard_normal((N_SAMPLES, R)) * 1.5 @ truth.T + noise * rng.standard_normal((N_SAMPLES, D))


@pytest.fixture(scope="module")
def clients(truth: np.ndarray) -> list[Contribution]:
    """Twelve noisy clients: none can separate the components alone."""
    return [sent(f"c{k:02}", data_of(truth, k), 14) for k in range(K)]


def likeness(result, truth) -> float:
    return float(match(result.mixing, truth).cosines.mean())


def replaced(clients: list[Contribution], n_bad: int, forge) -> list[Contribution]:
    return [forge(k, c) if k < n_bad else c for k, c in enumerate(clients)]


def test_the_result_is_that_of_all_data_in_one_place_though_no_client_finds_it(truth, clients):
    """Likeness of pooled spatial ICA, from one message; a client alone is far from it, and everybody is trusted."""
    pooled = LocalICA(R, independence="features", random_state=0).fit(
        np.concatenate([data_of(truth, k) for k in range(K)])
    )
    alone = LocalICA(R, independence="features", random_state=0).fit(data_of(truth, 0))
    result = aggregate(clients, R, method="group")
    assert likeness(result, truth) > match(pooled.atoms_, truth).cosines.mean() - 0.01
    assert match(alone.atoms_, truth).cosines.mean() < likeness(result, truth) - 0.1
    assert set(result.trust.verdict) == {"trusted"}
    assert result.support.tolist() == [K] * R
    assert (result.options["n_with_strengths"], result.options["n_plain_projectors"]) == (K, 0)
    np.testing.assert_allclose(result.mixing.T @ result.mixing, np.eye(R), atol=1e-9)


def test_equal_spans_give_the_spatial_ica_of_that_span(truth):
    """Degenerate oracle: nothing to average."""
    spatial = LocalICA(R, independence="features", random_state=0).fit(np.concatenate([truth.T, -truth.T]))
    rng = np.random.default_rng(0)
    turned = [truth @ np.linalg.qr(rng.standard_normal((R, R)))[0] for _ in range(4)]
    result = aggregate(
        [Contribution(f"c{k}", a, 9, independence="features") for k, a in enumerate(turned)], R, method="group"
    )
    assert match(result.mixing, spatial.atoms_).cosines.min() > 1 - 1e-4


def test_neither_order_nor_names_matter_nor_the_rotation_of_a_client(clients):
    """Clients in another order under other names: the same matrix; atoms turned with their Gram matrix: to rounding."""
    result = aggregate(clients, R, method="group")
    renamed = [replace(c, client=f"z{99 - k}") for k, c in enumerate(clients)][::-1]
    assert np.array_equal(aggregate(renamed, R, method="group").mixing, result.mixing)
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((14, 14)))[0]
    turned = [replace(c, atoms=c.atoms @ turn, gram=turn.T @ c.gram @ turn) for c in clients]
    assert match(aggregate(turned, R, method="group").mixing, result.mixing).cosines.min() > 1 - 1e-6


def test_the_scale_of_a_clients_variances_does_not_matter(clients):
    """Strengths times a million, noise floor too: another unit. The noise floor alone at zero: a plain projector."""
    result = aggregate(clients, R, method="group")
    louder = [replace(clients[0], gram=1e6 * clients[0].gram, noise_floor=1e6 * clients[0].noise_floor), *clients[1:]]
    np.testing.assert_allclose(aggregate(louder, R, method="group").mixing, result.mixing, atol=1e-9)
    unshrunk = spans_of(admit([replace(clients[0], noise_floor=0.0)]))
    assert unshrunk.sizes == pytest.approx([14.0])


@pytest.mark.parametrize("scale", [1.0, 1e12])
@pytest.mark.parametrize("m", [1, 14, 200])
def test_one_client_moves_the_mean_projector_by_at_most_one_over_k(clients, scale, m):
    """In operator norm, whatever it sends: (G3)."""
    rng = np.random.default_rng(m)
    wild = Contribution(
        "wild", rng.standard_normal((D, m)), 9, independence="features", gram=scale * np.eye(m), noise_floor=0.0
    )
    means = []
    for members in (clients, [*clients[1:], wild]):
        spans = spans_of(admit(members))
        whole = np.concatenate(
            [
                spans.atoms.take(np.arange(a, b)) @ t
                for a, b, t in zip(spans.bounds, spans.bounds[1:], spans.factors, strict=False)
            ],
            axis=1,
        )
        means.append(whole @ whole.T / K)
    assert np.linalg.norm(means[1] - means[0], 2) <= 1 / K + 1e-9


def flipped(k, c):
    return replace(c, atoms=c.atoms[::-1])


def random_span(k, c):
    return replace(c, atoms=np.random.default_rng(k).standard_normal(c.atoms.shape))


def common_span(k, c):
    jitter = 1e-3 * np.random.default_rng(k).standard_normal(c.atoms.shape)
    return replace(c, atoms=np.linalg.qr(np.random.default_rng(99).standard_normal(c.atoms.shape))[0] + jitter)


def flood(k, c):
    direction = np.random.default_rng(99).standard_normal((D, 1))
    return replace(c, atoms=direction, gram=np.full((1, 1), 1e12), noise_floor=0.0)


@pytest.mark.parametrize("forge", [flipped, random_span, common_span, flood])
def test_clients_whose_span_the_others_do_not_share_are_named_and_left_out(truth, clients, forge):
    """Four of twelve: the result is that of the other eight, to a hundredth; nobody else is accused."""
    result = aggregate(replaced(clients, 4, forge), R, method="group")
    without = aggregate(clients[4:], R, method="group")
    assert result.trust.named("outlying") == ("c00", "c01", "c02", "c03")
    assert likeness(result, truth) > likeness(without, truth) - 0.01
    assert result.support.max() == K - 4
    assert result.trust.influence[:4].tolist() == [0.0] * 4
    assert all(result.trust.why[k].sentence for k in range(K))


def test_who_agrees_on_another_span_is_said_to(clients):
    """The reason counts the others."""
    result = aggregate(replaced(clients, 4, flipped), R, method="group")
    assert {result.trust.why[k].kind for k in range(4)} == {"other-basis"}
    assert result.trust.why[0].numbers["n_agreeing"] == 3


def test_a_direction_that_only_a_minority_plants_is_no_component(truth, clients):
    """Three of twelve hold the true span exactly, and one direction more, at full weight: it does not displace any."""
    planted = np.linalg.qr(np.column_stack([truth, np.random.default_rng(3).standard_normal(D)]))[0]

    def forge(k, c):
        return replace(
            c,
            atoms=planted + 1e-3 * np.random.default_rng(k).standard_normal(planted.shape),
            gram=None,
            noise_floor=None,
        )

    result = aggregate(replaced(clients, 3, forge), R, method="group")
    assert np.abs(planted[:, -1] @ result.mixing).max() < 0.2
    assert likeness(result, truth) > likeness(aggregate(clients, R, method="group"), truth) - 0.01
    assert result.options["n_plain_projectors"] == 3


def test_copies_of_one_client_have_one_vote(clients):
    """Five copies, jittered: the weight of one, and the reason says so."""
    copies = [
        replace(
            clients[0],
            client=f"x{k}",
            atoms=clients[0].atoms + 1e-9 * np.random.default_rng(k).standard_normal((D, 14)),
        )
        for k in range(4)
    ]
    with_copies, plain = aggregate([*clients, *copies], R, method="group"), aggregate(clients, R, method="group")
    assert match(with_copies.mixing, plain.mixing).cosines.min() > 0.999
    assert with_copies.trust["c00"].why.numbers["n_copies"] == 5


def test_a_client_with_a_loud_direction_of_its_own_is_weak_and_said_why(truth, clients):
    """Its span is right, and counts; but the components explain little of its variance."""
    moved = data_of(truth, 0)
    moved[::6] += 3 * np.random.default_rng(4).standard_normal(D)
    result = aggregate([sent("c00", moved, 14), *clients[1:]], R, method="group")
    assert result.trust["c00"].verdict == "weak"
    assert result.trust["c00"].why.kind == "little-explained"
    assert result.trust["c00"].why.numbers["explained"] < 0.2 * result.trust["c00"].why.numbers["usual"]
    assert result.trust.named("weak") == ("c00",)


def test_support_is_tested_against_chance(truth, clients):
    """A component that two clients lack is not theirs; unrelated components are in few spans."""
    lacking = truth * np.r_[1, 1, 1, 1, 0]
    some = [sent(f"c{k:02}", data_of(lacking, k), 14) if k < 2 else c for k, c in enumerate(clients)]
    result = aggregate(some, R, method="group")
    rare = match(result.mixing, truth).labels.tolist().index(4)
    assert result.support[rare] == K - 2
    assert result.trust["c00"].missing == (rare,)


def test_the_number_of_components_is_chosen_against_shuffled_features(truth, clients):
    """Only what several clients share stands above spans that share nothing."""
    result = aggregate(clients, method="group")
    assert (result.n_components, result.options["n_components_from"]) == (R, "shuffled")


def test_by_blocks_it_is_the_same(monkeypatch, clients):
    """Factors that do not fit memory are never held: to the tolerance of the Krylov method."""
    result = aggregate(clients, R, method="group")
    monkeypatch.setattr(spans_module, "MAX_HELD_BYTES", 0)
    assert match(aggregate(iter(clients), R, method="group").mixing, result.mixing).cosines.min() > 1 - 1e-7
    with pytest.raises(GroupingError, match="Give n_components"):
        aggregate(clients, method="group")


def test_an_array_of_atoms_counts_as_plain_projectors(truth, clients):
    """It has no strengths."""
    plain = [replace(c, gram=None, noise_floor=None) for c in clients]
    array = AtomArray(
        np.concatenate([c.atoms for c in plain], axis=1), np.repeat(np.arange(K), 14), independence="features"
    )
    result = aggregate(array, R, method="group")
    assert result.options["n_plain_projectors"] == K
    assert match(result.mixing, aggregate(plain, R, method="group").mixing).cosines.min() > 1 - 1e-6


def test_what_is_independent_over_samples_is_refused_with_the_reason(clients):
    """Spans cannot be turned without the samples."""
    for independence in ("samples", None):
        with pytest.raises(GroupingError, match=r"needs maps that are independent over features.*method='consensus'"):
            aggregate([replace(c, independence=independence) for c in clients], R, method="group")


def test_more_components_than_directions_are_refused(clients):
    """With the number that there are: twice five, less noise."""
    few = [replace(c, atoms=c.atoms[:, :2], gram=None, noise_floor=None) for c in clients[:2]]
    with pytest.raises(GroupingError, match="the 2 clients sent 4 atoms"):
        aggregate(few, R, method="group")
    same = [replace(c, atoms=clients[0].atoms[:, :3] + 0.0, gram=None, noise_floor=None) for c in clients[:2]]
    with pytest.raises(GroupingError, match="have 3 directions"):
        aggregate(same, R, method="group")

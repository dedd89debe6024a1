"""Group ICA: spans are pooled, one ICA finds the components, and whoever does not fit is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedica.blocks import Columns, cuts
from fedica.blocks.arrays import ArrayBlocks
from fedica.errors import GroupingError, InputError
from fedica.local import LocalICA
from fedica.matching import match
from fedica.records import AtomArray, Contribution
from fedica.server import admit, aggregate
from fedica.server.group import choose_n_directions
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


def test_directions_count_alike_where_the_signal_is_buried_in_noise():
    """(G2): strong directions are shrunk by the noise floor; where little stands above it, hardly."""
    axes = np.eye(6)[:, :4]
    for variances, least, most in ((np.array([1.2, 1.1, 1.05, 1.0]), 0.71, 0.77), (np.array([90.0, 50, 9, 2]), 0.5, 1)):
        spans = spans_of(admit([Contribution("a", axes, 9, gram=np.diag(variances), noise_floor=1.0)]))
        weights = np.sort(np.linalg.eigvalsh(spans.factors[0] @ spans.factors[0].T))[::-1]
        above = np.sum(variances - 1) / variances.sum()
        np.testing.assert_allclose(weights, 1 - (1 - (1 - above) ** 4) / variances, atol=1e-12)
        assert weights.min() == pytest.approx(least, abs=0.01)
        assert weights.max() == pytest.approx(most, abs=0.02)


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


def test_a_client_with_a_map_for_every_feature_does_not_decide_on_the_number(clients, monkeypatch):
    """Nor does it stop the choice: neither by what it shows, nor by what memory its maps would take."""
    wanted = aggregate(clients[1:], method="group").n_components
    whole = replace(clients[0], atoms=np.eye(D), gram=None, noise_floor=None)
    monkeypatch.setattr(spans_module, "MAX_HELD_BYTES", 8 * D * sum(c.n_atoms for c in clients))
    looked, leading = [], spans_module.Spans.leading
    monkeypatch.setattr(spans_module.Spans, "leading", lambda own, w, q: looked.append(q) or leading(own, w, q))
    admitted = admit([whole, *clients[1:]])
    assert choose_n_directions(admitted, np.ones(K)) == wanted
    assert max(looked) == 2 * max(c.n_atoms for c in clients[1:])


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


def test_explained_variance_is_that_of_the_covariance_that_was_sent(clients):
    """Of each client and component, by group and by consensus; NaN without strengths."""
    silent = replace(clients[3], gram=None, noise_floor=None)
    result = aggregate([*clients[:3], silent, *clients[4:]], R, method="group")
    for k in (0, 7):
        covariance = clients[k].atoms @ clients[k].gram @ clients[k].atoms.T
        wanted = np.diag(result.mixing.T @ covariance @ result.mixing) / np.trace(covariance)
        np.testing.assert_allclose(result.explained_variance[k], wanted, atol=1e-10)
    assert np.isnan(result.explained_variance[3]).all()
    told = np.delete(result.explained_variance, 3, axis=0)
    np.testing.assert_allclose(result.explained_in_all, told.mean(axis=0), atol=1e-15)
    assert 0.5 < result.explained_in_all.sum() < 1
    by_atoms = aggregate(clients, R, method="consensus")
    inverse = np.linalg.pinv(by_atoms.mixing)
    covariance = clients[0].atoms @ clients[0].gram @ clients[0].atoms.T
    np.testing.assert_allclose(
        by_atoms.explained_variance[0], np.diag(inverse @ covariance @ inverse.T) / np.trace(covariance), atol=1e-10
    )
    assert aggregate([replace(c, gram=None, noise_floor=None) for c in clients], R).explained_variance is None


def test_outlying_clients_do_not_count_in_what_is_explained_in_all(clients):
    """An outlying client's variance is its own."""
    rng = np.random.default_rng(0)
    wild = replaced(clients, 1, lambda _, c: replace(c, atoms=rng.standard_normal(c.atoms.shape)))
    result = aggregate(wild, R, method="group")
    assert result.trust.named("outlying") == ("c00",)
    np.testing.assert_allclose(result.explained_in_all, result.explained_variance[1:].mean(axis=0))


def test_auto_takes_group_where_most_spatial_clients_sent_strengths_and_says_why(clients):
    """A minority that withholds or sends them does not decide; else the result is that of consensus, bit by bit."""
    silent = [replace(c, gram=None, noise_floor=None) for c in clients]
    mostly = aggregate([*silent[:5], *clients[5:]], R)
    assert mostly.method == "group"
    assert "spatial, and 7 of 12 clients sent strengths" in mostly.options["method_because"]
    few = aggregate([*silent[:6], *clients[6:]], R)
    assert few.method == "consensus"
    assert "6 of 12 clients sent strengths; group needs more than half" in few.options["method_because"]
    told = aggregate(silent, R, method="consensus")
    assert np.array_equal(aggregate(silent, R).mixing, told.mixing)
    assert "method_because" not in told.options
    temporal = [Contribution(c.client, c.atoms[:, :R], c.n_samples, gram=c.gram[:R, :R]) for c in clients]
    assert aggregate(temporal, R).options["method_because"] == "the contributions are not spatial"


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


@pytest.fixture
def nothing_fits(monkeypatch):
    """Pretend that no factors fit in memory."""
    monkeypatch.setattr(spans_module, "MAX_HELD_BYTES", 0)


def as_array(clients: list[Contribution], atoms: object = None) -> AtomArray:
    """The same clients as one array, with their strengths."""
    return AtomArray(
        np.concatenate([c.atoms for c in clients], axis=1) if atoms is None else atoms,
        np.repeat(np.arange(len(clients)), [c.n_atoms for c in clients]),
        clients=[c.client for c in clients],
        n_samples=[c.n_samples for c in clients],
        independence="features",
        grams=[c.gram for c in clients],
        noise_floors=[c.noise_floor for c in clients],
    )


def mapped(clients: list[Contribution], path) -> np.ndarray:
    """The atoms of the clients in a file of single precision, one per row, mapped."""
    np.save(path, np.concatenate([c.atoms for c in clients], axis=1).T.astype(np.float32))
    return np.load(path, mmap_mode="r").T


def test_by_blocks_it_is_the_same(nothing_fits, monkeypatch, clients):
    """Factors that do not fit memory are never held: to a tenth of a degree, the weights included."""
    by_blocks = aggregate(iter(clients), R, method="group")
    with pytest.raises(GroupingError, match="Give n_components"):
        aggregate(clients, method="group")
    monkeypatch.undo()
    result = aggregate(clients, R, method="group")
    assert match(by_blocks.mixing, result.mixing).cosines.min() > 1 - 1e-5
    np.testing.assert_allclose(by_blocks.explained_variance, result.explained_variance, atol=1e-3)
    assert by_blocks.trust.verdict == result.trust.verdict


def test_an_array_with_strengths_is_read_nine_times_and_gives_what_the_contributions_give(
    nothing_fits, monkeypatch, tmp_path, clients
):
    """float32 in a mapped file: two sweeps to look at it, five for the span, one for the clients and one to match."""
    array = as_array(clients, mapped(clients, tmp_path / "atoms.npy"))
    swept = []
    plain = ArrayBlocks.parts

    def counting(self, *arguments, **options):
        swept.append(not self.in_memory)  # the ICA has arrays of its own
        return plain(self, *arguments, **options)

    monkeypatch.setattr(ArrayBlocks, "parts", counting)
    result = aggregate(array, R, method="group")
    assert sum(swept) == 9
    assert result.atoms.dtype == np.float32
    assert match(result.mixing, aggregate(clients, R, method="group").mixing).cosines.min() > 1 - 1e-5
    assert result.options["n_with_strengths"] == K
    assert result.explained_variance is not None


def test_a_dask_array_gives_the_same(nothing_fits, clients):
    """To 1e-8, in chunks that split clients, with Dask's own threads."""
    da = pytest.importorskip("dask.array")
    atoms = np.concatenate([c.atoms for c in clients], axis=1)
    on_cluster = aggregate(as_array(clients, da.from_array(atoms, chunks=(D, 50))), R, method="group")
    np.testing.assert_allclose(on_cluster.mixing, aggregate(as_array(clients), R, method="group").mixing, atol=1e-8)


def test_many_maps_are_never_held_at_once(nothing_fits, monkeypatch, tmp_path, clients):
    """No block has more than one client's atoms where these are large, and nothing of all atoms' size is made."""
    monkeypatch.setattr(cuts, "COLUMN_BLOCK_BYTES", 0)
    array = as_array(clients, mapped(clients, tmp_path / "atoms.npy"))
    seen = []
    plain = Columns.sweep

    def looking(self, work, *along):
        def of_block(block, *parts):
            seen.append(block.nbytes if self.n_rows == D else 0)
            return work(block, *parts)

        return plain(self, of_block, *along)

    monkeypatch.setattr(Columns, "sweep", looking)
    monkeypatch.setattr(Columns, "whole", _refuse_large)
    aggregate(array, R, method="group")
    assert max(seen) <= 8 * D * 42  # at least 32 columns, in whole clients of 14


def _refuse_large(columns: Columns) -> np.ndarray:
    assert columns.n_rows < D
    return np.asarray(columns.each(lambda block: (block,))[0])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"grams": [np.eye(14)]}, "grams must be 12, one for each client; got 1"),
        ({"grams": [np.eye(13)] * 12}, "must have a row for each of its 14 atoms; got 13"),
        ({"grams": [-np.eye(14)] * 12}, "positive semidefinite"),
        ({"noise_floors": [-1.0] * 12}, "none of them negative"),
        ({"noise_floors": [1.0]}, "one for each client; got 1"),
    ],
)
def test_strengths_of_an_array_are_checked(clients, wrong, said):
    """As those of contributions."""
    with pytest.raises(InputError, match=said):
        replace(as_array(clients), **wrong)


def test_one_client_does_not_move_a_component_much_farther_than_the_others_do(clients):
    """(G11): one that pulls a component towards a direction of its own weighs less, and moves it at most so far."""
    found = aggregate(clients, R, method="group")
    own = np.random.default_rng(8).standard_normal(D)
    towards = found.mixing[:, [0]] + (own / np.linalg.norm(own))[:, None]
    pulling = Contribution("pulls", np.column_stack([towards, found.mixing[:, 1:]]), 9, independence="features")
    result = aggregate([*clients, pulling], R, method="group")
    others = [aggregate(clients[:k] + clients[k + 1 :], R, method="group") for k in range(3)]
    usual = max(np.degrees(np.arccos(match(x.mixing, found.mixing).cosines.min())) for x in others)
    moved = np.degrees(np.arccos(match(result.mixing, found.mixing).cosines.min()))
    assert moved < 2 * usual


def test_influence_is_how_far_a_component_moves_without_the_client(clients):
    """To first order: within 30% of what leaving it out does."""
    found = aggregate(clients, R, method="group")
    moved = []
    for k in range(4):
        cosines = match(aggregate(clients[:k] + clients[k + 1 :], R, method="group").mixing, found.mixing).cosines
        moved.append(np.degrees(np.arccos(cosines.min())))
    np.testing.assert_allclose(found.trust.influence[:4], moved, rtol=0.3)


def test_influence_sees_the_noise_that_no_two_clients_share(truth):
    """Most of what a noisy client does is towards directions of its own, which are not among the leading ones."""
    noisy = [sent(f"c{k:02}", data_of(truth, k, noise=0.3), 14) for k in range(24)]
    found = aggregate(noisy, R, method="group")
    cosines = [
        match(aggregate(noisy[:k] + noisy[k + 1 :], R, method="group").mixing, found.mixing).cosines.min()
        for k in range(4)
    ]
    np.testing.assert_allclose(found.trust.influence[:4], np.degrees(np.arccos(cosines)), rtol=0.3)


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

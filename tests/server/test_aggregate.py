"""The whole pipeline: faithful to the paper, indifferent to what must not matter, clear about bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedica import Contribution, aggregate
from fedica.errors import ContributionError, GroupingError, InputError, OptionError
from fedica.matching import match
from fedica.server import METHODS

MATCHING = sorted(name for name, method in METHODS.items() if method.matches_atoms)


def dense_algorithm_1(atom_blocks: list[np.ndarray], r: int, n_init: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Transcribe Algorithm 1 line by line, densely and slowly."""
    from sklearn.cluster import KMeans

    A_c = np.hstack(atom_blocks)  # 1
    R = A_c.shape[1]
    M = np.sqrt(r / R) * np.abs(A_c.T @ A_c)  # 2
    values, vectors = np.linalg.eigh(M)
    U_r = vectors[:, np.argsort(values)[::-1][:r]]
    Q = U_r.T @ M  # 3
    labels = KMeans(r, n_init=n_init, random_state=0).fit(Q.T).labels_  # 4
    A_hat = np.zeros((A_c.shape[0], r))
    for a in range(r):
        group = A_c[:, labels == a]
        u = np.linalg.svd(group)[0][:, 0]
        projections = u @ group
        group = group * np.where(projections >= 0, 1.0, -1.0)  # 5
        m = group.mean(axis=1)
        for _ in range(2000):  # 6: Weiszfeld, far beyond need
            distance = np.maximum(np.linalg.norm(group - m[:, None], axis=0), 1e-15)
            m = (group / distance).sum(axis=1) / (1 / distance).sum()
        A_hat[:, a] = m
    return A_hat, labels


def same_up_to_signed_order(one: np.ndarray, other: np.ndarray, tol: float) -> bool:
    found = match(one / np.linalg.norm(one, axis=0), other / np.linalg.norm(other, axis=0))
    return bool(np.abs(one * found.signs - other[:, found.labels]).max() < tol)


@pytest.mark.parametrize(("r", "K", "d"), [(3, 5, 3), (10, 30, 10), (4, 9, 20)])
def test_srf_ica_equals_a_dense_transcription(make_federation, r, K, d):
    """On separated federations the centres are those of Algorithm 1 typed in line by line."""
    contributions, _, _ = make_federation(r, K, d=d, noise=0.05)
    reference, labels = dense_algorithm_1([c.atoms for c in contributions], r)
    result = aggregate(contributions, r, method="srf-ica")
    assert same_up_to_signed_order(result.centres, reference, 1e-6)
    for a in range(r):
        assert np.unique(labels[result.labels == a]).size == 1


@pytest.mark.parametrize("affinity", ["absolute", "squared"])
@pytest.mark.parametrize("method", ["srf-ica", "sf-ica"])
def test_every_component_is_found(make_federation, method, affinity):
    """Both affinities and both centres recover the truth better than one client does."""
    contributions, A, truth = make_federation(10, 30, noise=0.03)
    result = aggregate(contributions, 10, method=method, affinity=affinity)
    found = match(result.mixing, A)
    error = np.linalg.norm(result.mixing * found.signs - A[:, found.labels], axis=0)
    assert error.max() < 0.04
    assert np.array_equal(found.labels[result.labels], truth)
    assert result.options["affinity"] == affinity
    assert np.all(result.support == 30)


def test_noalignment_is_worse_than_alignment(make_federation):
    """Without the sign step, opposite atoms cancel."""
    contributions, A, _ = make_federation(5, 12)
    errors = {}
    for method in ("srf-ica", "srf-ica-noalignment"):
        result = aggregate(contributions, 5, method=method)
        found = match(result.mixing, A)
        errors[method] = np.linalg.norm(result.mixing * found.signs - A[:, found.labels])
    assert errors["srf-ica"] < errors["srf-ica-noalignment"]


def test_one_client_gives_its_own_atoms_back(make_federation):
    """K = 1: the aggregate is that client's matrix, exactly, up to order and sign."""
    contributions, _, _ = make_federation(6, 1)
    result = aggregate(contributions, 6)
    assert same_up_to_signed_order(result.mixing, contributions[0].atoms, 1e-12)
    assert np.all(result.support == 1)


def test_as_many_atoms_as_components(make_federation):
    """R = r with several clients: every atom is a component of its own."""
    contributions, A, _ = make_federation(6, 3, counts=[2], noise=0.0)
    result = aggregate(contributions, 6)
    assert sorted(result.labels) == list(range(6))
    assert same_up_to_signed_order(result.mixing, A, 1e-12)


def test_clients_that_see_different_numbers_of_components(make_federation):
    """r_k in {2, 4, 6}: every client helps with what it sees."""
    contributions, A, truth = make_federation(6, 18, counts=[2, 4, 6])
    result = aggregate(contributions, 6)
    found = match(result.mixing, A)
    assert np.array_equal(found.labels[result.labels], truth)
    assert sorted(result.support) == sorted(np.bincount(truth))
    assert list(result.support) == sorted(result.support, reverse=True)


@pytest.mark.parametrize("affinity", ["absolute", "squared"])
def test_many_features(make_federation, affinity):
    """784 features, 10 components: atoms live in a space far larger than their number of components."""
    contributions, A, truth = make_federation(10, 15, d=784, noise=0.02)
    result = aggregate(contributions, 10, affinity=affinity)
    found = match(result.mixing, A)
    assert result.mixing.shape == (784, 10)
    assert np.array_equal(found.labels[result.labels], truth)
    assert found.cosines.min() > 0.99


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), method=st.sampled_from(MATCHING), data=st.data())
def test_order_signs_and_permutations_do_not_matter(make_federation, seed, method, data):
    """Permuting clients changes nothing; flipping and permuting atoms only labels and signs; naive methods differ."""
    contributions, _, _ = make_federation(4, 6, noise=0.05)
    rng = np.random.default_rng(seed)
    reference = aggregate(contributions, 4, method=method)
    shuffled = [contributions[k] for k in rng.permutation(6)]
    again = aggregate(shuffled, 4, method=method)
    assert np.array_equal(again.mixing, reference.mixing)
    assert np.array_equal(again.labels, reference.labels)
    if method in {"naive-mean", "naive-median", "srf-ica-noalignment"}:
        return
    turned = [
        Contribution(c.client, (c.atoms * rng.choice([-1.0, 1.0], 4))[:, rng.permutation(4)], c.n_samples)
        for c in shuffled
    ]
    result = aggregate(turned, 4, method=method, n_init=data.draw(st.integers(1, 5)))
    assert np.allclose(result.mixing, reference.mixing, atol=1e-6)
    assert np.array_equal(result.support, reference.support)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), affinity=st.sampled_from(["absolute", "squared"]))
def test_rotating_feature_space_rotates_the_components(make_federation, seed, affinity):
    """The result is equivariant: rotated atoms give the rotated mixing matrix, up to order and sign."""
    contributions, _, _ = make_federation(4, 6, noise=0.05)
    rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0]
    reference = aggregate(contributions, 4, affinity=affinity)
    rotated = [Contribution(c.client, rotation @ c.atoms, c.n_samples) for c in contributions]
    result = aggregate(rotated, 4, affinity=affinity)
    assert same_up_to_signed_order(result.mixing, rotation @ reference.mixing, 1e-6)


def test_every_atom_times_its_sign_points_along_its_component(make_federation):
    """Labels, signs and mixing of a result belong together."""
    contributions, _, _ = make_federation(5, 8)
    result = aggregate(contributions, 5)
    along = np.einsum("dR,dR->R", result.atoms * result.signs, result.mixing[:, result.labels])
    assert along.min() > 0.9
    assert np.all(np.abs(result.mixing).max(axis=0) == result.mixing.max(axis=0))
    assert np.allclose(result.mixing * np.linalg.norm(result.centres, axis=0), result.centres)


def test_the_certificate_travels_with_the_result(make_federation):
    """Algorithm 2: objective, lower bound and median gaps are there and consistent."""
    contributions, _, _ = make_federation(5, 12)
    certificate = aggregate(contributions, 5).certificate
    assert 0 < certificate.kmeans_lower_bound <= certificate.kmeans_objective
    assert certificate.kmeans_gamma == pytest.approx(certificate.kmeans_objective / certificate.kmeans_lower_bound - 1)
    assert certificate.median_gap.max() <= 1e-10
    assert aggregate(contributions, 5, method="naive-mean").certificate.kmeans_gamma is None


def test_declared_samples_weigh_only_when_asked(make_federation):
    """weights="samples" makes a client with few samples count less; declaring a million buys nothing."""
    contributions, _, _ = make_federation(3, 5, noise=0.05)
    poor = [Contribution(c.client, c.atoms, 10 if k == 0 else 1000) for k, c in enumerate(contributions)]
    rich = [Contribution(c.client, c.atoms, 10**9 if k == 0 else 1000) for k, c in enumerate(contributions)]
    plain = aggregate(poor, 3, method="sf-ica").mixing
    without = aggregate(contributions[1:], 3, method="sf-ica").mixing
    weighted = aggregate(poor, 3, method="sf-ica", weights="samples").mixing
    assert np.linalg.norm(weighted - without) < 0.1 * np.linalg.norm(plain - without)
    assert np.array_equal(aggregate(rich, 3, method="sf-ica", weights="samples").mixing, plain)


def test_geometric_median_weights_are_those_of_the_weighted_problem(make_federation):
    """With weights the centre minimises the weighted sum of distances."""
    contributions, _, _ = make_federation(2, 7, noise=0.2)
    uneven = [Contribution(c.client, c.atoms, 100 * (k + 1)) for k, c in enumerate(contributions)]
    result = aggregate(uneven, 2, method="srf-ica", weights="samples")
    weight = np.sqrt(np.minimum(np.arange(1, 8) / 4, 1))[result.client_of_atom]
    group = (result.atoms * result.signs)[:, result.labels == 0]
    w = weight[result.labels == 0]
    best = minimize(lambda m: w @ np.linalg.norm(group - m[:, None], axis=0), group.mean(axis=1), tol=1e-12)
    assert np.allclose(best.x, result.centres[:, 0], atol=1e-5)


def test_cancelled_centres_are_flagged_and_never_divided_by():
    """A naive mean of opposite atoms is zero: it stays zero, finite, and is named degenerate."""
    one, other = Contribution("a", np.eye(2), 10), Contribution("b", -np.eye(2), 10)
    result = aggregate([one, other], 2, method="naive-mean")
    assert np.array_equal(result.mixing, np.zeros((2, 2)))
    assert list(result.degenerate) == [0, 1]
    assert "degenerate" in repr(result)


def test_repr_fits_a_screen(make_federation):
    """The repr names the method, the sizes and each component."""
    text = repr(aggregate(make_federation(15, 4)[0], 15))
    assert "15 components of 15 features from 4 clients (60 atoms)" in text
    assert "3 more components" in text
    assert len(text.splitlines()) < 25


class TestBadInput:
    """Each with its own sentence."""

    def test_no_contribution(self):
        """Nothing to aggregate."""
        with pytest.raises(InputError, match="at least one contribution"):
            aggregate([], 2)

    def test_not_a_contribution(self):
        """Bare arrays are not taken: a client needs a name."""
        with pytest.raises(InputError, match="aggregate takes Contribution records; got a ndarray"):
            aggregate([np.eye(2)], 2)

    def test_unknown_method(self, make_federation):
        """The sentence lists the methods there are."""
        with pytest.raises(OptionError, match=r"method must be one of 'auto', 'consensus'.*got 'fedavg'"):
            aggregate(make_federation(3, 3)[0], 3, method="fedavg")

    def test_different_numbers_of_features(self, make_federation):
        """The odd one out is named."""
        contributions, _, _ = make_federation(3, 4)
        contributions[2] = Contribution("client-02", np.eye(5)[:, :3], 100)
        with pytest.raises(
            ContributionError, match="'client-02' sent atoms of 5 features; 3 other clients have 3"
        ) as info:
            aggregate(contributions, 3)
        assert info.value.client == "client-02"

    def test_duplicate_names(self, make_federation):
        """Two different contributions under one name."""
        contributions, _, _ = make_federation(3, 4)
        twin = Contribution("client-01", np.eye(3), 10)
        with pytest.raises(ContributionError, match="'client-01' sent 2 different contributions"):
            aggregate([*contributions, twin], 3)

    def test_fewer_atoms_than_components(self, make_federation):
        """Counted out."""
        with pytest.raises(GroupingError, match="7 components were wanted, but the 2 clients sent 6 atoms"):
            aggregate(make_federation(3, 2, d=8)[0], 7)

    def test_more_components_than_features(self, make_federation):
        """No ICA finds more components than features."""
        with pytest.raises(GroupingError, match="4 components were wanted, but the atoms have 3 features"):
            aggregate(make_federation(3, 5)[0], 4)

    def test_zero_atom(self):
        """A zero column is no direction."""
        with pytest.raises(ContributionError, match=r"client 'a'.*atom 1 is zero"):
            Contribution("a", np.array([[1.0, 0.0], [0.0, 0.0]]), 10)

    def test_not_finite(self):
        """A NaN is found before it spreads."""
        with pytest.raises(ContributionError, match=r"client 'a'.*1 NaN and 0 infinite"):
            Contribution("a", np.array([[1.0, np.nan], [0.0, 1.0]]), 10)

    def test_fewer_groups_than_components(self):
        """Copies of two atoms cannot make three components: an error, never a NaN."""
        same = [Contribution(f"c{k}", np.eye(3)[:, :2], 10) for k in range(4)]
        with pytest.raises(GroupingError, match="form 2 groups; 3 components were wanted"):
            aggregate(same, 3)

    def test_too_many_atoms_for_a_naive_method(self, make_federation):
        """Column indices beyond n_components belong nowhere."""
        with pytest.raises(GroupingError, match="a client sent 3 atoms"):
            aggregate(make_federation(3, 3)[0], 2, method="naive-mean")

    @pytest.mark.parametrize("bad", [0, -1, 2.5, True, "3"])
    def test_n_components_out_of_range(self, make_federation, bad):
        """Not a whole number of at least one."""
        with pytest.raises(OptionError, match="n_components must be a whole number"):
            aggregate(make_federation(3, 3)[0], bad)


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), method=st.sampled_from(MATCHING), kind=st.integers(0, 4))
def test_any_federation_gives_finite_numbers_or_one_clear_error(seed, method, kind):
    """Random atoms, copies, coordinate axes, clients of all sizes: never a NaN, a warning or a stray exception."""
    rng = np.random.default_rng(seed)
    d, K = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    r = int(rng.integers(1, d + 1))
    A = rng.standard_normal((d, r))

    def atoms():
        n = int(rng.integers(1, min(r + 1, d) + 1))
        return [
            rng.standard_normal((d, n)),
            A[:, rng.integers(0, r, n)],
            np.repeat(A[:, :1], n, axis=1) * rng.choice([-1.0, 1.0], n),
            A[:, rng.permutation(r)[:n]] * (1 + 0.01 * rng.standard_normal((d, min(n, r)))),
            np.eye(d)[:, rng.integers(0, d, n)],
        ][kind]

    contributions = [Contribution(f"c{k}", atoms(), int(rng.integers(1, 999))) for k in range(K)]
    try:
        result = aggregate(
            contributions,
            None if rng.random() < 0.3 else r,
            method=method,
            affinity=str(rng.choice(["auto", "absolute", "squared"])),
            weights="samples" if rng.random() < 0.3 else None,
            n_init=2,
        )
    except GroupingError:
        return
    for numbers in (result.mixing, result.centres, result.spread, result.spectrum):
        assert np.isfinite(numbers).all()
    for numbers in (result.trust.angle, result.trust.angles, result.trust.influence):
        assert np.isfinite(numbers).all()
    assert len(repr(result).splitlines()) < 40

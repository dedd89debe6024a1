"""The paper's theorems, on federations that meet their condition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.arrays import polar, unit
from fedica.errors import InputError
from fedica.evaluate import geometric_median_bound, misclustering, recovery_error, theory
from fedica.evaluate.bounds import GOOD_ATOM
from fedica.records import Contribution
from fedica.server import aggregate


def tilt(column, length, rng):
    """Return a unit vector at exactly this distance from a unit column."""
    angle = 2 * np.arcsin(length / 2)
    aside = rng.standard_normal(column.size)
    aside -= column * (column @ aside)
    return np.cos(angle) * column + np.sin(angle) * aside / np.linalg.norm(aside)


def some_atoms(rng, r, n_clients, noise, bad=()):
    """Atoms (d, R) of clients that see everything, in random order and sign; ``bad``: errors of single atoms."""
    truth = polar(rng.standard_normal((r + 1, r)))
    blocks = []
    for k in range(n_clients):
        block = np.stack([tilt(a, noise * rng.uniform(0.2, 1), rng) for a in truth.T], axis=1)
        if k < len(bad):
            block[:, k % r] = tilt(truth[:, k % r], bad[k], rng)
        blocks.append(block[:, rng.permutation(r)] * rng.choice([-1.0, 1.0], r))
    return np.hstack(blocks), np.repeat(np.arange(n_clients), r), truth


def contributions_of(atoms, client_of_atom):
    return [Contribution(f"{k:04d}", atoms[:, client_of_atom == k], 5000) for k in np.unique(client_of_atom)]


FEDERATIONS = {
    "nobody bad": (5, 40, 4e-3, ()),
    "one atom just below the threshold": (2, 500, 5e-4, (GOOD_ATOM - 1e-3,)),
    "one atom beyond it": (2, 500, 5e-4, (GOOD_ATOM + 1e-2,)),
    "several bad atoms": (3, 400, 5e-4, (0.15, 0.15, 0.15)),
}


@pytest.fixture(scope="module", params=FEDERATIONS, ids=lambda name: name.replace(" ", "-"))
def federation_within_the_theory(request):
    r, n_clients, noise, bad = FEDERATIONS[request.param]
    atoms, clients, truth = some_atoms(np.random.default_rng(7), r, n_clients, noise, bad)
    promise = theory(atoms, clients, truth)
    assert promise.holds  # otherwise the theorems say nothing, and the tests below would be empty
    return atoms, clients, truth, promise


@pytest.mark.parametrize("method", ["srf-ica", "sf-ica"])
def test_theorems_hold_where_their_condition_does(federation_within_the_theory, method):
    """Errors, misclustering and signs of the aggregate stay within what the theorems promise."""
    atoms, clients, truth, promise = federation_within_the_theory
    result = aggregate(contributions_of(atoms, clients), truth.shape[1], method=method)
    centres = result.centres
    error = recovery_error(result.mixing, truth)
    moved = centres[:, error.permutation] * error.signs
    raw = np.linalg.norm(moved - truth, axis=0)  # the theorems speak of the centres before they are scaled
    bound = promise.srf_bound if method == "srf-ica" else np.full(truth.shape[1], promise.sf_bound)
    assert np.all(np.isfinite(bound))
    assert np.all(raw <= bound)

    wrong = misclustering(result.labels, promise.labels)
    assert np.all(wrong.rates <= 8 * promise.eta_a)  # Eq. (25)
    good = promise.atom_errors < GOOD_ATOM
    assert not np.any(wrong.wrong & good)
    turn = result.signs * promise.signs  # constant over the good atoms of a component, the lemma of Eq. (26)
    for a in range(truth.shape[1]):
        assert np.unique(turn[good & (promise.labels == a)]).size == 1


@given(seed=st.integers(0, 2**32 - 1), r=st.integers(2, 4), n_clients=st.integers(1, 8), noise=st.floats(1e-6, 0.5))
@settings(max_examples=40, deadline=None)
def test_spectral_error_is_bounded_by_the_atoms_error_whatever_the_condition(seed, r, n_clients, noise):
    """The bound eta <= 4 (2 sqrt(eps) + eps)^2 holds in every balanced federation with an orthonormal truth."""
    promise = theory(*some_atoms(np.random.default_rng(seed), r, n_clients, noise))
    assert promise.balanced
    assert promise.orthonormal
    assert promise.eta <= promise.eta_bound


def test_quantities_by_hand():
    """Two components, two clients, one atom tilted by 0.1: everything can be written down."""
    rng = np.random.default_rng(0)
    atoms = np.column_stack([[1.0, 0, 0], [0, -1.0, 0], tilt(np.array([0, 1.0, 0]), 0.1, rng), [-1.0, 0, 0]])
    promise = theory(atoms, [0, 0, 1, 1], np.eye(3)[:, :2])
    np.testing.assert_array_equal(promise.labels, [0, 1, 1, 0])
    np.testing.assert_array_equal(promise.signs, [1, -1, 1, -1])
    np.testing.assert_allclose(promise.atom_errors, [0, 0, 0.1, 0], atol=1e-12)
    np.testing.assert_allclose(promise.eps_a, [0, 0.005])
    assert promise.eps == pytest.approx(0.005)
    assert promise.delta == pytest.approx(32 * (2 * np.sqrt(0.005) + 0.005) ** 2)
    assert promise.condition == pytest.approx(8 * np.sqrt(14) * (2 * np.sqrt(0.005) + 0.005))
    assert not promise.holds
    np.testing.assert_allclose(promise.quantile(0.5), [0, 0], atol=1e-12)
    np.testing.assert_allclose(promise.quantile(0.51), [0, 0.1], atol=1e-12)
    # 2 * 1 / (2 - 1 - delta) * Q(1): p = 1 is the only quantile above one half
    np.testing.assert_allclose(promise.srf_bound, [0, 2 / (1 - promise.delta) * 0.1], atol=1e-12)


def test_perfect_atoms_have_nothing_to_bound():
    """All of eps, eta, delta and the bounds are zero, and the condition holds."""
    truth = polar(np.random.default_rng(1).standard_normal((4, 3)))
    promise = theory(np.hstack([truth, -truth]), [0, 0, 0, 1, 1, 1], truth)
    assert promise.holds
    for value in (promise.eps, promise.eta, promise.delta, promise.sf_bound, *promise.srf_bound):
        assert abs(value) < 1e-6  # square roots of rounding


def test_eta_equals_its_dense_definition():
    """eta_a and eta follow Eq. (19), matrix by matrix."""
    atoms, clients, truth = some_atoms(np.random.default_rng(5), 3, 7, 0.3)
    promise = theory(atoms, clients, truth)
    r, n_atoms = 3, 21
    affinity = np.sqrt(r / n_atoms) * np.abs(atoms.T @ atoms)
    values, vectors = np.linalg.eigh(affinity)
    low_rank = vectors[:, -r:] @ np.diag(values[-r:]) @ vectors[:, -r:].T
    z = np.eye(r)[promise.labels].T
    difference = low_rank - np.sqrt(r / n_atoms) * z.T @ z
    expected = [np.mean(np.sum(difference[:, promise.labels == a] ** 2, axis=0)) for a in range(r)]
    np.testing.assert_allclose(promise.eta_a, expected)
    assert promise.eta == pytest.approx(r / n_atoms * np.linalg.norm(difference) ** 2)


def test_the_theory_is_silent_where_its_assumptions_fail():
    """Unbalanced components and a truth that is not orthonormal: the condition may hold, the theorems do not speak."""
    truth = np.eye(3)
    unbalanced = theory(np.hstack([truth, truth[:, :2]]), [0, 0, 0, 1, 1], truth)
    assert unbalanced.condition <= 1
    assert not unbalanced.holds
    slanted = unit(np.array([[1.0, 0.5], [0, 1.0]]))
    general = theory(slanted, [0, 0], slanted)
    assert general.condition <= 1
    assert not general.holds


@pytest.mark.parametrize(
    ("atoms", "clients", "sentence"),
    [
        (np.eye(3), [0, 0, 0], "at most r = 2 atoms; client 0 has 3"),
        (np.eye(2), [0, 0], "3 features"),
        (np.eye(3), [0, 1], "each of the 3 atoms"),
        (np.eye(3), [1, 0, 1], "got unordered clients"),
    ],
)
def test_atoms_the_theory_cannot_place_are_refused(atoms, clients, sentence):
    """Each with the number that is wrong."""
    with pytest.raises(InputError, match=sentence):
        theory(atoms, clients, np.eye(3)[:, :2])


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 9), gamma=st.sampled_from([0.0, 0.05, 0.5]))
@settings(max_examples=60, deadline=None)
def test_geometric_median_bound_holds_for_approximate_medians(seed, n, gamma):
    """On the line, every point whose objective is within (1 + gamma) of the best lies within the bound."""
    rng = np.random.default_rng(seed)
    points = rng.standard_cauchy(n)
    grid = np.concatenate([points, np.linspace(points.min() - 1, points.max() + 1, 2001)])
    objective = np.abs(grid[:, None] - points).sum(axis=1)
    approximate = grid[objective <= (1 + gamma) * objective.min()]
    bound = geometric_median_bound(np.abs(points), gamma=gamma)  # the target is zero
    assert np.all(np.abs(approximate) <= bound * (1 + 1e-9))


def test_geometric_median_bound_needs_distances():
    """No points, no bound."""
    with pytest.raises(InputError, match="at least one"):
        geometric_median_bound([])

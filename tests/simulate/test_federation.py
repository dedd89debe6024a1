"""Simulated federations."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import OptionError
from fedica.simulate import federation
from fedica.simulate.mixing import random_mixing
from fedica.simulate.settings import share_of


def test_data_is_the_mixture_of_the_sources_a_client_sees():
    """Without noise X = S A_k', exactly; the mixing matrix is orthonormal and the sources sparse."""
    drawn = federation(4, 3, n_features=5, n_samples=200, components_per_client=2, random_state=1)
    assert drawn.mixing.shape == (5, 3)
    np.testing.assert_allclose(drawn.mixing.T @ drawn.mixing, np.eye(3), atol=1e-12)
    for client in drawn.clients:
        assert client.X.shape == (200, 5)
        assert client.components.size == 2
        np.testing.assert_allclose(client.X, client.sources @ drawn.mixing[:, client.components].T, atol=1e-12)
        assert np.mean(client.sources != 0) == pytest.approx(0.1, abs=0.05)


def test_a_clients_data_depends_on_the_seed_and_its_number_alone():
    """More clients, other clients' samples: client 2 keeps its data. Another seed: it does not."""
    one = federation(3, 4, n_samples=50, random_state=5)
    other = federation(8, 4, n_samples=[70, 60, 50, 40, 30, 20, 10, 9], random_state=5)
    np.testing.assert_array_equal(one.mixing, other.mixing)
    np.testing.assert_array_equal(one.clients[2].X, other.clients[2].X)
    assert np.any(federation(3, 4, n_samples=50, random_state=6).clients[2].X != one.clients[2].X)
    assert np.any(one.clients[1].X != one.clients[2].X)


def test_the_first_clients_are_corrupted_and_a_half_rounds_up():
    """0.15 of 30 clients are 5, not 4."""
    drawn = federation(30, 2, n_samples=40, corrupted_share=0.15, corrupted_samples=7)
    assert [c.corrupted for c in drawn.clients] == [True] * 5 + [False] * 25
    assert [len(c.X) for c in drawn.clients] == [7] * 5 + [40] * 25
    assert drawn.X.shape == (5 * 7 + 25 * 40, 2)
    np.testing.assert_array_equal(np.bincount(drawn.groups), [7] * 5 + [40] * 25)
    assert "30 clients (5 corrupted)" in repr(drawn)
    assert "corrupted" in repr(drawn.clients[0])


@pytest.mark.parametrize("tenths", range(11))
@pytest.mark.parametrize("n_clients", [1, 7, 10, 30, 45])
def test_shares_round_half_up_whatever_the_binary_fraction(tenths, n_clients):
    """The count equals the one of exact integer arithmetic."""
    assert share_of(tenths / 10, n_clients, "share") == (2 * tenths * n_clients + 10) // 20
    assert share_of(tenths / 20, n_clients, "share") == (2 * tenths * n_clients + 20) // 40


def test_noise_and_law_can_differ_between_clients():
    """Client 0 is noisy and Laplace, client 1 clean and uniform."""
    drawn = federation(2, 3, n_features=6, n_samples=4000, noise=[0.5, 0.0], law=["laplace", "uniform"])
    noisy, clean = drawn.clients
    residual = noisy.X - noisy.sources @ drawn.mixing.T
    assert residual.std() == pytest.approx(0.5, rel=0.05)
    assert np.abs(clean.sources).max() <= np.sqrt(3)
    assert np.abs(noisy.sources).max() > np.sqrt(3)


@pytest.mark.parametrize("condition", [1.0, 2.0, 30.0, 1e4])
@pytest.mark.parametrize(("d", "r"), [(1, 1), (2, 2), (7, 4), (20, 20)])
def test_mixing_has_unit_columns_and_the_condition_number_asked_for(condition, d, r):
    """Both at once; one column always has condition number one."""
    mixing = random_mixing(d, r, condition=condition, rng=np.random.default_rng(3))
    np.testing.assert_allclose(np.linalg.norm(mixing, axis=0), 1, atol=1e-12)
    assert np.linalg.cond(mixing) == pytest.approx(condition if r > 1 else 1, rel=1e-5)


def test_records_cannot_be_written_to():
    """The truth stays the truth."""
    drawn = federation(1, 2, n_samples=10)
    with pytest.raises(ValueError, match="read-only"):
        drawn.mixing[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        drawn.clients[0].X[0, 0] = 1


def test_a_hundred_clients_of_five_thousand_samples():
    """The paper's largest federation; `make bench` measures how long it takes."""
    assert federation(100).X.shape == (500_000, 10)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_clients": 0}, "n_clients"),
        ({"n_features": 2}, "n_features.*at least 3"),
        ({"n_samples": [10, 10]}, "n_samples must be one value.*4 clients; got 2"),
        ({"corrupted_share": 1.2}, "corrupted_share"),
        ({"noise": -1}, "noise"),
        ({"law": "wrong"}, "source law"),
        ({"condition": 0.5}, "condition"),
    ],
)
def test_impossible_federations_are_refused(options, sentence):
    """Each option by its name."""
    with pytest.raises(OptionError, match=sentence):
        federation(**{"n_clients": 4, "n_components": 3, "n_samples": 10, **options})

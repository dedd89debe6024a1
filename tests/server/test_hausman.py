"""(C5): the difference of two weighted means beside what independent errors add up to."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.server.consensus.hausman import explained_by_independent_errors
from fedica.server.consensus.shared_errors import Errors


def draw_errors(rng, n, r=5, q=5):
    """Errors of clients that differ, and weights by which who is near gains."""
    vectors = rng.standard_normal((n, r, q)) * rng.lognormal(0, 0.5, (n, 1, 1))
    return vectors, np.exp(-np.square(vectors).sum(axis=(1, 2)) / (r * q))


def explained(vectors, weights):
    """Whether independent errors explain what the weights change, beside equal ones."""
    n, r, q = vectors.shape
    change = np.repeat((weights / weights.sum() - 1 / n)[:, None], r, axis=1)
    return explained_by_independent_errors(Errors(np.arange(n), vectors, np.zeros((q, r))), change)


@pytest.mark.parametrize("n", [10, 40, 200])
def test_errors_that_point_anywhere_explain_it(n):
    """Whatever their sizes: at most 2% are refused."""
    refused = [not explained(*draw_errors(np.random.default_rng(seed), n)) for seed in range(100)]
    assert sum(refused) <= 6  # seven or more of 100 come once in 250 runs


@pytest.mark.parametrize("n", [60, 200])
def test_an_error_that_those_share_who_gain_does_not(n):
    """Four in ten are near and err the same way."""
    rng = np.random.default_rng(n)
    vectors, weights = draw_errors(rng, n)
    near = np.arange(n) < 0.4 * n
    vectors[near] = rng.standard_normal(vectors.shape[1:]) + 0.01 * vectors[near]
    weights[near] = weights.max()
    assert not explained(vectors, weights)


def test_among_many_clients_a_small_shared_error_is_seen():
    """The fifth that is nearest shares a fifth of a typical error: a bound 10% wider sees it once in 60 times."""
    refused = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        vectors, weights = draw_errors(rng, 200)
        vectors[weights >= np.quantile(weights, 0.8)] += 0.2 * rng.standard_normal(vectors.shape[1:])
        refused += not explained(vectors, weights)
    assert refused >= 6


def test_an_error_of_one_component_is_seen_among_many():
    """A third shares an error of one component of twenty; the same errors with random signs are not shared."""
    rng = np.random.default_rng(0)
    vectors, _ = draw_errors(rng, 60, r=20, q=20)
    near = np.arange(60) < 20
    vectors[near, 3] = 0.4 * rng.standard_normal(20)
    weights = np.where(near, 2.0, 0.5)
    assert not explained(vectors, weights)
    vectors[near, 3] *= np.where(np.arange(20) % 2, -1, 1)[:, None]
    assert explained(vectors, weights)


def test_two_equal_answers_and_too_few_clients_are_not_refused():
    """Of seven clients any three may agree."""
    vectors, _ = draw_errors(np.random.default_rng(1), 8)
    assert explained(vectors, np.ones(8))
    weights = np.where(np.arange(8) < 4, 3.0, 1.0)
    shared = np.where(weights > 1, 1.0, -1.0)[:, None, None] * np.ones((5, 5))
    assert not explained(shared + 0.1 * vectors, weights)
    assert explained((shared + 0.1 * vectors)[1:], weights[1:])


def test_errors_of_few_directions_add_up_to_more_by_chance():
    """Real errors are not alike in all directions: what counts is their dimension, not how many numbers they have."""
    refused = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        few = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 25))
        vectors = few.reshape(40, 5, 5) + 0.1 * rng.standard_normal((40, 5, 5))
        refused += not explained(vectors, np.exp(-np.square(few).sum(axis=1) / np.square(few).sum(axis=1).mean()))
    assert refused <= 8


def test_of_two_clients_neither_counts_more():
    """Each is as far from the mean as the other: what one gains by being near is arbitrary."""
    vectors, _ = draw_errors(np.random.default_rng(2), 2)
    assert not explained(vectors, np.array([2.0, 1.0]))
    assert explained(np.concatenate([vectors, vectors[:1]]), np.array([2.0, 1.0, 1.0]))

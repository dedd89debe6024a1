"""Errors of a mixing matrix against the truth."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.arrays import unit
from fedica.errors import InputError
from fedica.evaluate import amari_distance, recovery_error


def brute_force(estimate, truth):
    """Smallest Frobenius norm over every signed permutation, one after the other."""
    r = truth.shape[1]
    return min(
        np.linalg.norm(unit(estimate)[:, list(order)] * signs - unit(truth))
        for order in permutations(range(r))
        for signs in product((-1.0, 1.0), repeat=r)
    )


@given(seed=st.integers(0, 2**32 - 1), r=st.integers(1, 4), extra=st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_error_is_the_minimum_over_every_signed_permutation(seed, r, extra):
    """Linear assignment finds what trying all signed permutations finds."""
    rng = np.random.default_rng(seed)
    estimate, truth = rng.standard_normal((2, r + extra, r))
    error = recovery_error(estimate, truth)
    assert error.frobenius == pytest.approx(brute_force(estimate, truth), abs=1e-12)
    assert error.relative == pytest.approx(error.frobenius / np.sqrt(r))
    assert np.linalg.norm(error.per_component) == pytest.approx(error.frobenius)


def test_a_signed_permutation_of_the_truth_has_no_error_and_is_found():
    """The permutation and the signs undo what was done."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((7, 5))
    order, signs = rng.permutation(5), rng.choice([-1.0, 1.0], 5)
    estimate = np.empty_like(truth)
    estimate[:, order] = 3.0 * truth * signs
    error = recovery_error(estimate, truth)
    assert error.frobenius < 1e-14
    np.testing.assert_array_equal(error.permutation, order)
    np.testing.assert_array_equal(error.signs, signs)


def test_errors_belong_to_the_true_columns():
    """One column of the estimate turned by an angle: its true column, and no other, has the chord as error."""
    angle = 0.2
    estimate = np.eye(4)[:, [2, 0, 3, 1]]
    estimate[:, 2] = -(np.cos(angle) * np.eye(4)[3] + np.sin(angle) * np.eye(4)[0])
    error = recovery_error(estimate, np.eye(4))
    np.testing.assert_allclose(error.per_component, [0, 0, 0, 2 * np.sin(angle / 2)], atol=1e-15)


def test_tiny_errors_are_not_lost_to_cancellation():
    """An error of 1e-12 is reported as 1e-12: the norm is of the difference, not of 2 - 2 cos."""
    estimate = np.eye(3)
    estimate[1, 0] = 1e-12
    assert recovery_error(estimate, np.eye(3)).frobenius == pytest.approx(1e-12, rel=1e-6)


def test_a_column_without_direction_has_error_one():
    """A centre whose atoms cancelled is not divided by its norm."""
    estimate = np.eye(3)
    estimate[:, 1] = 1e-15
    np.testing.assert_allclose(recovery_error(estimate, np.eye(3)).per_component, [0, 1, 0], atol=1e-12)


def test_matrices_of_another_shape_are_refused():
    """The sentence gives both shapes."""
    with pytest.raises(InputError, match=r"\(4, 3\).*\(4, 2\)"):
        recovery_error(np.eye(4)[:, :2], np.eye(4)[:, :3])


@given(seed=st.integers(0, 2**32 - 1), r=st.integers(2, 6))
@settings(max_examples=30, deadline=None)
def test_amari_distance_ignores_order_sign_and_scale_and_stays_below_one(seed, r):
    """Zero on signed, scaled permutations; between zero and one, and unchanged by them, elsewhere."""
    rng = np.random.default_rng(seed)
    estimate, truth = rng.standard_normal((2, r + 1, r))
    change = np.eye(r)[:, rng.permutation(r)] * rng.choice([-2.0, 0.5, 3.0], r)
    assert amari_distance(truth @ change, truth) < 1e-10
    distance = amari_distance(estimate, truth)
    assert 0 <= distance <= 1
    assert amari_distance(estimate @ change, truth) == pytest.approx(distance, rel=1e-6)


def test_amari_distance_of_a_known_leak():
    """Two columns, each leaking a quarter into the other: a quarter."""
    mixing = np.array([[1.0, 0.25], [0.25, 1.0]])
    assert amari_distance(np.eye(2), mixing) == pytest.approx(0.25)


def test_amari_distance_of_one_column_is_zero_and_of_a_vanished_one_is_large():
    """A single column has nothing to leak to; a column without direction leaks everything."""
    assert amari_distance(np.ones((3, 1)), np.eye(3)[:, :1]) == 0
    broken = np.eye(2)
    broken[:, 1] = 0
    assert amari_distance(broken, np.eye(2)) == pytest.approx(0.5)

"""Shares of atoms in the wrong group."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.errors import InputError
from fedica.evaluate import misclustering


@given(seed=st.integers(0, 2**32 - 1), r=st.integers(1, 5), n_atoms=st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_overall_share_is_the_minimum_over_every_relabelling(seed, r, n_atoms):
    """Linear assignment finds what trying all permutations finds; rates and atoms add up to it."""
    rng = np.random.default_rng(seed)
    labels, truth = rng.integers(-1, r, n_atoms), rng.integers(0, r, n_atoms)
    result = misclustering(labels, truth, r)
    best = min(np.sum(np.append(order, -1)[labels] != truth) for order in permutations(range(r)))
    assert result.overall == pytest.approx(best / n_atoms)
    assert result.wrong.sum() == best
    assert result.rates @ np.bincount(truth, minlength=r) == pytest.approx(best)


def test_renamed_groups_are_not_wrong():
    """A grouping is the same grouping whatever its groups are called."""
    result = misclustering([2, 2, 0, 0, 1], [0, 0, 1, 1, 2])
    assert result.overall == 0
    np.testing.assert_array_equal(result.relabelling, [1, 2, 0])


def test_rates_are_within_the_true_component():
    """Of three atoms of component 0 one went to the group of component 1, which loses none of its own."""
    result = misclustering([0, 0, 1, 1, 1], [0, 0, 0, 1, 1])
    np.testing.assert_allclose(result.rates, [1 / 3, 0])
    assert result.overall == pytest.approx(0.2)
    np.testing.assert_array_equal(result.wrong, [False, False, True, False, False])


def test_atoms_put_nowhere_are_wrong_and_atoms_of_nobody_are_not_counted():
    """Label -1 counts against its component; true label -1 counts not at all."""
    result = misclustering([0, -1, 1, 1, 0], [0, 0, 1, -1, -1])
    np.testing.assert_allclose(result.rates, [0.5, 0])
    assert result.overall == pytest.approx(1 / 3)
    assert misclustering([-1, -1], [0, 1]).overall == 1


def test_more_groups_than_components_and_fewer():
    """A group too many stands for nothing, and its atoms are wrong; a missing group loses its component."""
    result = misclustering([0, 1, 2, 2], [0, 0, 1, 1])
    assert result.overall == pytest.approx(0.25)
    assert sorted(result.relabelling) == [-1, 0, 1]
    np.testing.assert_allclose(misclustering([0, 0, 0], [0, 0, 1], 3).rates, [0, 1, 0])


@pytest.mark.parametrize(
    ("labels", "truth", "r", "sentence"),
    [
        ([0, 1], [0], None, "got 2 and 1"),
        ([0.5], [0], None, "must be integers"),
        ([-2], [0], None, "got -2"),
        ([0], [3], 3, "below n_components = 3; got 3"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(labels, truth, r, sentence):
    """Each with the number that is wrong."""
    with pytest.raises(InputError, match=sentence):
        misclustering(labels, truth, r)

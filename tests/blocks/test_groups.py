"""Sums, medians and nearest halves within groups."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.blocks import group_medians, membership, nearest_halves, weighted_median

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, n=st.integers(1, 40))
def test_a_product_with_the_membership_sums_by_group(seed, n):
    """Against numpy, group by group; negative groups count nowhere, and a value of one is the default."""
    rng = np.random.default_rng(seed)
    columns, values, groups = rng.standard_normal((3, n)), rng.standard_normal(n), rng.integers(-1, 3, n)
    sums = columns @ membership(groups, 3, values)
    for a in range(3):
        assert np.allclose(sums[:, a], (columns * values)[:, groups == a].sum(axis=1))
    assert np.array_equal(membership(groups, 3).sum(axis=0), np.bincount(groups + 1, minlength=4)[1:])


@settings(max_examples=50, deadline=None)
@given(seed=seeds, n=st.integers(1, 40), n_groups=st.integers(1, 5))
def test_group_medians_are_the_medians_of_the_groups(seed, n, n_groups):
    """Against numpy, group by group, for few groups, many, and equal ones; negative groups count nowhere."""
    rng = np.random.default_rng(seed)
    values, groups = rng.standard_normal(n), rng.integers(-1, n_groups, n)
    for extra in (0, 300):  # groups without members make them many
        found = group_medians(values, groups, n_groups + extra, empty=-7.0)
        for a in range(n_groups):
            own = values[groups == a]
            assert found[a] == (np.median(own) if own.size else -7.0)
    equal = group_medians(rng.standard_normal(900), np.repeat(np.arange(300), 3), 300, empty=-7.0)
    assert equal.shape == (300,)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, n=st.integers(1, 40))
def test_nearest_halves_hold_more_than_half_and_nothing_nearer_is_left_out(seed, n):
    """Always n // 2 + 1 of n, all of them no farther than the others."""
    rng = np.random.default_rng(seed)
    values, groups = rng.standard_normal(n), rng.integers(-1, 3, n)
    near = nearest_halves(values, groups, 3)
    assert not near[groups < 0].any()
    for a in range(3):
        own = groups == a
        if own.any():
            assert near[own].sum() == own.sum() // 2 + 1
            assert values[own & near].max() <= values[own & ~near].min(initial=np.inf)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, n=st.integers(1, 30))
def test_a_weighted_median_halves_the_weight(seed, n):
    """At least half of the weight is not above it, and no more than half is below."""
    rng = np.random.default_rng(seed)
    v, w = rng.standard_normal(n), rng.uniform(0.1, 1, n)
    found = weighted_median(v, w, empty=-7.0)
    assert found in v
    assert w[v <= found].sum() >= w.sum() / 2 * (1 - 1e-9)
    assert w[v < found].sum() <= w.sum() / 2 * (1 + 1e-9)
    assert weighted_median(v[:0], w[:0], empty=-7.0) == -7.0

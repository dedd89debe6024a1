"""Which client sees which components."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.errors import OptionError
from fedica.simulate.coverage import component_counts, draw_coverage


@given(
    seed=st.integers(0, 2**32 - 1),
    r=st.integers(1, 8),
    n_clients=st.integers(1, 12),
    skew=st.floats(1, 100),
    data=st.data(),
)
@settings(max_examples=80, deadline=None)
def test_every_client_sees_as_many_as_it_should_and_every_component_is_seen(seed, r, n_clients, skew, data):
    """Whatever the sizes and the skew."""
    sizes = data.draw(st.lists(st.integers(1, r), min_size=n_clients, max_size=n_clients))
    if sum(sizes) < r:
        with pytest.raises(OptionError, match="every component must belong"):
            draw_coverage(n_clients, r, sizes, skew=skew, rng=np.random.default_rng(seed))
        return
    seen = draw_coverage(n_clients, r, sizes, skew=skew, rng=np.random.default_rng(seed))
    assert [s.size for s in seen] == sizes
    assert all(np.all(np.diff(s) > 0) for s in seen)
    assert set(np.concatenate(seen)) == set(range(r))


@given(n_clients=st.integers(2, 40), r=st.integers(2, 15), size=st.integers(1, 15), skew=st.floats(1, 30))
@settings(max_examples=80, deadline=None)
def test_counts_fall_from_the_commonest_to_the_rarest_and_are_met_exactly(n_clients, r, size, skew):
    """Counts lie between one and K, fall, add up to R; clients of equal size meet them exactly."""
    size = min(size, r)
    if n_clients * size < r:
        return
    counts = component_counts(n_clients * size, n_clients, r, skew)
    assert counts.sum() == n_clients * size
    assert counts.min() >= 1
    assert counts.max() <= n_clients
    assert np.all(np.diff(counts) <= 0)
    seen = draw_coverage(n_clients, r, size, skew=skew, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(np.concatenate(seen), minlength=r), counts)


def test_tenfold_skew_of_thirty_clients_leaves_three_for_the_rarest():
    """With r = 10, r_k = 4, K = 30: from 29 clients down to 3."""
    counts = component_counts(120, 30, 10, 10.0)
    assert counts[0] == 29
    assert counts[-1] == 3


def test_without_skew_components_are_seen_equally_often():
    """Counts differ by at most one."""
    assert np.ptp(component_counts(50, 25, 7, 1.0)) == 1
    assert np.ptp(component_counts(50, 25, 10, 1.0)) == 0


def test_coverage_is_random_but_repeatable():
    """The same seed gives the same; another gives another."""

    def draw(seed):
        return np.concatenate(draw_coverage(30, 10, 4, skew=3, rng=np.random.default_rng(seed)))

    np.testing.assert_array_equal(draw(0), draw(0))
    assert np.any(draw(0) != draw(1))


@pytest.mark.parametrize(
    ("per_client", "skew", "sentence"),
    [([4, 4], 1, "each of the 3 clients; got 2"), (11, 1, "at most 10"), (0, 1, "at least 1"), (4, 0.5, "skew")],
)
def test_impossible_coverage_is_refused(per_client, skew, sentence):
    """Each with the number that is wrong."""
    with pytest.raises(OptionError, match=sentence):
        draw_coverage(3, 10, per_client, skew=skew, rng=np.random.default_rng(0))

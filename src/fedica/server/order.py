"""Medians and nearest halves within groups, for all groups at once."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray


def group_medians(values: Array, groups: IntArray, n_groups: int, *, empty: float) -> Array:
    """Median of the values of each group; ``empty`` for a group without any. groups : (R,), negative: of no group."""
    ordered, counts, first = _by_group(values, groups, n_groups)
    filled = counts > 0
    low, high = first + np.maximum(counts - 1, 0) // 2, first + counts // 2
    medians = np.full(n_groups, empty)
    in_order = values[ordered]
    medians[filled] = (in_order[low[filled]] + in_order[high[filled]]) / 2
    return medians


def weighted_group_medians(values: Array, weights: Array, groups: IntArray, n_groups: int, *, empty: float) -> Array:
    """Of each group the smallest value that at least half of its weight does not exceed. weights : (R,), positive."""
    ordered, counts, first = _by_group(values, groups, n_groups)
    filled = counts > 0
    reached = np.append(0.0, np.cumsum(weights[ordered]))
    before, total = reached[first], reached[first + counts] - reached[first]
    place = np.searchsorted(reached[1:], (before + total / 2)[filled] * (1 - 1e-12))
    medians = np.full(n_groups, empty)
    medians[filled] = values[ordered][np.clip(place, first[filled], (first + counts - 1)[filled])]
    return medians


def nearest_halves(values: Array, groups: IntArray, n_groups: int) -> BoolArray:
    """Mark the nearer half of each group, one more than half when that is not whole: n // 2 + 1 of n."""
    ordered, counts, first = _by_group(values, groups, n_groups)
    place = np.arange(ordered.size) - first[groups[ordered]]
    near = np.zeros(groups.size, dtype=bool)
    near[ordered[place < counts[groups[ordered]] // 2 + 1]] = True
    return near


def _by_group(values: Array, groups: IntArray, n_groups: int) -> tuple[IntArray, IntArray, IntArray]:
    """Members ordered by group, then by value; how many each group has; where it begins."""
    member = np.flatnonzero(groups >= 0)
    ordered = member[np.lexsort((values[member], groups[member]))]
    counts = np.bincount(groups[member], minlength=n_groups)
    return ordered, counts, np.cumsum(counts) - counts

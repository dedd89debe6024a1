"""Medians and nearest halves within groups, for all groups at once."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray


def group_medians(values: Array, groups: IntArray, n_groups: int, *, empty: float) -> Array:
    """Median of the values of each group; ``empty`` for a group without any. groups : (R,), negative: of no group."""
    member = np.flatnonzero(groups >= 0)
    ordered = member[np.lexsort((values[member], groups[member]))]
    counts = np.bincount(groups[member], minlength=n_groups)
    first = np.cumsum(counts) - counts
    filled = counts > 0
    low, high = first + np.maximum(counts - 1, 0) // 2, first + counts // 2
    medians = np.full(n_groups, empty)
    in_order = values[ordered]
    medians[filled] = (in_order[low[filled]] + in_order[high[filled]]) / 2
    return medians


def nearest_halves(values: Array, groups: IntArray, n_groups: int) -> BoolArray:
    """Mark the nearer half of each group, one more than half when that is not whole: n // 2 + 1 of n."""
    member = np.flatnonzero(groups >= 0)
    ordered = member[np.lexsort((values[member], groups[member]))]
    counts = np.bincount(groups[member], minlength=n_groups)
    first = np.cumsum(counts) - counts
    place = np.arange(ordered.size) - first[groups[ordered]]
    near = np.zeros(groups.size, dtype=bool)
    near[ordered[place < counts[groups[ordered]] // 2 + 1]] = True
    return near


def weighted_median(values: Array, weights: Array) -> float:
    """Smallest value that at least half of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])

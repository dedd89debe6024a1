"""Medians and nearest halves within groups, for all groups at once."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray

FEW_GROUPS = 256
"""Up to so many groups (components) each is cut out and partitioned; more (clients) are sorted all together."""


def group_medians(values: Array, groups: IntArray, n_groups: int, *, empty: float) -> Array:
    """Median of the values of each group; ``empty`` for a group without any. groups : (R,), negative: of no group."""
    if n_groups <= FEW_GROUPS:
        own = (values[groups == a] for a in range(n_groups))
        return np.array([np.median(v) if v.size else empty for v in own])
    size, rest = divmod(values.size, n_groups)
    if rest == 0 and size and np.array_equal(groups, np.repeat(np.arange(n_groups), size)):
        return np.asarray(np.median(values.reshape(n_groups, size), axis=1))  # side by side, and equally many
    ordered, counts, first = _by_group(values, groups, n_groups)
    filled = counts > 0
    low, high = first + np.maximum(counts - 1, 0) // 2, first + counts // 2
    medians = np.full(n_groups, empty)
    in_order = values[ordered]
    medians[filled] = (in_order[low[filled]] + in_order[high[filled]]) / 2
    return medians


def weighted_median(values: Array, weights: Array, *, empty: float) -> float:
    """Smallest value that at least half of the weight does not exceed; ``empty`` if there is none."""
    if values.size == 0:
        return empty
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(reached, reached[-1] / 2 * (1 - 1e-12))]])


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

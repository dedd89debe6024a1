"""Sums, medians and nearest halves of columns within groups, for all groups at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, BoolArray, IntArray

MAX_PARTITIONED = 256
"""Up to this many groups (components) each is cut out and partitioned; more (clients) are sorted all together."""


def clients_of(own: IntArray) -> Iterator[tuple[int, slice]]:
    """Yield the clients of a block, each with its columns."""
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    for first, last in zip(starts, [*starts[1:], own.size], strict=True):
        yield int(own[first]), slice(int(first), int(last))


def membership(groups: IntArray, n_groups: int, values: Array | float = 1.0) -> Array:
    """Matrix (b, n_groups) with the value of each column at its group: a product with it sums by group.

    groups : (b,), negative: of no group.
    """
    member = np.zeros((groups.size, n_groups))
    inside = np.flatnonzero(groups >= 0)
    member[inside, groups[inside]] = np.broadcast_to(values, groups.shape)[inside]
    return member


def group_medians(values: Array, groups: IntArray, n_groups: int, *, empty: float) -> Array:
    """Median of the values of each group; ``empty`` for a group without any. groups : (R,), negative: of no group."""
    medians = np.full(n_groups, empty)
    if n_groups <= MAX_PARTITIONED:
        for a, own in enumerate(split_by_group(values, groups, n_groups)):
            if own.size:
                medians[a] = np.median(own)
        return medians
    member = groups >= 0
    if not member.all():
        values, groups = values[member], groups[member]
    counts = np.bincount(groups, minlength=n_groups)
    filled = counts > 0
    if 0 < n_groups * int(counts.max(initial=0)) <= 4 * values.size and np.all(groups[1:] >= groups[:-1]):
        rows, low, high = _side_by_side(values, groups, counts)  # a client's atoms lie side by side
        each = np.arange(n_groups)
        medians[filled] = (rows[each, low][filled] + rows[each, high][filled]) / 2
        return medians
    in_order = values[np.lexsort((values, groups))]
    first = np.cumsum(counts) - counts
    low, high = first + np.maximum(counts - 1, 0) // 2, first + counts // 2
    medians[filled] = (in_order[low[filled]] + in_order[high[filled]]) / 2
    return medians


def split_by_group(values: NDArray[Any], groups: IntArray, n_groups: int) -> list[NDArray[Any]]:
    """Columns of each of a few groups, in their order. values : (..., R); groups : (R,), negative: of no group."""
    order = np.argsort(groups.astype(np.int16), kind="stable")  # radix sort: groups are few
    bounds = np.searchsorted(groups[order], np.arange(n_groups + 1))
    return np.split(values[..., order], bounds, axis=-1)[1:-1]


def _side_by_side(values: Array, groups: IntArray, counts: IntArray) -> tuple[Array, IntArray, IntArray]:
    """Sorted values of each group as a row, and the two places of its median. groups : ascending."""
    rows = np.full((counts.size, int(counts.max())), np.inf)
    place = np.arange(values.size) - (np.cumsum(counts) - counts)[groups]
    rows[groups, place] = values
    rows.sort(axis=1)
    return rows, np.maximum(counts - 1, 0) // 2, np.minimum(counts // 2, rows.shape[1] - 1)


def weighted_median(values: Array, weights: Array, *, empty: float) -> float:
    """Smallest value that at least half of the weight does not exceed; ``empty`` if there is none."""
    if values.size == 0:
        return empty
    if np.all(weights == weights[0]):
        return float(np.partition(values, (values.size - 1) // 2)[(values.size - 1) // 2])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(reached, reached[-1] / 2 * (1 - 1e-12))]])


def nearest_halves(values: Array, groups: IntArray, n_groups: int) -> BoolArray:
    """Mark the n // 2 + 1 smallest of the n values of each group. groups : (R,), negative: of no group."""
    member = np.flatnonzero(groups >= 0)
    ordered = member[np.lexsort((values[member], groups[member]))]  # by group, then by value
    counts = np.bincount(groups[member], minlength=n_groups)
    place = np.arange(ordered.size) - (np.cumsum(counts) - counts)[groups[ordered]]
    near = np.zeros(groups.size, dtype=bool)
    near[ordered[place < counts[groups[ordered]] // 2 + 1]] = True
    return near

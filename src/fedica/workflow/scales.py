"""Common scale factors of a study: one per feature, from a file or from the spread of one data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, PathLike, check_number
from fedica.errors import DataError, FormatError, OptionError
from fedica.readers import ReadOptions, read_data
from fedica.text import list_names

ROBUST = "robust"
_IQR_OF_NORMAL = 1.349
_MAX_ROWS = 100_000
DOMINANT = 0.99
"""A feature with more of the variance hides all others."""


def read_scales(path: PathLike, features: Sequence[str]) -> tuple[float, ...]:
    """Return the factor of each feature from a text table: its name, and its factor, in each row; a header may be."""
    try:
        table = read_data(path, options=ReadOptions(transpose=True, header="no"))
    except DataError:  # the first line is no number
        table = read_data(path, options=ReadOptions(transpose=True, header="yes"))
    factors = dict(zip(table.features or (), table.values[0].tolist(), strict=False))
    lacking = [name for name in features if name not in factors]
    if lacking or len(table.values) != 1:
        raise FormatError(
            f"{path}: a table of scales has two columns, the name of a feature and its factor, and a row for every "
            f"feature; got {len(table.values) + 1} columns"
            + (f", and no row for {list_names(lacking)}." if lacking else ".")
        )
    return tuple(check_number(factors[name], f"{path}: the scale of {name!r}", above=0) for name in features)


def robust_scales(values: NDArray[Any], features: Sequence[str]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return one over the spread of each feature, to two digits, and notes: all clients will see it.

    The spread is the interquartile range, as a standard deviation; where most values are equal, the standard deviation.
    """
    rows = np.asarray(values[:_MAX_ROWS], dtype=np.float64)
    low, high = np.quantile(rows, [0.25, 0.75], axis=0)
    spread = (high - low) / _IQR_OF_NORMAL
    spread = np.where(spread > 0, spread, rows.std(axis=0))
    constant = [name for name, size in zip(features, spread, strict=True) if not size > 0]
    notes = ["the scales tell every client how far each feature is spread in this data, to two digits."]
    if constant:
        notes.append(f"features that do not vary keep the scale 1: {list_names(constant)}.")
    factors = 1.0 / np.where(spread > 0, spread, 1.0)
    return tuple(float(f"{factor:.2g}") for factor in factors), tuple(notes)


def choose_scales(
    how: str | None, features: Sequence[str], values: NDArray[Any] | None
) -> tuple[tuple[float, ...] | None, tuple[str, ...]]:
    """Return the scales that ``--scales`` asks for, "robust" or a file, and notes."""
    if how is None:
        return None, ()
    if how != ROBUST:
        return read_scales(Path(how), features), ()
    if values is None:
        raise OptionError("robust scales are computed from data: give a table with --from DATA.")
    return robust_scales(values, features)


def dominant_note(values: Array, features: Sequence[str] | None) -> tuple[str, ...]:
    """Name the feature that has nearly all of the variance, and the remedy; nothing if none has."""
    variance = np.var(np.asarray(values[:_MAX_ROWS], dtype=np.float64), axis=0)
    first, total = int(np.argmax(variance)), float(variance.sum())
    if variance.size < 3 or not variance[first] > DOMINANT * total:
        return ()
    name = f"the feature {features[first]!r}" if features is not None else f"column {first + 1}"
    return (
        f"{name} has {100 * variance[first] / total:.3g}% of the variance, so the atoms tell little of the others. If "
        "the features have different units, all clients need common scales: fedica study new --scales robust --from "
        "DATA.",
    )

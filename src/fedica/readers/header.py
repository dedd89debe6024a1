"""Whether a first line of numbers names the columns or is a sample.

pandas writes ``0,1,2,...`` over columns without names; years, wavelengths and probe numbers are names, too. Each sign
that is looked for must be absent from every other line: if all lines are alike, the first is the only one that shows
a given sign in at most one of as many files as it has lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array

_WHOLE = re.compile(r"\d{1,15}")
_ROWS = 10_000
_MIN_FRACTIONS = 0.95
_MIN_STEPS = 5
_CERTAIN_RUN = 8
"""As many consecutive numbers are no coincidence, whatever the values below them are."""


def is_header(first: Sequence[str], below: Array) -> bool | None:
    """Tell whether a first line of numbers names the columns; ``None`` if it could be either.

    Names are different whole numbers. They stand over columns of fractions, or far from the values below them, or
    they are consecutive. Fractions in equal steps, as wavelengths and frequencies are, may be names, too. Numbers that
    stand apart from all below them, and 0, 1, 2, ... where no other line is the same, could be either.

    Parameters
    ----------
    first : sequence of str
        The cells of the first line, without blanks around them. The first may be empty, as over an index.
    below : ndarray of shape (n_lines, n_columns)
        The other lines; NaN where there is no number.
    """
    start = int(len(first) > 1 and first[0] == "" and _labels(below[:, 0]))
    cells, rows = first[start:], below[:_ROWS, start:]
    if len(set(cells)) < len(cells) or not all(map(_WHOLE.fullmatch, cells)):
        return _in_equal_steps(cells, rows)
    numbered = ~np.isnan(rows).all(axis=0)
    if not numbered.any():
        return False
    line = np.array(cells, dtype=np.float64)
    if start or _over_fractions(rows[:, numbered]) or _far(line[numbered], rows[:, numbered]):
        return True
    if len(cells) >= 3 and _consecutive(line) and not _consecutive(rows).any():
        return True if len(cells) >= _CERTAIN_RUN or _outside(line[numbered], rows[:, numbered]) else None
    counted = len(cells) > 1 and np.array_equal(line, np.arange(len(cells))) and not (rows == line).all(axis=1).any()
    return None if counted or (len(cells) >= 3 and _apart(line[numbered], rows[:, numbered])) else False


def _in_equal_steps(cells: Sequence[str], rows: Array) -> bool | None:
    """Tell whether numbers that grow in equal steps, as no other line does, name the columns; fractions among them."""
    try:
        line = np.array(cells, dtype=np.float64)
    except ValueError:  # a missing value
        return False
    if len(cells) < _MIN_STEPS or not _stepping(line[None]).any() or _stepping(rows).any():
        return False
    return True if len(cells) >= _CERTAIN_RUN else None


def _stepping(rows: Array) -> NDArray[np.bool_]:
    """Whether the numbers of a line grow by the same amount each; one answer per line."""
    steps = np.diff(rows, axis=-1)
    even = np.isclose(steps, steps[:, :1], rtol=1e-6, atol=0.0).all(axis=-1)
    return np.asarray(even & (steps[:, 0] > 0))


def _labels(column: Array) -> bool:
    """Whether a column can be an index: no numbers at all, or different whole ones."""
    whole = bool(np.all(column == np.trunc(column)))
    return bool(np.isnan(column).all()) or (whole and len(np.unique(column)) == len(column))


def _over_fractions(rows: Array) -> bool:
    """Whether at least half of the columns hold fractions, and no line holds whole numbers in all of these."""
    fraction = (rows != np.trunc(rows)) & ~np.isnan(rows)
    fractional = fraction.sum(axis=0) >= _MIN_FRACTIONS * np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    return bool(2 * fractional.sum() >= fractional.size and fraction[:, fractional].any(axis=1).all())


def _far(line: Array, rows: Array) -> bool:
    """Whether every number is farther from the values below it than these are from each other."""
    low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
    return bool(np.all(np.maximum(low - line, line - high) > np.maximum(high - low, 1.0)))


def _apart(line: Array, rows: Array) -> bool:
    """Whether every number is farther from the values of its column than any two neighbours among these."""
    ordered = np.sort(rows, axis=0)  # missing values last
    gaps = np.nan_to_num(np.diff(ordered, axis=0)).max(axis=0, initial=0.0)
    low, high = ordered[0], np.nanmax(rows, axis=0)
    return bool(np.all(np.maximum(low - line, line - high) > np.maximum(gaps, 1.0)))


def _outside(line: Array, rows: Array) -> bool:
    """Whether every number is below or above all values of its column."""
    return bool(np.all((line < np.nanmin(rows, axis=0)) | (line > np.nanmax(rows, axis=0))))


def _consecutive(rows: Array) -> NDArray[np.bool_]:
    """Whether the numbers of a line grow by one each; one answer per line."""
    return np.asarray(np.all(np.diff(rows, axis=-1) == 1.0, axis=-1))

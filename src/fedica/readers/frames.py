"""The columns of numbers of pandas DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedica.arrays import Array
from fedica.formats import ReadOptions
from fedica.readers.cells import Column, Decimals
from fedica.readers.sheet import Sheet


def frame_sheet(frame: Any, columns: Sequence[str] | None, options: ReadOptions, source: str) -> Sheet:
    """Return the columns of numbers of a DataFrame; its index is no feature, and its missing values are NaN.

    Columns of objects are looked at cell by cell, as those of a text table are.
    """
    wanted = None if columns is None else set(columns)
    found: dict[int, Array] = {}
    left_out: dict[str, str] = {}
    names = [str(name) for name in frame.columns]
    for k, name in enumerate(names):
        if wanted is not None and name not in wanted:
            left_out[name] = "not wanted"
            continue
        values, instead = _numbers(frame.iloc[:, k], name, source, must=wanted is not None)
        if values is None:
            left_out[name] = instead
        else:
            found[k] = values
    values = np.column_stack(list(found.values())) if found else np.empty((len(frame), 0))
    return Sheet(values, tuple(names[k] for k in found), left_out)


def _numbers(series: Any, name: str, source: str, *, must: bool) -> tuple[Array | None, str]:
    """Return a column as numbers, or what it holds instead."""
    from pandas.api import types  # noqa: PLC0415 - an extra

    kind = series.dtype
    if types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind):  # booleans are, too
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64), ""
    if types.is_datetime64_any_dtype(kind) or types.is_timedelta64_dtype(kind):
        return None, "dates"
    if not (types.is_object_dtype(kind) or types.is_string_dtype(kind)):
        return None, str(kind)[:40]
    column, decimals = Column(name, must_be_numbers=must), Decimals(";")
    cells = ["" if missing else str(cell) for cell, missing in zip(series, series.isna(), strict=True)]
    values = column.convert(cells, 0, decimals)
    if not column.is_numeric(source):
        return None, column.content
    decimals.check(source)
    return values, ""

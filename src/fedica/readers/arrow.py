"""Columns of Arrow, which parquet and feather files share: which of them are numbers, and those as float64."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedica.arrays import Array
from fedica.errors import FormatError, MissingExtraError


def load_pyarrow(path: Path, what: str) -> Any:
    """Return pyarrow; where it lacks, one sentence says how to install it."""
    try:
        import pyarrow  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(
            f"{path}: reading {what} needs pyarrow. Install it with: pip install 'fedica[tables]'"
        ) from None
    return pyarrow


def choose_numbers(pa: Any, schema: Any, wanted: Sequence[str] | None) -> tuple[list[int], dict[str, str]]:
    """Return the places of the wanted columns of numbers, and what the others hold.

    The row labels that a data frame left in the file are no feature, unless they are asked for by name.
    """
    labels = _row_labels(schema)
    asked = None if wanted is None else set(wanted)
    places, left_out = [], {}
    for k, field in enumerate(schema):
        if not _is_number(pa, field.type):
            left_out[field.name] = "dates" if pa.types.is_temporal(field.type) else f"{field.type!s:.40}"
        elif asked is not None and field.name not in asked:
            left_out[field.name] = "not wanted"
        elif asked is None and field.name in labels:
            left_out[field.name] = "row labels"
        else:
            places.append(k)
    return places, left_out


def put_columns(pa: Any, into: Array, columns: Iterable[Any]) -> None:
    """Write columns of numbers of any kind into the columns of an array; their nulls become NaN."""
    for k, column in enumerate(columns):
        into[:, k] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def unreadable(path: Path, what: str, error: Exception) -> FormatError:
    """Return the error to raise when pyarrow cannot read a file."""
    reason = " ".join(str(error).split("\n", maxsplit=1)[0].split())[:150]
    return FormatError(f"{path}: it is not {what} that can be read ({reason}).")


def empty_values(n_rows: int, n_columns: int) -> Array:
    """Return an array to be filled, laid out so that columns are written fast."""
    return np.empty((n_rows, n_columns), order="F")


def _row_labels(schema: Any) -> set[str]:
    """Names of the columns that hold the index of a pandas DataFrame."""
    try:
        index = (schema.pandas_metadata or {}).get("index_columns", ())
    except (ValueError, AttributeError):  # metadata that pandas did not write
        return set()
    return {name for name in index if isinstance(name, str)}


def _is_number(pa: Any, kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))

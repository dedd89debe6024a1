"""Parquet tables, column by column; needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedica.errors import FormatError, MissingExtraError
from fedica.readers.options import ReadOptions
from fedica.readers.sheet import Sheet


def read_parquet(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the columns of numbers of a parquet table; its nulls are missing values."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError(
            f"{path}: reading parquet needs pyarrow. Install it with: pip install 'fedica[tables]'"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            numeric = [k for k, field in enumerate(schema) if _is_number(pa, field.type)]
            names = [schema.names[k] for k in numeric]
            left_out = {schema.names[k]: _what(pa, f.type) for k, f in enumerate(schema) if k not in set(numeric)}
            if columns is not None:
                left_out |= {name: "not wanted" for name in names if name not in set(columns)}
                names = [name for name in names if name in set(columns)]
            values = np.empty((file.metadata.num_rows, len(names)))
            for k, name in enumerate(names):  # one column at a time: no second copy of the table
                column = file.read(columns=[name]).column(0)
                values[:, k] = column.cast(pa.float64(), safe=False).to_numpy()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).split("\n", maxsplit=1)[0][:150]
        raise FormatError(f"{path}: it is not a parquet table that can be read ({reason}).") from error
    return Sheet(values, tuple(names), left_out)


def _is_number(pa: Any, kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _what(pa: Any, kind: Any) -> str:
    return "dates" if pa.types.is_temporal(kind) else f"{kind!s:.40}"

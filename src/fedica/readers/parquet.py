"""Parquet tables, some columns at a time; needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedica.read_options import ReadOptions
from fedica.readers.arrow import choose_numbers, empty_values, load_pyarrow, put_columns, unreadable
from fedica.readers.sheet import Sheet

_BLOCK_CELLS = 4_000_000


def read_parquet(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the columns of numbers of a parquet table; its nulls are missing values."""
    pa = load_pyarrow(path, "parquet")
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    try:
        with parquet.ParquetFile(path) as file:
            places, left_out = choose_numbers(pa, file.schema_arrow, columns)
            every_name = file.schema_arrow.names
            names = [every_name[k] for k in places]
            n_rows = file.metadata.num_rows
            values = empty_values(n_rows, len(places))
            block = max(1, _BLOCK_CELLS // max(n_rows, 1))  # one column costs as much to find as many
            for start in range(0, len(names), block):
                table = file.read(columns=names[start : start + block])
                place = {name: k for k, name in enumerate(table.column_names)}
                found = (table.column(place[name]) for name in names[start : start + block])
                put_columns(pa, values[:, start : start + block], found)
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise unreadable(path, "a parquet table", error) from error
    return Sheet(values, tuple(names), left_out)

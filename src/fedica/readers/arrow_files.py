"""Parquet, feather and Arrow tables through pyarrow: the columns of numbers, as float64, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedica.arrays import Array
from fedica.errors import FormatError
from fedica.extras import import_extra
from fedica.formats import ReadOptions
from fedica.progress import counting
from fedica.readers.sheet import Sheet

_BLOCK_CELLS = 4_000_000
_STREAM = b"\xff\xff\xff\xff"


def read_parquet(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the columns of numbers of a parquet table; its nulls are missing values."""
    pa = import_extra("pyarrow", f"{path}: reading parquet", "tables")
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    try:
        with parquet.ParquetFile(path) as file:
            places, names, left_out = _choose_numbers(pa, file.schema_arrow, columns)
            values = _empty(file.metadata.num_rows, len(places))
            block = max(1, _BLOCK_CELLS // max(len(values), 1))  # finding one column costs as much as finding many
            for start in counting(range(0, len(names), block), -(-len(names) // block)):
                table = file.read(columns=list(names[start : start + block]))
                place = {name: k for k, name in enumerate(table.column_names)}
                found = (table.column(place[name]) for name in names[start : start + block])
                _put_columns(pa, values[:, start : start + block], found)
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise _unreadable(path, "a parquet table", error) from error
    return Sheet(values, names, left_out)


def read_feather(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the columns of numbers of a feather file, or of an Arrow file or stream; its nulls are missing values."""
    pa = import_extra("pyarrow", f"{path}: reading feather", "tables")
    import pyarrow.ipc  # noqa: F401, PLC0415 - an extra

    with open(path, "rb") as stream:
        start = stream.read(6)
    if start.startswith(b"FEA1"):
        raise FormatError(f"{path}: it is of feather's first version, which is no longer read. Save it again.")
    if start != b"ARROW1" and not start.startswith(_STREAM):
        raise FormatError(f"{path}: it is not a feather or Arrow table (it does not begin like one).")
    try:
        with pa.OSFile(str(path)) as file:  # not mapped: a file that shrinks meanwhile would end the process
            read = _from_stream if start.startswith(_STREAM) else _from_file
            return read(pa, file, columns)
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise _unreadable(path, "a feather or Arrow table", error) from error


def _from_file(pa: Any, file: Any, columns: Sequence[str] | None) -> Sheet:
    with pa.ipc.open_file(file) as reader:
        schema, n_batches = reader.schema, reader.num_record_batches
    places, names, left_out = _choose_numbers(pa, schema, columns)
    lengths = [batch.num_rows for batch in _batches(pa, file, places[:1] or [0], n_batches if len(schema) else 0)]
    values = _empty(sum(lengths), len(places))
    if places:
        ends = np.cumsum([0, *lengths])
        for k, batch in enumerate(counting(_batches(pa, file, places, n_batches), n_batches)):
            _put_columns(pa, values[ends[k] : ends[k + 1]], batch.columns)
    return Sheet(values, names, left_out)


def _batches(pa: Any, file: Any, places: list[int], n_batches: int) -> Any:
    """Read the batches one by one, of the columns at these places alone."""
    with pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=places)) as reader:
        yield from (reader.get_batch(k) for k in range(n_batches))


def _from_stream(pa: Any, file: Any, columns: Sequence[str] | None) -> Sheet:
    """Read a stream, which does not say how long it is: its blocks are put together at the end."""
    with pa.ipc.open_stream(file) as reader:
        places, names, left_out = _choose_numbers(pa, reader.schema, columns)
        blocks = [_empty(0, len(places))]
        for batch in reader:
            blocks.append(_empty(batch.num_rows, len(places)))
            _put_columns(pa, blocks[-1], (batch.column(k) for k in places))
    return Sheet(np.concatenate(blocks), names, left_out)


def _choose_numbers(
    pa: Any, schema: Any, wanted: Sequence[str] | None
) -> tuple[list[int], tuple[str, ...], dict[str, str]]:
    """Return places and names of the wanted columns of numbers, and what the others hold.

    The row labels that a data frame left in the file are no feature, unless they are asked for by name.
    """
    labels = _row_labels(schema)
    asked = None if wanted is None else set(wanted)
    places, names, left_out = [], [], {}
    for k, field in enumerate(schema):
        if not _is_number(pa, field.type):
            left_out[field.name] = "dates" if pa.types.is_temporal(field.type) else f"{field.type!s:.40}"
        elif asked is not None and field.name not in asked:
            left_out[field.name] = "not wanted"
        elif asked is None and field.name in labels:
            left_out[field.name] = "row labels"
        else:
            places.append(k)
            names.append(field.name)
    return places, tuple(names), left_out


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


def _empty(n_rows: int, n_columns: int) -> Array:
    """Return an array to be filled, laid out so that columns are written fast."""
    return np.empty((n_rows, n_columns), order="F")


def _put_columns(pa: Any, into: Array, columns: Iterable[Any]) -> None:
    """Write columns of numbers of any kind into the columns of an array; their nulls become NaN."""
    for k, column in enumerate(columns):
        into[:, k] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _unreadable(path: Path, what: str, error: Exception) -> FormatError:
    reason = " ".join(str(error).split("\n", maxsplit=1)[0].split())[:150]
    return FormatError(f"{path}: it is not {what} that can be read ({reason}).")

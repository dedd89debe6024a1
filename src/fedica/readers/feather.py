"""Feather and Arrow tables (the IPC formats of Apache Arrow), batch by batch; needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedica.arrays import Array
from fedica.errors import FormatError
from fedica.read_options import ReadOptions
from fedica.readers.arrow import choose_numbers, empty_values, load_pyarrow, put_columns, unreadable
from fedica.readers.sheet import Sheet

_STREAM = b"\xff\xff\xff\xff"


def read_feather(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the columns of numbers of a feather file, or of an Arrow file or stream; its nulls are missing values."""
    pa = load_pyarrow(path, "feather")
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
        raise unreadable(path, "a feather or Arrow table", error) from error


def _from_file(pa: Any, file: Any, columns: Sequence[str] | None) -> Sheet:
    with pa.ipc.open_file(file) as reader:
        schema, n_batches = reader.schema, reader.num_record_batches
    places, left_out = choose_numbers(pa, schema, columns)
    lengths = [batch.num_rows for batch in _batches(pa, file, places[:1] or [0], n_batches if len(schema) else 0)]
    values = empty_values(sum(lengths), len(places))
    if places:
        ends = np.cumsum([0, *lengths])
        for k, batch in enumerate(_batches(pa, file, places, n_batches)):
            put_columns(pa, values[ends[k] : ends[k + 1]], batch.columns)
    return Sheet(values, _names(schema, places), left_out)


def _names(schema: Any, places: list[int]) -> tuple[str, ...]:
    every_name = schema.names  # made anew each time it is asked for
    return tuple(every_name[k] for k in places)


def _batches(pa: Any, file: Any, places: list[int], n_batches: int) -> Any:
    """Read the batches one by one, of the columns at these places alone."""
    with pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=places)) as reader:
        yield from (reader.get_batch(k) for k in range(n_batches))


def _from_stream(pa: Any, file: Any, columns: Sequence[str] | None) -> Sheet:
    """Read a stream, which does not say how long it is: its blocks are put together at the end."""
    with pa.ipc.open_stream(file) as reader:
        schema = reader.schema
        places, left_out = choose_numbers(pa, schema, columns)
        blocks: list[Array] = [empty_values(0, len(places))]
        for batch in reader:
            blocks.append(empty_values(batch.num_rows, len(places)))
            put_columns(pa, blocks[-1], (batch.column(k) for k in places))
    return Sheet(np.concatenate(blocks), _names(schema, places), left_out)

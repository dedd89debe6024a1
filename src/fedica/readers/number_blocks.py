"""Blocks of lines that hold nothing but plain numbers, parsed by compiled code: pyarrow's, or NumPy's without it.

Both round as Python's ``float`` does. A block with anything else in it is left to the careful route.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from fedica.arrays import Array

_NUMBERS = b"0123456789+-.eE\n"
"""What numbers that are read in one way alone consist of, and the end of a line."""


@dataclass(frozen=True, eq=False)
class NumberBlock:
    """Rows of numbers (n, width); NaN for empty cells."""

    values: Array
    lines: bytes  # the rows as they stand
    delimiter: bytes
    commas: bool  # whether numbers have a decimal comma

    def __len__(self) -> int:
        return len(self.values)

    def column(self, place: int) -> list[str]:
        """Return the cells of a column as they stand."""
        cut = self.delimiter.decode("ascii")
        return [line.split(cut, place + 1)[place] for line in self.lines.decode("ascii").split("\n") if line]


def parse_numbers(block: bytes, delimiter: str, width: int) -> NumberBlock | None:
    """Return the numbers of whole lines, or None where a cell is anything but a plain number or empty.

    Parameters
    ----------
    block : bytes
        Whole lines.
    delimiter : str
        Between cells.
    width : int
        How many cells each line must have.
    """
    cut = delimiter.encode("ascii")
    whole = block.replace(b"\r\n", b"\n") if b"\r" in block else block
    lines = whole = whole if whole.endswith(b"\n") else whole + b"\n"
    commas = cut == b";" and b"," in lines
    if commas:  # decimal ones, unless a point or a second comma in a cell says otherwise
        if b"." in lines or re.search(rb",[^;\n]*,", lines):
            return None
        lines = lines.replace(b",", b".")
    if lines.translate(None, _NUMBERS + cut) or lines.isspace() or _has_blank_row(lines, cut, width):
        return None
    try:
        values = _parser()(lines, cut, width)
    except ValueError:  # also what pyarrow raises
        return None
    if values.shape[1] != width or np.isinf(values).any():  # too large for a number, or for a cell
        return None
    return NumberBlock(values, whole, cut, commas)


def _has_blank_row(lines: bytes, cut: bytes, width: int) -> bool:
    """Whether a row has empty cells alone: such rows do not count."""
    blank = cut * (width - 1) + b"\n"
    return lines.startswith(blank) or b"\n" + blank in lines


@cache
def _parser() -> Callable[[bytes, bytes, int], Array]:
    try:
        import pyarrow  # noqa: PLC0415 - an extra
        from pyarrow import csv  # noqa: PLC0415
    except ImportError:
        return parse_with_numpy
    return partial(parse_with_arrow, pyarrow, csv)


def parse_with_arrow(pyarrow: Any, csv: Any, lines: bytes, cut: bytes, width: int) -> Array:
    """Return the numbers of lines: (n, width). Raises ValueError if there is anything else."""
    names = [str(k) for k in range(width)]
    table = csv.read_csv(
        pyarrow.BufferReader(lines),
        read_options=csv.ReadOptions(column_names=names, block_size=len(lines) + 1, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=cut.decode("ascii"), quote_char=False),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.float64()), null_values=[""]),
    )
    values = np.empty((table.num_rows, width))
    for k, column in enumerate(table.columns):
        values[:, k] = column.to_numpy()
    return values


def parse_with_numpy(lines: bytes, cut: bytes, width: int) -> Array:
    """Return the same by ``numpy.loadtxt``."""
    del width
    read = partial(np.loadtxt, delimiter=cut.decode("ascii"), comments=None, ndmin=2)
    try:
        return read(io.StringIO(lines.decode("ascii")))
    except ValueError:  # it does not take empty cells
        return read(io.StringIO(_filled(lines, cut).decode("ascii")))


def _filled(lines: bytes, cut: bytes) -> bytes:
    """Return lines with "nan" in their empty cells."""
    lines = b"\n" + lines.strip(b"\n") + b"\n"
    for empty in (cut + cut, cut + cut, b"\n" + cut, cut + b"\n"):
        lines = lines.replace(empty, empty[:1] + b"nan" + empty[1:])
    return lines

"""Text tables: comma, semicolon or tab; decimal comma; quoted headers; UTF-8, UTF-16 or Latin-1.

The file is passed twice: once over its bytes (encoding, number of lines), once over its cells, in blocks of rows that
go straight into the array, so that memory stays near that of the array however large the file is.
"""

from __future__ import annotations

import codecs
import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedica.arrays import Array
from fedica.errors import DataError, FormatError
from fedica.formats import ReadOptions
from fedica.readers.cells import Column, Decimals, is_number_or_missing
from fedica.readers.header import is_header
from fedica.readers.sheet import Sheet

DELIMITERS = (";", "\t", ",", "|")
"""Tried in this order: files with semicolons often have commas inside their numbers, rarely the other way round."""
MAX_LINE = 64 * 1024 * 1024
"""Most bytes of one line; a file with a longer one is not a table."""
_CHUNK = 4 * 1024 * 1024
_SNIFFED_LINES = 50
_BLOCK_CELLS = 200_000


@dataclass(frozen=True)
class Encoding:
    """Encoding of a file, an upper bound on its number of rows, and a note if the encoding was guessed."""

    name: str
    n_lines: int
    note: str = ""


def read_delimited(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read a text table; its encoding, delimiter and decimal sign are detected."""
    try:
        encoding = detect_encoding(path)
        delimiter = detect_delimiter(path, encoding.name)
        with open(path, encoding=encoding.name, newline="") as stream:
            rows = _rows(csv.reader(stream, delimiter=delimiter, skipinitialspace=True))
            return _read_rows(rows, path, columns, encoding, Decimals(delimiter), options.header)
    except csv.Error as error:
        raise FormatError(f"{path}: it is not a text table that can be read ({error}).") from error
    except UnicodeError as error:
        raise FormatError(f"{path}: its text is damaged ({error}). Save it as UTF-8.") from error


def detect_encoding(path: Path) -> Encoding:
    """Pass over the bytes once: refuse what is not text, find its encoding, and count its lines."""
    with open(path, "rb") as stream:
        start = stream.read(4)
        stream.seek(0)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding, valid_utf8 = "utf-16", False
        else:
            encoding, valid_utf8 = "utf-8-sig", True
        decoder = codecs.getincrementaldecoder("utf-8")()
        n_lines, since_break = 1, 0
        while chunk := stream.read(_CHUNK):
            if encoding != "utf-16" and b"\0" in chunk:
                raise FormatError(f"{path}: it is not text (there is a zero byte in it).")
            n_lines += max(chunk.count(b"\n"), chunk.count(b"\r"))
            last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
            since_break = len(chunk) - 1 - last if last >= 0 else since_break + len(chunk)
            if since_break > MAX_LINE:
                raise FormatError(f"{path}: a line has more than {MAX_LINE} bytes; it is not a table.")
            valid_utf8 = valid_utf8 and _decodes(decoder, chunk)
        if stream.tell() == 0:
            raise FormatError(f"{path}: the file is empty.")
        valid_utf8 = valid_utf8 and _decodes(decoder, b"", final=True)
    if encoding == "utf-16" or valid_utf8:
        return Encoding(encoding, n_lines)
    return Encoding("latin-1", n_lines, "the file is not UTF-8; its names were read as Latin-1.")


def detect_delimiter(path: Path, encoding: str) -> str:
    """Return the first delimiter that cuts the first lines into the same number of columns, two or more."""
    with open(path, encoding=encoding, newline="") as stream:
        lines = list(itertools.islice(stream, _SNIFFED_LINES))
    for delimiter in DELIMITERS:
        try:
            widths = {len(row) for row in _rows(csv.reader(iter(lines), delimiter=delimiter, skipinitialspace=True))}
        except csv.Error:
            continue
        if len(widths) == 1 and max(widths) > 1:
            return delimiter
    counts = {delimiter: sum(line.count(delimiter) for line in lines) for delimiter in DELIMITERS}
    return max(counts, key=lambda delimiter: counts[delimiter])  # ragged: reading it will say where


def _rows(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """Rows without those that are blank."""
    return (row for row in reader if row and any(map(str.strip, row)))


def _read_rows(
    rows: Iterator[list[str]],
    path: Path,
    wanted: Sequence[str] | None,
    encoding: Encoding,
    decimals: Decimals,
    header: str,
) -> Sheet:
    """Read the first line apart: whether it names the columns may only show when the others are there."""
    first = next(rows, None)
    if first is None:
        raise FormatError(f"{path}: the file has no rows.")
    if first[0].lstrip().startswith("#"):  # as numpy.savetxt writes its header
        first = [first[0].lstrip().lstrip("#"), *first[1:]]
    cells = [cell.strip() for cell in first]
    named = _is_named(cells, wanted, header)
    asked = set(wanted or ())
    places = [k for k, name in enumerate(_names(cells, named)) if wanted is None or not named or name in asked]
    table = [Column(name, must_be_numbers=name in asked) for name in (_names(cells, named)[k] for k in places)]
    values = _fill(rows, path, table, places, len(cells), encoding.n_lines, decimals)
    notes = [encoding.note] if encoding.note else []
    if named is None:
        named, note = _judged(cells, values[1:], path)
        notes.append(note)
        for column, name in zip(table, _names(cells, named), strict=True):
            column.name = name
    if named and len(values) == 1:
        raise DataError(f"{path}: the file has names of columns, but no rows under them.")
    if named:
        values = values[1:]
    else:
        values[0] = [column.convert([cells[k]], 1, decimals)[0] for column, k in zip(table, places, strict=True)]
    if decimals.comma:
        notes.append("numbers were read with a decimal comma.")
    return _sheet(values, table, _names(cells, named), named, notes, decimals, path)


def _is_named(cells: list[str], wanted: Sequence[str] | None, header: str) -> bool | None:
    """Whether the first line names the columns: as the user says, or by its cells; ``None`` if they are numbers."""
    if header != "auto":
        return header == "yes"
    if not all(map(is_number_or_missing, cells)) or (wanted and set(wanted) <= set(cells)):
        return True
    return None


def _judged(cells: list[str], below: Array, path: Path) -> tuple[bool, str]:
    """Return whether a first line of numbers names the columns, and a note that says so."""
    shown = ", ".join(cells[:3]) + (", ..." if len(cells) > 3 else "")
    named = is_header(cells, below) if len(below) else False
    if named is None:
        raise DataError(
            f"{path}: the first line ({shown}) may name the columns or be a sample. Give --header yes if it names "
            "the columns, --header no if it is a sample."
        )
    if named:
        return True, f"the first line ({shown}) was read as the names of the columns; if it is a sample: --header no."
    return False, "the first line was read as a sample, so the columns have no names; if it names them: --header yes."


def _sheet(
    values: Array,
    table: list[Column],
    names: tuple[str, ...],
    named: bool,
    notes: list[str],
    decimals: Decimals,
    path: Path,
) -> Sheet:
    """Return the columns of numbers, and what the others hold."""
    decimals.check(str(path))
    numeric = [k for k, column in enumerate(table) if column.is_numeric(str(path))]
    left_out = {table[k].name: table[k].content for k in sorted(set(range(len(table))) - set(numeric))}
    read = {column.name for column in table}
    left_out |= {name: "not wanted" for name in names if name not in read}
    if len(numeric) < len(table):
        values = values[:, numeric]
    return Sheet(values, tuple(table[k].name for k in numeric) if named else None, left_out, tuple(notes))


def _fill(
    rows: Iterator[list[str]],
    path: Path,
    table: list[Column],
    places: list[int],
    width: int,
    max_rows: int,
    decimals: Decimals,
) -> Array:
    """Convert the rows below the first line block by block, into memory allocated once; row 0 is left for that line."""
    values = np.empty((max_rows + 1, len(table)))
    done, block = 1, max(1, _BLOCK_CELLS // width)
    while chunk := list(itertools.islice(rows, block)):
        for k, row in enumerate(chunk):
            if len(row) != width:
                raise FormatError(
                    f"{path}: every row must have {width} cells; row {1 + done + k} (blank ones not counted) has "
                    f"{len(row)}. Is a delimiter inside a text that is not quoted?"
                )
        cells = list(zip(*chunk, strict=True))
        for k, (column, place) in enumerate(zip(table, places, strict=True)):
            values[done : done + len(chunk), k] = column.convert(cells[place], 1 + done, decimals)
        done += len(chunk)
    return values[:done]


def _names(cells: list[str], named: bool | None) -> tuple[str, ...]:
    """Return names of columns; one without a name is called by its number, the first one "row number"."""
    if not named:
        return tuple(f"column {k + 1}" for k in range(len(cells)))
    return tuple(name or ("row number" if k == 0 else f"column {k + 1}") for k, name in enumerate(cells))


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True

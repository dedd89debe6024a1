"""Text tables: comma, semicolon or tab; decimal comma; quoted headers; UTF-8, UTF-16 or Latin-1.

The file is passed twice: once over its bytes (encoding, number of lines), once over its cells, in blocks of rows that
go straight into the array, so that memory stays near that of the array however large the file is.
"""

from __future__ import annotations

import codecs
import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedica.errors import FormatError
from fedica.formats import ReadOptions
from fedica.readers.cell_rows import read_rows
from fedica.readers.cells import Decimals
from fedica.readers.sheet import Sheet

DELIMITERS = (";", "\t", ",", "|")
"""Tried in this order: files with semicolons often have commas inside their numbers, rarely the other way round."""
MAX_LINE = 64 * 1024 * 1024
"""Most bytes of one line; a file with a longer one is not a table."""
_CHUNK = 4 * 1024 * 1024
_SNIFFED_LINES = 50
_COMMENT = "!"
"""Begins the lines around the table in a series matrix of GEO."""


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
            rows = _rows(csv.reader(_table_lines(stream), delimiter=delimiter, skipinitialspace=True))
            notes = (encoding.note,) if encoding.note else ()
            return read_rows(
                rows, str(path), columns, encoding.n_lines, Decimals(delimiter), header=options.header, notes=notes
            )
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
        lines = list(itertools.islice(_table_lines(stream), _SNIFFED_LINES))
    for delimiter in DELIMITERS:
        try:
            widths = {len(row) for row in _rows(csv.reader(iter(lines), delimiter=delimiter, skipinitialspace=True))}
        except csv.Error:
            continue
        if len(widths) == 1 and max(widths) > 1:
            return delimiter
    counts = {delimiter: sum(line.count(delimiter) for line in lines) for delimiter in DELIMITERS}
    return max(counts, key=lambda delimiter: counts[delimiter])  # ragged: reading it will say where


def _table_lines(stream: Iterable[str]) -> Iterator[str]:
    """Lines of a table: where the first line begins with "!", as in files of GEO, without all that do."""
    lines = iter(stream)
    first = next(lines, "")
    if not first.startswith(_COMMENT):
        return itertools.chain([first], lines)
    return (line for line in lines if not line.startswith(_COMMENT))


def _rows(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """Rows without those that are blank."""
    return (row for row in reader if row and any(map(str.strip, row)))


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True

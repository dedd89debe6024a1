"""Text tables: comma, semicolon, tab or blanks; decimal comma; quoted headers; UTF-8, UTF-16 or Latin-1; also gzipped.

The file is passed twice: once over its bytes (encoding, number of lines), once over its cells, in blocks of rows that
go straight into the array, so that memory stays near that of the array however large the file is. Blocks of plain
numbers are parsed by compiled code.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from fedica.errors import FormatError
from fedica.formats import ReadOptions
from fedica.progress import Progress
from fedica.readers.cell_rows import Block, in_blocks, read_rows
from fedica.readers.cells import Decimals, is_number_or_missing
from fedica.readers.number_blocks import parse_numbers
from fedica.readers.sheet import Sheet

DELIMITERS = (";", "\t", ",", "|")
"""Tried in this order: files with semicolons often have commas inside their numbers, rarely the other way round."""
BLANKS = " "
"""Any number of blanks between cells, as numpy.savetxt and FSL write tables; tried last."""
MAX_LINE = 64 * 1024 * 1024
"""Most bytes of one line; a file with a longer one is not a table."""
_CHUNK = 4 * 1024 * 1024
_BLOCK = 1024 * 1024
"""Bytes parsed at once: their numbers fit a processor's cache."""
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
        with _opened(path) as (file, stream):
            first, blocks = _table(stream, encoding.name, delimiter)
            told = _told(blocks, file, Progress(path.stat().st_size, f"reading {path}"))
            return read_rows(
                first,
                *(told, str(path), columns, encoding.n_lines, Decimals(delimiter)),
                options=options,
                notes=(encoding.note,) if encoding.note else (),
            )
    except csv.Error as error:
        raise FormatError(f"{path}: it is not a text table that can be read ({error}).") from error
    except UnicodeError as error:
        raise FormatError(f"{path}: its text is damaged ({error}). Save it as UTF-8.") from error


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file; yield it, and its bytes as a stream: those that were compressed, where its name ends in .gz."""
    with open(path, "rb") as file:
        if path.suffix.lower() != ".gz":
            yield file, file
            return
        with gzip.GzipFile(fileobj=file) as stream:
            yield file, cast(BinaryIO, stream)


def detect_encoding(path: Path) -> Encoding:
    """Pass over the bytes once: refuse what is not text, find its encoding, and count its lines."""
    with _opened(path) as (file, stream):
        start = stream.read(4)
        stream.seek(0)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding, valid_utf8 = "utf-16", False
        else:
            encoding, valid_utf8 = "utf-8-sig", True
        decoder = codecs.getincrementaldecoder("utf-8")()
        n_lines, since_break = 1, 0
        progress = Progress(path.stat().st_size, f"looking through {path}")
        while chunk := stream.read(_CHUNK):
            progress.done(file.tell())
            if encoding != "utf-16" and b"\0" in chunk:
                raise FormatError(f"{path}: it is not text (there is a zero byte in it).")
            n_lines += max(chunk.count(b"\n"), chunk.count(b"\r"))
            last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
            since_break = len(chunk) - 1 - last if last >= 0 else since_break + len(chunk)
            if since_break > MAX_LINE:
                raise FormatError(f"{path}: a line has more than {MAX_LINE} bytes; it is not a table.")
            plain = chunk.isascii() and not decoder.getstate()[0]
            valid_utf8 = valid_utf8 and (plain or _decodes(decoder, chunk))
        if stream.tell() == 0:
            raise FormatError(f"{path}: the file is empty.")
        valid_utf8 = valid_utf8 and _decodes(decoder, b"", final=True)
    if encoding == "utf-16" or valid_utf8:
        return Encoding(encoding, n_lines)
    return Encoding("latin-1", n_lines, "the file is not UTF-8; its names were read as Latin-1.")


def detect_delimiter(path: Path, encoding: str) -> str:
    """Return the first delimiter that cuts the first lines into the same number of columns, two or more.

    Blanks separate cells only where nothing else does, and nothing but numbers stands below the first line.
    """
    with _opened(path) as (_, stream):
        lines = list(itertools.islice(_table_lines(_text_lines(stream, encoding)), _SNIFFED_LINES))
    for delimiter in DELIMITERS:
        try:
            widths = {len(row) for row in _rows(lines, delimiter)}
        except csv.Error:
            continue
        if len(widths) == 1 and max(widths) > 1:
            return delimiter
    counts = {delimiter: sum(line.count(delimiter) for line in lines) for delimiter in DELIMITERS}
    if not any(counts.values()) and _is_table_of_blanks(lines):
        return BLANKS
    return max(counts, key=lambda delimiter: counts[delimiter])  # ragged: reading it will say where


def _is_table_of_blanks(lines: Sequence[str]) -> bool:
    rows = list(_rows(lines, BLANKS))
    numbers = all(is_number_or_missing(cell) for row in rows[1:] for cell in row)
    return len(rows) > 1 and {len(row) for row in rows} == {len(rows[0])} != {1} and numbers


def _table(stream: BinaryIO, encoding: str, delimiter: str) -> tuple[list[str] | None, Iterator[Block]]:
    """Return the first row that is not blank, None if there is none, and blocks of the others."""
    line = stream.readline()
    if encoding != "utf-16" and line.endswith(b"\n") and line.count(b'"') % 2 == 0:
        text = line.decode(encoding)
        rows = list(_rows(io.StringIO(text, newline=""), delimiter))
        if len(rows) == 1 and not text.startswith(_COMMENT):
            return rows[0], _line_blocks(stream, encoding, delimiter, len(rows[0]))
    stream.seek(0)
    careful = _rows(_table_lines(_text_lines(stream, encoding)), delimiter)
    return next(careful, None), in_blocks(careful)


def _line_blocks(stream: BinaryIO, encoding: str, delimiter: str, width: int) -> Iterator[Block]:
    """Yield blocks of whole lines, as numbers where they hold nothing else; after a quote, the rest row by row."""
    while block := stream.read(_BLOCK) + stream.readline():
        if b'"' in block:  # a cell may go on in the next line, and block
            stream.seek(-len(block), os.SEEK_CUR)
            yield from in_blocks(_rows(_text_lines(stream, encoding), delimiter))
            return
        numbers = parse_numbers(_one_blank(block) if delimiter == BLANKS else block, delimiter, width)
        if numbers is not None:
            yield numbers
        elif rows := list(_rows(io.StringIO(block.decode(encoding), newline=""), delimiter)):
            yield rows


def _text_lines(stream: BinaryIO, encoding: str) -> Iterator[str]:
    """Yield the lines of the rest of a stream, and leave the stream open."""
    text = io.TextIOWrapper(stream, encoding=encoding, newline="")
    try:
        yield from text
    finally:
        with suppress(ValueError):  # closed already, after an error
            text.detach()


def _told(blocks: Iterator[Block], file: BinaryIO, progress: Progress) -> Iterator[Block]:
    """Pass blocks on, and tell how much of the file has been read."""
    for block in blocks:
        progress.done(file.tell())
        yield block


def _table_lines(stream: Iterable[str]) -> Iterator[str]:
    """Lines of a table: where the first line begins with "!", as in files of GEO, without all that do."""
    lines = iter(stream)
    first = next(lines, "")
    if not first.startswith(_COMMENT):
        return itertools.chain([first], lines)
    return (line for line in lines if not line.startswith(_COMMENT))


def _rows(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Rows of lines without those that are blank."""
    if delimiter == BLANKS:  # and no mark of a comment, with which numpy.savetxt begins its header
        lines = (" ".join(line.removeprefix("#").split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != BLANKS)
    return (row for row in reader if row and any(map(str.strip, row)))


def _one_blank(block: bytes) -> bytes:
    """Return lines whose cells are separated by one blank each, without blanks around them."""
    return re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t]+", b" ", block.replace(b"\r\n", b"\n")))


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        return False
    return True

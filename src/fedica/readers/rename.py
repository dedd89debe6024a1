"""Other names for the columns of a file: those that the study uses."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedica.arrays import PathLike
from fedica.errors import DataError, FormatError
from fedica.exchange.files import read_bounded
from fedica.readers.names import MAX_BYTES
from fedica.readers.sheet import Sheet
from fedica.text import counted, list_names


def read_renames(path: PathLike) -> dict[str, str]:
    """Return new names by old ones, from a text file with both in each line, separated by a comma, semicolon or tab."""
    file = Path(path)
    if not file.is_file():
        raise FormatError(f"{file}: a text file with two names per line was expected; there is no such file.")
    data = read_bounded(file, limit=MAX_BYTES, what="a list of names")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: a list of names must be UTF-8 text; byte {error.start} is not.") from error
    delimiter = max(",;\t", key=text.count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
    for row in rows:
        if len(row) != 2 or not all(row):
            raise FormatError(
                f"{file}: every line must hold two names, that of the column and that in the study; got "
                f"{delimiter.join(row)[:80]!r}."
            )
    names: dict[str, str] = dict(rows)
    if len(names) < len(rows) or len(set(names.values())) < len(rows):
        raise FormatError(f"{file}: every name must stand in one line only; some are there twice.")
    return names


def renamed(sheet: Sheet, names: dict[str, str], source: str) -> Sheet:
    """Give columns their new names; every old name must be there."""
    there = {*(sheet.names or ()), *sheet.left_out, *sheet.unusable}
    if lacking := [old for old in names if old not in there]:
        raise DataError(
            f"{source}: {list_names(lacking)} should be renamed, but there is no such column. It has, among others, "
            f"{list_names(sorted(there - set(names)))}."
        )
    return replace(
        sheet,
        names=None if sheet.names is None else tuple(names.get(name, name) for name in sheet.names),
        left_out={names.get(name, name): why for name, why in sheet.left_out.items()},
        unusable={names.get(name, name): why for name, why in sheet.unusable.items()},
        notes=(*sheet.notes, f"{counted(len(names), 'column', 'were')} renamed: {list_names(list(names))}."),
    )


def names_in_file(columns: Sequence[str] | None, names: dict[str, str]) -> list[str] | None:
    """Return what wanted columns are called in the file."""
    old = {new: name for name, new in names.items()}
    return None if columns is None else [old.get(name, name) for name in columns]

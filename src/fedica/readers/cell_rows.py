"""Rows of cells of text, from a text table or a spreadsheet -> a sheet: names, numbers, and labels of the rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from fedica.arrays import Array
from fedica.errors import DataError, FormatError
from fedica.readers.cells import Column, Decimals, is_number_or_missing
from fedica.readers.header import is_header
from fedica.readers.identifiers import by_name
from fedica.readers.sheet import Sheet

_BLOCK_CELLS = 200_000


def read_rows(
    rows: Iterator[list[str]],
    source: str,
    wanted: Sequence[str] | None,
    max_rows: int,
    decimals: Decimals,
    *,
    header: str = "auto",
    notes: Sequence[str] = (),
) -> Sheet:
    """Read rows of cells; the first apart, because whether it names the columns may only show by the others.

    Parameters
    ----------
    rows : iterator of list of str
        The rows that are not blank.
    source : str
        Name of the data in messages: the file.
    wanted : sequence of str, optional
        The columns to read; by default all.
    max_rows : int
        An upper bound on the number of rows.
    decimals : Decimals
        How numbers are written.
    header : {"auto", "yes", "no"}
        Whether the first row names the columns.
    notes : sequence of str
        What was noticed before.
    """
    first = next(rows, None)
    if first is None:
        raise FormatError(f"{source}: the file has no rows.")
    cells = [cell.strip() for cell in first]
    cells[0] = cells[0].removeprefix("#").lstrip()  # as numpy.savetxt writes its header
    named = _is_named(cells, wanted, header)
    asked, names = set(wanted or ()), _names(cells, named)
    places = [k for k, name in enumerate(names) if wanted is None or not named or name in asked]
    table = [Column(names[k], must_be_numbers=names[k] in asked) for k in places]
    values, labels = _fill(rows, source, table, places, cells, max_rows, decimals)
    told = list(notes)
    if named is None:
        named, note = _judged(cells, values[1:], source)
        told.append(note)
    for column, k in zip(table, places, strict=True):
        column.name = _names(cells, named)[k]
    if not named:
        values[0] = [column.convert([cells[k]], 1, decimals)[0] for column, k in zip(table, places, strict=True)]
    elif len(values) == 1:
        raise DataError(f"{source}: the file has names of columns, but no rows under them.")
    if decimals.comma:
        told.append("numbers were read with a decimal comma.")
    decimals.check(source)
    values, kept, left_out = _numeric(values[int(named) :], table, source)
    left_out |= {name: "not wanted" for k, name in enumerate(_names(cells, named)) if k not in set(places)}
    row_labels = tuple(labels if named else [cells[0], *labels]) if labels else None
    return Sheet(values, kept if named else None, left_out, tuple(told), labels=row_labels, labels_named=cells[0] != "")


def _is_named(cells: list[str], wanted: Sequence[str] | None, header: str) -> bool | None:
    """Whether the first row names the columns: as the user says, or by its cells; ``None`` if they are numbers."""
    if header != "auto":
        return header == "yes"
    if not all(map(is_number_or_missing, cells)) or (wanted and set(wanted) <= set(cells)):
        return True
    return None


def _judged(cells: list[str], below: Array, source: str) -> tuple[bool, str]:
    """Return whether a first row of numbers names the columns, and a note that says so."""
    shown = ", ".join(cells[:3]) + (", ..." if len(cells) > 3 else "")
    named = is_header(cells, below) if len(below) else False
    if named is None:
        raise DataError(
            f"{source}: the first line ({shown}) may name the columns or be a sample. Give --header yes if it names "
            "the columns, --header no if it is a sample."
        )
    if named:
        return True, f"the first line ({shown}) was read as the names of the columns; if it is a sample: --header no."
    return False, "the first line was read as a sample, so the columns have no names; if it names them: --header yes."


def _numeric(values: Array, table: list[Column], source: str) -> tuple[Array, tuple[str, ...], dict[str, str]]:
    """Return the columns of numbers, their names, and what the others hold."""
    numeric = [k for k, column in enumerate(table) if column.is_numeric(source)]
    left_out = {table[k].name: table[k].content for k in sorted(set(range(len(table))) - set(numeric))}
    return values[:, numeric] if left_out else values, tuple(table[k].name for k in numeric), left_out


def _fill(
    rows: Iterator[list[str]],
    source: str,
    table: list[Column],
    places: list[int],
    head: list[str],
    max_rows: int,
    decimals: Decimals,
) -> tuple[Array, list[str]]:
    """Convert the rows below the first block by block, into memory allocated once; row 0 is left for the first.

    Returned, too: the cells of the first column, if they label the rows.
    """
    values, labels = np.empty((max_rows + 1, len(table))), list[str]()
    done, block = 1, max(1, _BLOCK_CELLS // len(head))
    while chunk := list(itertools.islice(rows, block)):
        for k, row in enumerate(chunk):
            if len(row) != len(head):
                raise FormatError(
                    f"{source}: every row must have {len(head)} cells; row {1 + done + k} (blank ones not counted) has "
                    f"{len(row)}. Is a delimiter inside a text that is not quoted?"
                )
        cells = list(zip(*chunk, strict=True))
        for k, (column, place) in enumerate(zip(table, places, strict=True)):
            values[done : done + len(chunk), k] = column.convert(cells[place], 1 + done, decimals)
        if labels or (done == 1 and _are_labels(head[0], cells[0][0])):
            labels += map(str.strip, cells[0])
        done += len(chunk)
    return values[:done], labels


def _are_labels(name: str, cell: str) -> bool:
    """Whether the first column labels the rows, by its name and its first cell."""
    return name == "" or bool(by_name(name, np.empty(0))) or not is_number_or_missing(cell)


def _names(cells: list[str], named: bool | None) -> tuple[str, ...]:
    """Return names of columns; one without a name is called by its number, the first one "row number"."""
    if not named:
        return tuple(f"column {k + 1}" for k in range(len(cells)))
    return tuple(name or ("row number" if k == 0 else f"column {k + 1}") for k, name in enumerate(cells))

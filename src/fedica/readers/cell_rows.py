"""Rows of cells, from a text table or a spreadsheet -> a sheet: names, numbers, and labels of the rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from fedica.arrays import Array
from fedica.errors import DataError, FormatError
from fedica.formats import ReadOptions
from fedica.readers.cells import Column, Decimals, is_number_or_missing
from fedica.readers.header import is_header
from fedica.readers.identifiers import by_name
from fedica.readers.number_blocks import NumberBlock
from fedica.readers.select import likely_names
from fedica.readers.sheet import Sheet
from fedica.text import list_names

_BLOCK_CELLS = 200_000
Block = NumberBlock | list[list[str]]
"""Some rows: as numbers, or as cells of text."""
ROW_NUMBER = "row number"
"""What a first column without a name is called."""


def in_blocks(rows: Iterator[list[str]]) -> Iterator[Block]:
    """Yield rows in blocks of about the same number of cells."""
    for first in rows:
        yield [first, *itertools.islice(rows, max(0, _BLOCK_CELLS // max(1, len(first)) - 1))]


def read_rows(
    first: list[str] | None,
    blocks: Iterator[Block],
    source: str,
    wanted: Sequence[str] | None,
    max_rows: int,
    decimals: Decimals,
    *,
    options: ReadOptions,
    notes: Sequence[str] = (),
) -> Sheet:
    """Read rows of cells; the first apart, because whether it names the columns may only show by the others.

    Parameters
    ----------
    first : list of str, optional
        The first row that is not blank; ``None`` if there is none.
    blocks : iterator of Block
        The other rows that are not blank.
    source : str
        Name of the data in messages: the file.
    wanted : sequence of str, optional
        The columns to read; by default all.
    max_rows : int
        An upper bound on the number of rows.
    decimals : Decimals
        How numbers are written.
    options : ReadOptions
        Whether the first row names the columns, and which column tells of whom a row is.
    notes : sequence of str
        What was noticed before.
    """
    if first is None:
        raise FormatError(f"{source}: the file has no rows.")
    cells = [cell.strip() for cell in first]
    cells[0] = cells[0].removeprefix("#").lstrip()  # as numpy.savetxt writes its header
    named = _is_named(cells, wanted, options.header)
    asked, names = set(wanted or ()), _names(cells, named)
    person = _person_place(options.person, names, source)
    places = [k for k, name in enumerate(names) if k != person and (wanted is None or not named or name in asked)]
    table = [Column(names[k], must_be_numbers=names[k] in asked) for k in places]
    persons = set[str]()
    values, labels = _fill(_counted(blocks, person, persons), source, table, places, cells, max_rows, decimals)
    told = list(notes)
    if named is None:
        named, note = _judged(cells, values[1:], source)
        told.append(note)
    names, read = _names(cells, named), {*places, person}
    for column, k in zip(table, places, strict=True):
        column.name = names[k]
    if not named:
        values[0] = [column.convert([cells[k]], 1, decimals)[0] for column, k in zip(table, places, strict=True)]
    elif len(values) == 1:
        raise DataError(f"{source}: the file has names of columns, but no rows under them.")
    if decimals.comma:
        told.append("numbers were read with a decimal comma.")
    decimals.check(source)
    values, kept, left_out = _numeric(values[int(named) :], table, source)
    left_out |= {name: "not wanted" for k, name in enumerate(names) if k not in read}
    if options.person is not None:
        left_out[options.person] = "the person of each row"
    row_labels = tuple(labels if named else [cells[0], *labels]) if labels else None
    return Sheet(
        values,
        kept if named else None,
        left_out,
        tuple(told),
        labels=row_labels,
        labels_column=cells[0] if named else "",
        persons=frozenset(persons) if options.person is not None else None,
    )


def _person_place(person: str | None, names: Sequence[str], source: str) -> int | None:
    """Return which column tells of whom a row is."""
    if person is None:
        return None
    if person not in names:
        meant = likely_names([person], names)
        raise DataError(
            f"{source}: there is no column {person!r} to tell persons by. {meant}It has {list_names(names)}."
        )
    return names.index(person)


def _counted(blocks: Iterator[Block], place: int | None, persons: set[str]) -> Iterator[Block]:
    """Pass rows on, and collect what stands in one of their columns."""
    for block in blocks:
        if place is not None:
            persons.update(map(str.strip, _column(block, place)))
        yield block


def _column(block: Block, place: int) -> list[str]:
    """Return the cells of a column; rows that are too short have none."""
    if isinstance(block, NumberBlock):
        return block.column(place)
    return [row[place] for row in block if place < len(row)]


def _is_named(cells: list[str], wanted: Sequence[str] | None, header: str) -> bool | None:
    """Whether the first row names the columns: as the user says, or by its cells; ``None`` if they are numbers."""
    if header != "auto":
        return header == "yes"
    if not all(map(is_number_or_missing, cells)) or (wanted and set(wanted) <= set(cells)):
        return True
    return None


def _judged(cells: list[str], below: Array, source: str) -> tuple[bool, str]:
    """Return whether a first row of numbers names the columns, and a note that says so."""
    told = cells[1:] if len(cells) > 1 and not cells[0] else cells  # over an index there is nothing
    shown = ", ".join(told[:3]) + (", ..." if len(told) > 3 else "")
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
    blocks: Iterator[Block],
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
    done = 1
    for block in blocks:
        rows = values[done : done + len(block)]
        if isinstance(block, NumberBlock):
            _place_numbers(block, rows, table, places, decimals)
        else:
            _check_widths(block, len(head), 1 + done, source)
            _place_cells(block, rows, table, places, decimals, 1 + done)
        if labels or (done == 1 and _are_labels(head[0], _column(block, 0)[0])):
            labels += map(str.strip, _column(block, 0))
        done += len(block)
    return values[:done], labels


def _place_numbers(block: NumberBlock, rows: Array, table: list[Column], places: list[int], decimals: Decimals) -> None:
    """Put numbers into their rows of the array."""
    rows[:] = block.values if len(places) == block.values.shape[1] else block.values[:, places]
    for k, column in enumerate(table):
        if not column.take(len(block)):
            rows[:, k] = np.nan
    if block.commas:
        cells = (cell for place in places for cell in block.column(place))
        decimals.comma = decimals.comma or next((cell for cell in cells if "," in cell), "")
    elif not decimals.point:
        decimals.point = bool(np.any(rows != np.trunc(rows), where=np.isfinite(rows)))


def _place_cells(
    block: list[list[str]], rows: Array, table: list[Column], places: list[int], decimals: Decimals, start: int
) -> None:
    """Convert cells of text; ``start`` is the number of the first row."""
    cells = list(zip(*block, strict=True))
    for k, (column, place) in enumerate(zip(table, places, strict=True)):
        rows[:, k] = column.convert(cells[place], start, decimals)


def _check_widths(block: list[list[str]], width: int, start: int, source: str) -> None:
    """Refuse a row that has not as many cells as the first."""
    for k, row in enumerate(block):
        if len(row) != width:
            raise FormatError(
                f"{source}: every row must have {width} cells; row {start + k} (blank ones not counted) has "
                f"{len(row)}. Is a delimiter inside a text that is not quoted?"
            )


def _are_labels(name: str, cell: str) -> bool:
    """Whether the first column labels the rows, by its name and its first cell."""
    return name == "" or bool(by_name(name, np.empty(0))) or not is_number_or_missing(cell)


def _names(cells: list[str], named: bool | None) -> tuple[str, ...]:
    """Return names of columns; one without a name is called by its number, the first one `ROW_NUMBER`."""
    if not named:
        return tuple(f"column {k + 1}" for k in range(len(cells)))
    return tuple(name or (ROW_NUMBER if k == 0 else f"column {k + 1}") for k, name in enumerate(cells))

"""Excel workbooks through openpyxl: the first sheet that holds anything, its cells read as those of a text table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedica.errors import FormatError
from fedica.extras import import_extra
from fedica.formats import ReadOptions
from fedica.progress import counting
from fedica.readers.cell_rows import in_blocks, read_rows
from fedica.readers.cells import Decimals
from fedica.readers.sheet import Sheet
from fedica.text import list_names


def read_xlsx(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the first sheet that is not empty; of formulas, the values that Excel saved."""
    openpyxl = import_extra("openpyxl", f"{path}: an Excel workbook", "excel")
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        names = [sheet.title for sheet in book.worksheets]
        first = next(((sheet.title, rows) for sheet in book.worksheets if (rows := _rows(sheet, path))), None)
    finally:
        book.close()
    if first is None:
        raise FormatError(f"{path}: the workbook has no cells.")
    name, rows = first
    others = [other for other in names if other != name]
    note = f"the sheet {name!r} was read; the workbook also has {list_names(others)}."
    return read_rows(
        rows[0],
        in_blocks(iter(rows[1:])),
        str(path),
        columns,
        len(rows),
        Decimals(";"),
        options=options,
        notes=(note,) if others else (),
    )


def _rows(sheet: Any, path: Path) -> list[list[str]]:
    """Return the cells of a sheet as texts, without blank rows, and without blank columns on the right."""
    told = counting(sheet.iter_rows(values_only=True), sheet.max_row or 0, f"reading {path}")
    rows = [[_text(cell) for cell in row] for row in told]
    rows = [row for row in rows if any(row)]
    width = max((1 + max(k for k, cell in enumerate(row) if cell) for row in rows), default=0)
    return [[*row[:width], *[""] * (width - len(row))] for row in rows]


def _text(cell: Any) -> str:
    """Return a cell as a text table has it; truth values are 0 and 1."""
    if cell is None:
        return ""
    return str(int(cell)) if isinstance(cell, bool) else str(cell).strip()

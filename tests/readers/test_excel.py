"""Excel workbooks, written by openpyxl."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from fedica.errors import DataError, FormatError
from fedica.readers import read_data

openpyxl = pytest.importorskip("openpyxl")
X = np.random.default_rng(0).standard_normal((12, 2)).round(3)


def save(path, *sheets):
    """Write a workbook with a sheet for each list of rows."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for k, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {k}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_numbers_names_and_what_is_left_out(tmp_path):
    """Dates and identifiers are left out as in text tables; blank rows and columns do not matter."""
    day = datetime.datetime(2024, 5, 1)
    rows = [[f"p{k}", day + datetime.timedelta(k), *row, None] for k, row in enumerate(X.tolist())]
    path = save(tmp_path / "a.xlsx", [], [["patient", "seen", "K", "Na", None], [], *rows], [["notes"]])
    table = read_data(path)
    np.testing.assert_array_equal(table.values, X)
    assert table.features == ("K", "Na")
    assert table.labels == tuple(f"p{k}" for k in range(12))
    assert "dates" in table.left_out["seen"]
    assert any("'sheet 1' was read; the workbook also has 'sheet 0', 'sheet 2'" in note for note in table.notes)


def test_whole_numbers_truth_values_and_empty_cells(tmp_path):
    """An empty cell is a missing value, which is refused with its column."""
    path = save(tmp_path / "a.xlsx", [["K", "ill"], *([k % 5, k % 3 == 0] for k in range(9))])
    np.testing.assert_array_equal(read_data(path).values[:4], [[0, 1], [1, 0], [2, 0], [3, 1]])
    path = save(tmp_path / "b.xlsx", [["K", "Na"], [1.5, 2.5], [None, 3.5], [4.5, 1.5]])
    with pytest.raises(DataError, match="1 of 3 rows have missing or infinite values: 'K' 1"):
        read_data(path)


def test_what_is_no_workbook_is_one_sentence(tmp_path):
    """Another kind of file, a cut one, and one without cells."""
    whole = save(tmp_path / "a.xlsx", [["K"], [1.0]]).read_bytes()
    for content in (b"K,Na\n1,2\n", whole[: len(whole) // 2], b""):
        (tmp_path / "b.xlsx").write_bytes(content)
        with pytest.raises(FormatError, match=r"b\.xlsx: "):
            read_data(tmp_path / "b.xlsx")
    with pytest.raises(FormatError, match="the workbook has no cells"):
        read_data(save(tmp_path / "c.xlsx", []))

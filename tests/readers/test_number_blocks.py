"""Text tables read in blocks by compiled code: the same as cell by cell, and progress while it lasts."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from typer.testing import CliRunner

import fedica.progress
from fedica.cli import app
from fedica.errors import FedicaError
from fedica.formats import ReadOptions
from fedica.readers import delimited, number_blocks
from fedica.readers.cells import Column

PLAIN = "a,b,c\n1.5,-2.25,3\n4,5e-3,+6\n7,8,9.125\n"
TABLES = {
    "plain": PLAIN,
    "without an end": PLAIN.rstrip("\n"),
    "Windows": PLAIN.replace("\n", "\r\n"),
    "old Mac": PLAIN.replace("\n", "\r"),
    "blank lines": PLAIN.replace("\n", "\n\n") + "\n,,\n\n",
    "byte order mark": "\ufeff" + PLAIN,
    "accents": PLAIN.replace("a", "é"),
    "empty cells": PLAIN + ",1,2\n3,,4\n5,6,\n,,7\n8,,\n",
    "missing in words": PLAIN + "NA,1,2\nnan,3,4\n-,5,6\n.,7,8\n",
    "infinite": PLAIN + "inf,1,2\n1e999,3,4\n",
    "decimal commas": PLAIN.replace(",", ";").replace(".", ","),
    "decimal commas and points": PLAIN.replace(",", ";") + "1,5;2;3\n",
    "thousands": PLAIN.replace(",", ";") + "1.234.567;2;3\n1 234;5;6\n",
    "thousands with commas": "a;b\n1,5;2\n1,234,567;3\n4;5\n",
    "tabs": PLAIN.replace(",", "\t"),
    "index": PLAIN.replace("\n", "\n0,").replace("a,b", ",a,b", 1).rstrip("0,"),
    "identifiers": "patient_id,x,y\n1,2,3\n4,5,6.5\n",
    "quoted late": PLAIN + '"10","11\n",12\n"1,5",2,3\n',
    "quoted header": '"a","b ","c"\n1,2,3\n4,5,6\n',
    "header over two lines": '"a\nb",c\n1,2\n3,4.5\n',
    "texts": "x,name,y\n1,anna,2\n3,ben,4.5\n5,17,6\n",
    "a text among numbers": PLAIN + "1,x,3\n",
    "a ragged row": PLAIN + "1,2\n",
    "a row too long": PLAIN + "1,2,3,4\n",
    "one column": "a\n1\n2.5\n3\n",
    "one column with a blank": "a\n1\n\n3\n",
    "an empty last row": PLAIN + ",,",
    "numbers as header": "0,1,2\n" + PLAIN.split("\n", 1)[1],
    "spaces": PLAIN.replace(",", ", ") + " 1 , 2,3\n",
    "GEO": "!series\na\tb\n1\t2\n!end\n3\t4.5\n",
    "not a number": PLAIN + "1-2,3,4\n5,6,e\n",
}
OPTIONS = [ReadOptions(), ReadOptions(header="yes"), ReadOptions(header="no"), ReadOptions(person="a")]


def outcome(path, options, columns=None):
    """Everything that reading gives, or the sentence of its error."""
    try:
        sheet = delimited.read_delimited(path, columns, options)
    except FedicaError as error:
        return type(error), str(error)
    return (
        sheet.values.tobytes(),
        sheet.values.shape,
        [getattr(sheet, name) for name in vars(sheet) if name != "values"],
    )


@pytest.fixture(params=["pyarrow", "numpy"])
def parser(request, monkeypatch):
    """Blocks of few bytes, parsed by the one or the other."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(number_blocks, "_parser", lambda: number_blocks.parse_with_numpy)
    monkeypatch.setattr(delimited, "_BLOCK", 24)


@pytest.mark.parametrize("name", TABLES)
def test_blocks_give_what_cells_give(parser, tmp_path, monkeypatch, name):
    """Values to the bit, names, labels, notes, what is left out; or the same sentence with the same row."""
    path = tmp_path / "a.csv"
    path.write_bytes(TABLES[name].encode("latin-1" if name == "accents" else "utf-8"))
    by_blocks = [outcome(path, options) for options in OPTIONS]
    by_blocks.append(outcome(path, OPTIONS[0], ["c", "a"]))
    monkeypatch.setattr(delimited, "parse_numbers", lambda *_: None)
    by_cells = [outcome(path, options) for options in OPTIONS]
    by_cells.append(outcome(path, OPTIONS[0], ["c", "a"]))
    assert by_blocks == by_cells


def test_random_tables_are_read_alike(parser, tmp_path, monkeypatch):
    """Cells of every kind in any order: a hundred tables."""
    rng = np.random.default_rng(0)
    cells = ["1", "-2.5", "3e-7", "", "NA", "+4", "-", ".5", "6.", "1,5", "x", "0.1234567890123456789", "1e5", '"7"']
    path = tmp_path / "a.csv"
    original = delimited.parse_numbers
    for _ in range(100):
        width, share = rng.integers(1, 5), rng.integers(3, len(cells) + 1)
        rows = [list("abcd"[:width]), *([cells[k] for k in rng.integers(0, share, width)] for _ in range(12))]
        cut = rng.choice([",", ";", "\t"])
        path.write_text("\n".join(map(cut.join, rows)) + "\n", encoding="utf-8")
        monkeypatch.setattr(delimited, "parse_numbers", original)
        by_blocks = outcome(path, OPTIONS[0])
        monkeypatch.setattr(delimited, "parse_numbers", lambda *_: None)
        assert by_blocks == outcome(path, OPTIONS[0]), path.read_text(encoding="utf-8")


def test_plain_numbers_are_never_looked_at_cell_by_cell(parser, tmp_path, monkeypatch):
    """With empty cells, with decimal commas, with an index: only a first row of numbers is."""
    looked_at = []
    monkeypatch.setattr(Column, "convert", lambda self, cells, *_: looked_at.append(cells))
    for name in ("plain", "Windows", "empty cells", "decimal commas", "index", "identifiers", "one column"):
        (tmp_path / "a.csv").write_text(TABLES[name], encoding="utf-8", newline="")
        delimited.read_delimited(tmp_path / "a.csv", None, ReadOptions())
    assert looked_at == []


def test_a_command_tells_how_much_of_a_table_it_has_read(tmp_path, monkeypatch):
    """On stderr with --verbose, and nothing with --quiet."""
    monkeypatch.setattr(delimited, "_BLOCK", 2000)
    monkeypatch.setattr(fedica.progress, "SECONDS_BETWEEN", 0.0)
    data = tmp_path / "a.csv"
    np.savetxt(data, np.random.default_rng(0).laplace(size=(400, 3)), delimiter=",", header="a,b,c", comments="")
    run = ["local", str(data), "-o", str(tmp_path / "a.safetensors"), "--client", "x"]
    told = CliRunner().invoke(app, [*run, "--verbose"])
    assert told.exit_code == 0, told.output
    lines = [line for line in told.stderr.splitlines() if "reading" in line and "%," in line]
    shares = [int(line.split("%")[0].rsplit(" ", 1)[1]) for line in lines]
    assert shares == sorted(shares)
    assert len(shares) > 5
    assert shares[-1] == 100
    assert all(line.endswith(" s left") for line in lines)
    with suppress(FileNotFoundError):
        (tmp_path / "a.safetensors").unlink()
    assert CliRunner().invoke(app, [*run, "--quiet"]).stderr == ""

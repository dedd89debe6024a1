"""The command that draws the paper's figure."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fedica.cli.reproduce import app
from fedica.simulate import figure1


@pytest.fixture
def small_figure(monkeypatch):
    """Three settings of few clients instead of twenty."""
    monkeypatch.setattr(figure1, "CLIENTS", (4,))
    monkeypatch.setattr(figure1, "SAMPLES", (100,))
    monkeypatch.setattr(figure1, "RATIOS", (0.0,))
    monkeypatch.setattr(figure1, "N_CLIENTS", 4)


@pytest.mark.usefixtures("small_figure")
def test_figure_1_writes_rows_and_figure_and_prints_a_table(tmp_path):
    """Three files; the table has a line per setting; nothing is shown of the progress where nobody looks."""
    folder = tmp_path / "out"
    command = ["figure-1", "--preset", "code", "--trials", "1", "--jobs", "1", "-o", str(folder)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in folder.iterdir()) == ["figure-1-code.csv", "figure-1-code.html", "figure-1-code.png"]
    assert "clients 4" in result.stdout
    assert "ratio 0" in result.stdout
    assert result.stderr == ""
    rows = (folder / "figure-1-code.csv").read_bytes()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0
    assert (folder / "figure-1-code.csv").read_bytes() == rows  # seconds and all: nothing ran again
    shown = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert len(shown["table"]) == 3
    assert sorted(shown["files"]) == sorted(str(path) for path in folder.iterdir())
    assert CliRunner().invoke(app, [*command, "--quiet"]).output == ""


@pytest.mark.parametrize("wrong", [["--preset", "text"], ["--trials", "0"], ["--jobs", "0"]])
def test_wrong_usage_has_exit_code_two(wrong):
    """Typer says what is wrong."""
    result = CliRunner().invoke(app, ["figure-1", *wrong])
    assert result.exit_code == 2
    assert wrong[0] in result.stderr

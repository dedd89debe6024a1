"""``fedica demo`` as a person runs it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedica.simulate.demo
from fedica.cli import app
from fedica.server import METHODS
from fedica.simulate.photographs import load_photographs

MATCHING = [name for name, method in METHODS.items() if method.matches_atoms]


@pytest.fixture
def small_photographs(monkeypatch):
    """The demo on a quarter of the pixels."""
    monkeypatch.setattr(fedica.simulate.demo, "load_photographs", lambda: load_photographs()[:, ::2, ::2])


@pytest.mark.usefixtures("small_photographs")
def test_the_demo_prints_two_tables_a_conclusion_and_where_things_are(tmp_path):
    """Every client and every method has a line; the picture and the contributions are where it says."""
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "out"), "--random-state", "3"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    for name in [*(f"client-{k:02d}" for k in range(1, 13)), *MATCHING]:
        assert sum(line.split()[:1] == [name] for line in lines) == 1
    assert "No pixel left its client" in result.stdout
    assert (tmp_path / "out" / "photographs.png").is_file()
    assert len(list((tmp_path / "out" / "contributions").iterdir())) == 12


@pytest.mark.usefixtures("small_photographs")
def test_the_conclusion_says_what_the_table_says(tmp_path, monkeypatch):
    """Its numbers are computed: with another result it says something else."""
    ran = fedica.simulate.demo.run_demo
    results = []

    def spoilt(*args, **kwargs):
        found = ran(*args, **kwargs)
        methods = tuple(dataclasses.replace(row, error=0.4321) for row in found.methods)
        results.append(dataclasses.replace(found, methods=methods))
        return results[-1]

    monkeypatch.setattr(fedica.simulate.demo, "run_demo", spoilt)
    shown = " ".join(CliRunner().invoke(app, ["demo", "-o", str(tmp_path)]).stdout.split())
    n_beaten = sum(client.error > 0.4321 for client in results[0].clients)
    assert f"an error of 0.4321, smaller than what {n_beaten} of the 12 clients find alone" in shown


@pytest.mark.usefixtures("small_photographs")
def test_the_demo_for_programs_and_for_nobody(tmp_path):
    """--json is one object with the same numbers; -v says on stderr what is done; --quiet prints nothing."""
    command = ["demo", "-o", str(tmp_path), "--random-state", "3"]
    ran = CliRunner().invoke(app, [*command, "--json", "-v"])
    assert ran.exit_code == 0, ran.output
    shown = json.loads(ran.stdout)
    assert [row["method"] for row in shown["methods"]] == MATCHING
    assert [row["client"] for row in shown["clients"]] == [f"client-{k:02d}" for k in range(1, 13)]
    assert shown["default"] == "consensus"
    assert Path(shown["picture"]).is_file()
    assert Path(shown["report"]).is_file()
    assert "the report is written" in ran.stderr
    text = CliRunner().invoke(app, command).stdout
    assert all(f"{row['error']:.4f}" in text for row in [*shown["methods"], *shown["clients"]])
    quiet = CliRunner().invoke(app, [*command, "--quiet"])
    assert (quiet.exit_code, quiet.output) == (0, "")


def test_an_unwritable_output_is_one_sentence(tmp_path):
    """A file where the folder should be: exit code 1, no traceback."""
    (tmp_path / "taken").write_text("something")
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "taken")])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "taken" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_missing_extra_is_one_sentence(tmp_path, monkeypatch):
    """Without scikit-image: how to install it, exit code 1."""
    monkeypatch.setitem(sys.modules, "skimage", None)
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: the photographs need scikit-image, which is not installed. Run: pip install 'fedica[demo]'\n"
    )

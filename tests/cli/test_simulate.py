"""The command that measures attacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fedica.cli.simulate import simulate
from fedica.errors import OptionError
from fedica.simulate import ATTACKS, SECOND_ATTACKS


@pytest.fixture
def app():
    """Return an app of this command alone."""
    alone = typer.Typer(pretty_exceptions_enable=False)
    alone.command()(simulate)
    return alone


SMALL = ["--clients", "8", "--components", "3", "--trials", "2", "--jobs", "1", "--method", "sf-ica"]


def test_simulate_writes_rows_table_and_figure(app, tmp_path):
    """Two attacks, two shares: four lines in the table, in the file and on the screen."""
    command = [*SMALL, "--attack", "rotation:20", "--attack", "alie", "--share", "0.25", "--share", "0.4"]
    result = CliRunner().invoke(app, [*command, "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "simulate.csv",
        "simulate.html",
        "simulate.md",
        "simulate.png",
    ]
    table = (tmp_path / "simulate.md").read_text().splitlines()
    assert table[0] == "| attack | share | honest | sf-ica |"
    assert [line.split(" | ")[:2] for line in table[2:]] == [
        ["| rotation:20", "0.25"],
        ["| rotation:20", "0.4"],
        ["| alie", "0.25"],
        ["| alie", "0.4"],
    ]
    assert "rotation:20" in result.stdout
    assert len((tmp_path / "simulate.csv").read_text().splitlines()) == 1 + 4 * 2 * 2


def test_federations_can_be_varied(app, tmp_path):
    """Condition numbers are crossed with the rest; the lines say which is which."""
    command = [*SMALL, "--attack", "none", "--condition", "1", "--condition", "10", "-o", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "none, condition 1 " in result.stdout
    assert "none, condition 10 " in result.stdout


def test_the_list_names_every_attack(app):
    """With what is known of each."""
    result = CliRunner().invoke(app, ["--list"])
    assert result.exit_code == 0
    for name in (*ATTACKS, *SECOND_ATTACKS):
        assert name in result.stdout


def test_simulate_for_programs_and_for_nobody(app, tmp_path):
    """--json is one object: the table that is printed else, and the files; --quiet prints nothing."""
    command = [*SMALL, "--attack", "alie", "--share", "0.25", "-o", str(tmp_path)]
    ran = CliRunner().invoke(app, [*command, "--json", "-v"])
    assert ran.exit_code == 0, ran.output
    shown = json.loads(ran.stdout)
    assert [sorted(line) for line in shown["table"]] == [["attack", "honest", "sf-ica", "share"]]
    assert all(Path(file).is_file() for file in shown["files"])
    assert "measuring; rows go to" in ran.stderr
    printed = CliRunner().invoke(app, command).stdout
    assert all(value in printed for value in shown["table"][0].values())
    assert CliRunner().invoke(app, [*command, "--quiet"]).output == ""


def test_the_list_for_programs(app):
    """Every attack with its numbers as numbers."""
    shown = json.loads(CliRunner().invoke(app, ["--list", "--json"]).stdout)
    assert {row["attack"]: row["strength"] for row in shown["attacks"]} == {k: a.strength for k, a in ATTACKS.items()}
    second = {row["attack"]: row["both"] for row in shown["second_attacks"]}
    assert second == {k: a.both for k, a in SECOND_ATTACKS.items()}
    assert CliRunner().invoke(app, ["--list", "--quiet"]).output == ""


def test_second_messages_are_measured_with_rounds(app, tmp_path):
    """One line per message; methods cannot be chosen, and data is needed."""
    federation = ["--clients", "8", "--components", "3", "--condition", "3", "--trials", "1", "--jobs", "1"]
    command = [*federation, "--rounds", "2", "--attack", "turned-scores:20", "--share", "0.25", "-o", str(tmp_path)]
    ran = CliRunner().invoke(app, [*command, "--samples", "400", "--law", "laplace", "--json"])
    assert ran.exit_code == 0, ran.output
    (line,) = json.loads(ran.stdout)["table"]
    assert sorted(line) == ["2 messages", "attack", "honest", "one message", "share"]
    for wrong, sentence in ((["--samples", "400", "--method", "sf-ica"], "leave --method out"), ([], "n_samples")):
        refused = CliRunner().invoke(app, [*command, *wrong]).exception
        assert isinstance(refused, OptionError)
        assert sentence in str(refused)


@pytest.mark.parametrize(
    "wrong", [["--attack", "hacking"], ["--method", "magic"], ["--law", "wrong", "--samples", "100"]]
)
def test_unknown_names_are_refused(app, tmp_path, wrong):
    """The library's sentence reaches the program, which prints it."""
    result = CliRunner().invoke(app, [*SMALL, "--attack", "none", *wrong, "-o", str(tmp_path)])
    assert isinstance(result.exception, OptionError)
    assert repr(wrong[1]) in str(result.exception)

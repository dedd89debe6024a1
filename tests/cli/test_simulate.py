"""The command that measures attacks."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from fedica.cli.simulate import simulate
from fedica.errors import OptionError
from fedica.simulate import ATTACKS


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
    for name in ATTACKS:
        assert name in result.stdout


@pytest.mark.parametrize(
    "wrong", [["--attack", "hacking"], ["--method", "magic"], ["--law", "wrong", "--samples", "100"]]
)
def test_unknown_names_are_refused(app, tmp_path, wrong):
    """The library's sentence reaches the program, which prints it."""
    result = CliRunner().invoke(app, [*SMALL, "--attack", "none", *wrong, "-o", str(tmp_path)])
    assert isinstance(result.exception, OptionError)
    assert repr(wrong[1]) in str(result.exception)

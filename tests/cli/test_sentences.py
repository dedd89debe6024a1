"""What commands say: options that they have, the right number of things, files and not stdout, the width asked for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import fedica
from fedica.cli import app

SOURCE = Path(fedica.__file__).parent
PROGRAM = typer.main.get_command(app)
READING = ("local", "apply", "refine", "study new")
PRINTED_BY = {
    "readers": READING,
    "server": ("aggregate",),
    "exchange": ("aggregate",),
    "workflow/apply.py": ("apply",),
    "workflow/own_maps.py": ("apply",),
    "workflow/combine.py": ("aggregate",),
    "workflow/gates.py": ("aggregate",),
    "workflow/contribute.py": ("local",),
    "workflow/agreed.py": ("local",),
    "workflow/study.py": ("study new",),
}
"""Which commands print the sentences of a file, unless the sentence names its command: ``fedica local --bids``."""
NEVER_PRINTED = {("study new", "--drop-missing")}
"""It drops such rows without being asked."""
NO_OPTIONS = re.compile(r"\b(max_iter|tol|n_init|on_bad|keep_bads|drop_missing|channel_types|min_samples)\b")
THINGS = "clients|contributions|components|features|atoms|samples|rows|columns|files|persons|sources|segments|channels"


def options_of(command):
    """The options of a command, each by its long names."""
    found = PROGRAM
    for word in command.split(" "):
        found = found.commands[word]
    return {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}


def sentences(path):
    """The texts of a module, joined over the values that are filled in; docstrings are none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    stated = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inside | stated):
            yield node.value


@pytest.mark.parametrize("place", PRINTED_BY)
def test_options_that_are_named_are_there(place):
    """Every option in a sentence is one of each command that prints it, or of the command that is named with it."""
    files = sorted((SOURCE / place).rglob("*.py")) if (SOURCE / place).is_dir() else [SOURCE / place]
    lacking = []
    for sentence in (text for file in files for text in sentences(file)):
        named = re.findall(r"(?:fedica ((?:study )?[a-z]+) )?(?<![\w-])(--[a-z][a-z-]+)", sentence)
        for command, option in named:
            commands = [command] if command else PRINTED_BY[place]
            lacking += [
                (one, sentence)
                for one in commands
                if option not in options_of(one) and (one, option) not in NEVER_PRINTED
            ]
    assert lacking == []


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with one table of one source, and its contribution."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(500, 1)) @ [[1.0, 2.0, 3.0]] + 0.01 * rng.standard_normal((500, 3))
    np.savetxt("data.csv", X, delimiter=",", header="a,b,c", comments="")
    return tmp_path


def run(line, code=0):
    result = CliRunner().invoke(app, line.split(" "), prog_name="fedica")
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("study new --id s --features only.txt -o study.json", 0),
        ("local data.csv --components 1 -o d.safetensors", 0),
        ("local data.csv --rename one.txt --components 1 -o d.safetensors", 0),
        ("local gap.csv --drop-missing --components 1 -o d.safetensors", 0),
        ("aggregate c.safetensors -o result --min-clients 1", 0),
        ("aggregate c.safetensors -o result", 1),
        ("aggregate only.txt -o result", 1),
    ],
)
def test_one_is_singular(place, line, code):
    """One client with one component: "1 client", never "1 clients"."""
    Path("one.txt").write_text("a,A\n")
    Path("only.txt").write_text("b\n")
    Path("gap.csv").write_text(Path("data.csv").read_text().replace("\n", "\n,1,2\n", 1))
    run("local data.csv --components 1 -o c.safetensors")
    wrong = re.compile(rf"(?<!of )\b1 ({THINGS}|were|are)\b")
    assert [text for text in run(line, code).splitlines() if wrong.search(text)] == []


def test_arguments_of_python_are_options_of_commands(place):
    """A refusal names what the command takes."""
    run("local data.csv --components 1 -o c.safetensors")
    said = " ".join(run("aggregate c.safetensors --components 5 --min-clients 1 -o result", 1).split())
    assert "Ask for --components" in said
    assert not NO_OPTIONS.search(said)
    assert "--components=9 needs" not in run("local data.csv --components 9 -o d.safetensors", 1)


@pytest.mark.parametrize(
    "line",
    [
        "study new --id s --from data.csv",
        "local data.csv",
        "aggregate c.safetensors",
        "apply c.safetensors data.csv",
        "refine c.safetensors data.csv",
        "export c.safetensors",
        "report .",
        "keygen a",
        "demo",
        "simulate",
    ],
)
def test_a_dash_is_no_file(place, line):
    """Elsewhere it means stdout; here nothing is written, and nothing is called "-"."""
    assert "results are written to files, not to stdout" in run(f"{line} -o -", 1)
    assert not Path("-").exists()


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("140", 140), ("", 100)])
def test_lines_are_as_long_as_columns_says(place, monkeypatch, columns, widest):
    """Tables and sentences fill the width that the environment asks for, and no more."""
    names = "\n".join(f"a_long_name_of_a_feature_{k}" for k in range(20))
    Path("features.txt").write_text(names)
    run("study new --id s --features features.txt -o study.json")
    monkeypatch.setenv("COLUMNS", columns)
    lines = run("inspect study.json").splitlines()
    longest = max(len(line.rstrip()) for line in lines if "a_long" in line)
    assert widest - 30 < longest <= widest

"""The program as a whole: help, versions, exit codes, and sentences where Python would print a traceback."""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from dataclasses import fields
from importlib.resources import files

import pytest
import typer
from typer.testing import CliRunner

import fedica
from fedica.cli import CommandGroup, app, main
from fedica.cli.aggregate import FailOn
from fedica.cli.console import console, examples, make_plain, print_table
from fedica.cli.options import Independence, Mixing
from fedica.cli.reproduce import PresetName
from fedica.cli.study import Declare, OtherPreprocessing
from fedica.errors import DataError, MissingExtraError
from fedica.local import SOLVERS
from fedica.readers import ReadOptions
from fedica.records import DECLARE_SAMPLES, INDEPENDENCE, MIXING, OTHER_PREPROCESSING
from fedica.server import AFFINITIES, METHOD_NAMES
from fedica.simulate.figure1 import PRESETS
from fedica.workflow.combine import FAIL_ON

PROGRAM = [sys.executable, "-c", "from fedica.cli import main; main()"]


def run(*arguments, **options):
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=600, check=False, **options)


def all_commands(group=None, path=()):
    """Every command of the program, as the words that call it."""
    group = group or typer.main.get_command(app)
    found = []
    for name, command in group.commands.items():
        deeper = getattr(command, "commands", None)
        found += all_commands(command, (*path, name)) if deeper else [(*path, name)]
    return found


def failing_app(error):
    """Return a program with one command, which raises the error."""
    program = typer.Typer(cls=CommandGroup)

    @program.callback()
    def group():
        pass

    @program.command()
    def fail():
        raise error

    return program


def test_no_arguments_show_the_help_as_wrong_usage():
    """The help lists all top commands."""
    result = run()
    assert result.returncode == 2
    shown = result.stdout + result.stderr
    assert shown.startswith("Usage: fedica")
    assert all(command[0] in shown for command in all_commands())


def test_version():
    """The version of the package, and nothing else."""
    result = run("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"fedica {fedica.__version__}\n", "")


def test_help_loads_no_numerical_library():
    """What makes help slow is not imported before a command runs."""
    heavy = ["scipy", "sklearn", "matplotlib", "plotly", "skimage", "pandas"]
    code = f"import sys, fedica.cli; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("command", all_commands(), ids=" ".join)
def test_every_command_has_help_with_examples_that_parse(command):
    """Each example starts with the command, and its options exist: its own parser accepts it."""
    shown = CliRunner().invoke(app, [*command, "--help"], prog_name="fedica")
    assert shown.exit_code == 0
    assert "\\[" not in shown.output
    _, _, listed = shown.output.partition("Examples:\n")
    listed = re.sub(r"\\\s*\n", " ", listed)  # a long command goes on in the next line
    lines = [line.strip() for line in listed.splitlines() if line.strip()]
    assert lines
    for line in lines:
        words = shlex.split(line, comments=True)
        assert tuple(words[: 1 + len(command)]) == ("fedica", *command)
        parser = typer.main.get_command(app)
        for name in command:
            parser = parser.commands[name]
        parser.make_context(" ".join(command), words[1 + len(command) :])  # raises on an unknown option or bad value


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["demo", "--no-such-option"], "--no-such-option"),
        (["no-such-command"], "no-such-command"),
        (["demo", "--random-state", "many"], "--random-state"),
        (["demo", "--random-state", "-1"], "--random-state"),
        (["demo", "surplus"], "surplus"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments, complaint):
    """The complaint names what is wrong, on stderr; nothing on stdout."""
    result = run(*arguments)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (DataError("client 'a': data must be finite."), 1, "Error: client 'a': data must be finite.\n"),
        (MissingExtraError("install it."), 1, "Error: install it.\n"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "x.npy"),
            1,
            "Error: 'x.npy' cannot be used: No such file or directory.\n",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "Error: No space left on device.\n"),
        (MemoryError(), 1, "Error: not enough memory. Give less data at a time.\n"),
        (KeyboardInterrupt(), 130, "Error: stopped by Ctrl-C before it was done.\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_is_raised_becomes_one_sentence_and_an_exit_code(error, code, sentence):
    """One line on stderr, nothing on stdout."""
    result = CliRunner().invoke(failing_app(error), ["fail"])
    assert (result.exit_code, result.stderr, result.stdout) == (code, sentence, "")


def test_a_defect_of_our_own_is_one_sentence_and_with_verbose_a_traceback():
    """Nobody raised it on purpose: it can be reported, and does not frighten who only wanted a result."""
    program = failing_app(ZeroDivisionError("ours\x1b[2J"))
    program.registered_commands[0].context_settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    plain = CliRunner().invoke(program, ["fail"])
    assert (plain.exit_code, plain.stdout) == (1, "")
    assert plain.stderr == (
        "Error: something went wrong that fedica did not expect (ZeroDivisionError: ours\\x1b[2J). Please report it, "
        "with what --verbose prints.\n"
    )
    loud = CliRunner().invoke(program, ["fail", "--verbose"])
    assert loud.stderr.startswith("Traceback (most recent call last):\n")
    assert loud.stderr.endswith(plain.stderr)


def test_an_import_that_ctrl_c_breaks_is_no_defect():
    """Libraries turn an interrupted import into errors of their own."""
    broken = ImportError("numpy.core.multiarray failed to import")
    broken.__cause__ = KeyboardInterrupt()
    result = CliRunner().invoke(failing_app(broken), ["fail"])
    assert (result.exit_code, result.stderr) == (130, "Error: stopped by Ctrl-C before it was done.\n")


def test_ctrl_c_while_the_program_is_loaded_is_one_sentence():
    """Before there is any command that could catch it."""
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from fedica.program import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (130, "Error: stopped by Ctrl-C before it was done.\n")


@pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing(tmp_path, closed):
    """Started by a daemon without stdin, stdout or stderr: what is written is whole, and holds no message."""
    (tmp_path / "d.csv").write_text("a,b,id\n" + "".join(f"{x % 7},{x % 5},{x}\n" for x in range(200)))
    line = f"exec {shlex.join(PROGRAM)} local d.csv -o c.safetensors {closed}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert fedica.read_contribution(tmp_path / "c.safetensors").n_samples == 200


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_reader_that_leaves_ends_the_program_quietly():
    """``fedica ... | head``: no traceback, no complaint."""
    code = (
        "import typer, fedica.cli\n"
        "@fedica.cli.app.command()\n"
        "def flood():\n"
        "    while True: print('x' * 1000)\n"
        "import sys; sys.argv = ['fedica', 'flood']; fedica.cli.main()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(100)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=600) != 0


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_is_one_sentence_and_130(tmp_path):
    """A real interrupt in the middle of the demo."""
    attentive = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # ignored in background jobs
    holding = (
        "import fedica.simulate.demo as demo; "
        "demo.write_contribution = lambda *_: (print('writing', flush=True), signal.pause())"
    )
    program = [sys.executable, "-c", f"{attentive}; {holding}; from fedica.cli import main; main()"]
    process = subprocess.Popen(
        [*program, "demo", "-o", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=600)
    assert complaint == "Error: stopped by Ctrl-C before it was done.\n"
    assert process.returncode == 130


def test_warnings_are_sentences_too(monkeypatch, capsys):
    """No file name, no line of source code: the warning, on stderr."""
    monkeypatch.setattr(sys, "argv", ["fedica", "--version"])
    with warnings.catch_warnings():  # puts back what main sets for the process
        warnings.simplefilter("always")
        with pytest.raises(SystemExit):
            main()
        warnings.warn("channel 'Fz' is constant", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "Warning: channel 'Fz' is constant\n"


def test_tables_are_plain_where_no_terminal_is(capsys):
    """No colours and no cut cells in a pipe: every text stands there whole."""
    out = console()
    print_table(out, ["name", "<what", "number"], [["a" * 30, "b" * 30, "1"], ["c", "d", "22"]], strong=[0])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert re.search(rf"{'a' * 30} +{'b' * 30} +1 *\n +c +d +22 *\n", shown)


def test_names_are_not_markup(capsys):
    """A client called "[red]" or ":moon:" is printed as it is called."""
    out = console()
    print_table(out, ["client"], [["[red]a"], [":moon:"]])
    out.print("[bold]b")
    shown = capsys.readouterr().out
    assert "[red]a" in shown
    assert ":moon:" in shown
    assert "[bold]b" in shown


def test_examples_stay_on_their_own_lines():
    """The formatter must not join them to one paragraph."""
    program = typer.Typer()
    program.command(epilog=examples("one --a", "two --b"))(lambda: None)
    make_plain(program)
    assert "  Examples:\n    one --a\n    two --b\n" in CliRunner().invoke(program, ["--help"]).output


def test_help_names_every_method_and_affinity():
    """``fedica aggregate --help`` lists what the server declares, and its arguments once."""
    shown = "".join(CliRunner().invoke(app, ["aggregate", "--help"]).stdout.split())  # lines may end inside a name
    for *first, last in (METHOD_NAMES, AFFINITIES):
        assert f"{','.join(first)}or{last}" in shown
    assert shown.count("Contributions,orfoldersofthem.") == 1


@pytest.mark.parametrize(
    ("choice", "declared"),
    [
        (Independence, INDEPENDENCE),
        (Mixing, MIXING),
        (Declare, DECLARE_SAMPLES),
        (OtherPreprocessing, OTHER_PREPROCESSING),
        (FailOn, FAIL_ON),
        (PresetName, PRESETS),
    ],
)
def test_choices_are_those_of_the_library(choice, declared):
    """The program starts without the library, so it lists them itself; a message shows one as any other text."""
    assert [str(name) for name in choice] == list(declared)
    assert [repr(name) for name in choice] == [repr(name) for name in declared]


@pytest.mark.parametrize("command", ["local", "apply"])
def test_options_of_reading_are_those_of_the_library(command):
    """Every field of ReadOptions, with its help; but those that a study alone sets."""
    shown = " ".join(CliRunner().invoke(app, [command, "--help"]).stdout.split())
    for field in (field for field in fields(ReadOptions) if not field.metadata.get("hidden")):
        assert f"--{field.name.replace('_', '-')} " in shown
        assert field.metadata["help"] in shown


def test_help_names_every_solver():
    """``fedica local --help`` and a client's policy list the solvers that there are."""
    *first, last = SOLVERS
    named = f"{', '.join(first)} or {last}"
    shown = " ".join(CliRunner().invoke(app, ["local", "--help"]).stdout.split())
    assert named in shown
    policy = files("fedica").joinpath("flower", "templates", "policy.toml").read_text(encoding="utf-8")
    assert f"# {named}." in policy

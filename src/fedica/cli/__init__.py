"""The command line: each command parses, calls one function of the library, and prints.

Exit codes: 0 done; 1 the input was refused, with one clear sentence on stderr; 2 wrong usage; 3 done, but
the result is not to be relied on (``aggregate --fail-on``); 130 stopped by Ctrl-C.
A traceback is printed with --verbose alone, of an error that nobody expected.

Modules of commands import what they compute with inside the command, so that help is quick.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from fedica.cli.aggregate import aggregate
from fedica.cli.apply import apply
from fedica.cli.console import examples, make_plain
from fedica.cli.demo import demo
from fedica.cli.export import export
from fedica.cli.flower_client import app as flower
from fedica.cli.inspect import inspect
from fedica.cli.keygen import keygen
from fedica.cli.local import local
from fedica.cli.refine import refine
from fedica.cli.report import report
from fedica.cli.reproduce import app as reproduce
from fedica.cli.simulate import simulate
from fedica.cli.study import app as study
from fedica.errors import FedicaError
from fedica.text import MAX_SENTENCE, STOPPED, show_text, words_of_commands
from fedica.version import __version__


class CommandGroup(TyperGroup):
    """Commands whose expected errors are printed as one sentence, and set the exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        arguments = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            return super().invoke(ctx)
        except FedicaError as error:
            sentence, code = words_of_commands(str(error)), 1
        except BrokenPipeError:
            raise  # nobody reads the pipe any more; typer ends quietly
        except OSError as error:
            sentence, code = _file_error(error), 1
        except MemoryError as error:
            sentence, code = f"not enough memory{f': {error}' if str(error) else ''}. Give less data at a time.", 1
        except KeyboardInterrupt:
            sentence, code = STOPPED, 130
        except Exception as error:
            if type(error).__module__.startswith(("click.", "typer.")):
                raise  # wrong usage, or the end: typer says what is to be said
            sentence, code = _unexpected(error, verbose=bool({"--verbose", "-v"} & set(arguments)))
        typer.echo(f"Error: {show_text(sentence, MAX_SENTENCE)}", err=True)
        raise typer.Exit(code)


app = typer.Typer(
    name="fedica",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "fedica demo",
        "fedica local data.csv -o client-07.safetensors",
        "fedica aggregate inbox -o result",
        "fedica apply result/aggregate.safetensors data.csv -o sources.csv",
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedica {__version__}")
        raise typer.Exit


@app.callback()
def fedica(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """One-shot robust federated ICA: every client sends its atoms once; a minority of bad clients barely matters."""


EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {
    demo: ("fedica demo", "fedica demo -o harder --condition 4 --random-state 4"),
    local: (
        "fedica local data.csv -o client-07.safetensors",
        "fedica local data.csv --study study.json --key client-07.key -o client-07.safetensors",
        "fedica local data.npy --components 10 --client client-07 -o out.safetensors --dry-run",
    ),
    inspect: ("fedica inspect client-07.safetensors", "fedica inspect --json study.json"),
    aggregate: (
        "fedica aggregate inbox -o result --report",
        "fedica aggregate inbox --study study.json --trust-keys keys --require-all -o result",
        "fedica aggregate inbox --exclude client-07 --fail-on outlying -o without-07",
        "fedica aggregate inbox late/client-31.safetensors --like result -o result-2",
        "fedica aggregate second-inbox --refine result -o result-2",
    ),
    apply: (
        "fedica apply aggregate.safetensors data.csv -o sources.csv",
        "fedica apply aggregate.safetensors data.npy --study study.json -o sources.npy",
        "fedica apply result bold.nii.gz --mask mask.nii.gz --maps own.nii.gz -o timecourses.csv",
    ),
    refine: (
        "fedica refine aggregate.safetensors data.csv -o client-07.safetensors",
        "fedica refine aggregate.safetensors data.csv --study study.json --key client-07.key -o client-07.safetensors",
    ),
    export: (
        "fedica export result -o mixing.parquet",
        "fedica export result --like sub-01_eeg.edf -o group-ica.fif",
        "fedica export result --mask mask.nii.gz -o maps.nii.gz",
        "fedica export result -o derivatives/sub-01_task-rest_desc-ICA_mixing.tsv",
    ),
    report: ("fedica report result", "fedica report result -o page.html --figures figures --image 28x28"),
    keygen: ("fedica keygen client-07", "fedica keygen client-07 -o keys"),
    simulate: (
        "fedica simulate --list",
        "fedica simulate --attack flood-false --attack rotation:15 --share 0.1 --share 0.3",
        "fedica simulate --attack none --condition 1 --condition 4 --method srf-ica --trials 20 -o conditions",
        "fedica simulate --rounds 2 --clients 100 --samples 200 --law laplace --attack turned-data:5 -o second",
    ),
}
"""The commands, each with the examples that end its help."""

for command, lines in EXAMPLES.items():
    app.command(epilog=examples(*lines))(command)
app.add_typer(study, name="study")
app.add_typer(reproduce, name="reproduce")
app.add_typer(flower, name="flower")
make_plain(app)


def main() -> None:
    """Run the program ``fedica``."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows "?", never a traceback
    warnings.showwarning = _show_warning
    app(prog_name="fedica")


def _open_closed_streams() -> None:
    """Open what the caller closed of stdin, stdout and stderr: else a file would take its place, and its text."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _unexpected(error: Exception, *, verbose: bool) -> tuple[str, int]:
    """Return the sentence and the exit code of an error that nobody raised on purpose; print it whole if asked to."""
    if verbose:
        traceback.print_exception(error)
    if _interrupted(error):
        return STOPPED, 130
    return (
        f"something went wrong that fedica did not expect ({type(error).__name__}: {show_text(error)}). Please report "
        "it, with what --verbose prints."
    ), 1


def _interrupted(error: BaseException | None) -> bool:
    """Tell whether Ctrl-C is behind an error: an import that it interrupts fails with an error of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _file_error(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename!r} cannot be used: {reason}." if error.filename is not None else f"{reason}."


def _show_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    typer.echo(f"Warning: {show_text(words_of_commands(str(message)), MAX_SENTENCE)}", err=True)

"""What a command prints: for people, for programs, or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import typer
from typer import Option

from fedica.cli.console import console, print_table
from fedica.cli.options import bundled
from fedica.errors import OptionError
from fedica.progress import Telling, told_to
from fedica.text import MAX_PATH, MAX_SENTENCE, show_json, show_text


class Output:
    """What a command prints while it works and when it is done; its parameters are options of the command.

    Results go to stdout; notes and progress to stderr. On a terminal, progress is one line that is rewritten, between
    entering and leaving this context.

    Parameters
    ----------
    as_json : bool
        One JSON object on stdout, nothing else.
    verbose : bool
        Progress as lines on stderr.
    quiet : bool
        Nothing but errors.
    """

    def __init__(
        self,
        as_json: Annotated[bool, Option("--json", help="Print one JSON object instead of text.")] = False,
        verbose: Annotated[bool, Option("--verbose", "-v", help="Say on stderr what is being done.")] = False,
        quiet: Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    ) -> None:
        if quiet and (verbose or as_json):
            raise OptionError("--quiet cannot be combined with --verbose or --json.")
        self.as_json, self.verbose, self.quiet = as_json, verbose, quiet
        self._console = console()
        self._started = time.monotonic()
        self._stack = ExitStack()
        self._status: Any = None
        self._told: Telling | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not (self.quiet or self.verbose or self.as_json):
            self._status = self._stack.enter_context(self._console.status("starting"))
        if self._status is not None or self.verbose:
            self._told = self._stack.enter_context(told_to(self._show))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._status = self._told = None

    @property
    def may_ask(self) -> bool:
        """Whether a person is at the terminal to answer."""
        streams = (sys.stdin, sys.stderr)  # None, if the caller closed it
        return all(x is not None and x.isatty() for x in streams) and not (self.quiet or self.as_json)

    @property
    def bar(self) -> bool:
        """Whether a progress bar may be drawn."""
        return not (self.quiet or self.as_json)

    def progress(self, text: str) -> None:
        """Say what is being done; how much of it, and the time left, are told while it lasts."""
        if self._told is not None:
            self._told.begin(text)
        else:
            self._show(text)

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(show_text(text))
        elif self.verbose:
            typer.echo(f"{time.monotonic() - self._started:6.1f} s  {show_text(text)}", err=True)

    def ask(self, question: str) -> bool:
        """Ask the person at the terminal yes or no."""
        if self._status is not None:
            self._status.stop()
        answer = typer.confirm(show_text(question, MAX_SENTENCE), default=False, err=True)
        if self._status is not None:
            self._status.start()
        return answer

    def notes(self, notes: Iterable[str]) -> None:
        """Print notes on stderr; with --json they are part of the object."""
        if not (self.quiet or self.as_json):
            for note in notes:
                typer.echo(f"Note: {show_text(note[:1].upper() + note[1:], MAX_SENTENCE)}", err=True)

    def result(self, fields: dict[str, Any]) -> bool:
        """Print the JSON object if that is wanted; return whether text is wanted instead."""
        if self.as_json:
            typer.echo(show_json(json.dumps(fields, ensure_ascii=False, indent=2, allow_nan=False)))
        return not (self.as_json or self.quiet)

    def text(self, text: str) -> None:
        """Print sentences, wrapped to the width of the terminal."""
        self._console.print(show_text(text, MAX_SENTENCE))

    def lines(self, *lines: object) -> None:
        """Print lines as they are: a path or a command is never wrapped."""
        for line in lines:
            self._console.print(show_text(line, MAX_PATH), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, strong: Iterable[int] = ()) -> None:
        """Print a table; see `print_table`."""
        print_table(self._console, columns, rows, strong=strong)

    def measured(self, columns: Sequence[str], rows: Sequence[Sequence[str]], files: Sequence[Path], note: str) -> None:
        """Print a table of measurements and the files with them; `note`, unless empty, says why a file is missing."""
        notes = [note] if note else []
        self.notes(notes)
        names = [column.removeprefix("<") for column in columns]
        table = [dict(zip(names, row, strict=True)) for row in rows]
        if self.result({"table": table, "files": [str(path) for path in files], "notes": notes}):
            self.table(columns, rows)
            self.lines(*files)


with_output = bundled("out", Output, signature(Output, eval_str=True).parameters.values())

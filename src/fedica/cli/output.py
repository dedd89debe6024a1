"""How loud a command is: what it prints for people, for programs, or not at all."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import typer

from fedica.cli.console import console, print_table
from fedica.errors import OptionError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say on stderr what is being done.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


class Voice:
    """What a command says while it works and when it is done.

    Results go to stdout; notes and progress to stderr. On a terminal, progress is a line that comes and goes.

    Parameters
    ----------
    as_json : bool
        One JSON object on stdout, nothing else.
    verbose : bool
        Progress as lines on stderr.
    quiet : bool
        Nothing but errors.
    """

    def __init__(self, *, as_json: bool, verbose: bool, quiet: bool) -> None:
        if quiet and (verbose or as_json):
            raise OptionError("--quiet cannot be combined with --verbose or --json.")
        self.as_json, self.verbose, self.quiet = as_json, verbose, quiet
        self.out = console()
        self._started = time.monotonic()
        self._stack = ExitStack()
        self._status: Any = None

    def __enter__(self) -> Self:
        if self.out.is_terminal and not (self.quiet or self.verbose or self.as_json):
            self._status = self._stack.enter_context(self.out.status("starting"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._status = None

    @property
    def may_ask(self) -> bool:
        """Whether somebody is there to answer."""
        return sys.stdin.isatty() and sys.stderr.isatty() and not (self.quiet or self.as_json)

    def progress(self, text: str) -> None:
        """Say what is being done."""
        if self._status is not None:
            self._status.update(text)
        elif self.verbose:
            typer.echo(f"{time.monotonic() - self._started:6.1f} s  {text}", err=True)

    def ask(self, question: str) -> bool:
        """Ask somebody yes or no."""
        if self._status is not None:
            self._status.stop()
        answer = typer.confirm(question, default=False, err=True)
        if self._status is not None:
            self._status.start()
        return answer

    def notes(self, notes: Iterable[str]) -> None:
        """Say what was noticed; with --json the notes are part of the object."""
        if not (self.quiet or self.as_json):
            for note in notes:
                typer.echo(f"Note: {note[:1].upper()}{note[1:]}", err=True)

    def result(self, fields: dict[str, Any]) -> bool:
        """Print the JSON object if that is wanted; return whether text is wanted instead."""
        if self.as_json:
            typer.echo(json.dumps(fields, ensure_ascii=False, indent=2, allow_nan=False))
        return not (self.as_json or self.quiet)

    def table(self, headings: Sequence[str], lines: Sequence[Sequence[str]], files: Sequence[Path], lacks: str) -> None:
        """Print a table, and the files that hold it and its figures; `lacks` says why one is not there."""
        notes = [lacks] if lacks else []
        self.notes(notes)
        names = [heading.removeprefix("<") for heading in headings]
        table = [dict(zip(names, line, strict=True)) for line in lines]
        if self.result({"table": table, "files": [str(path) for path in files], "notes": notes}):
            print_table(self.out, headings, lines)
            for path in files:
                self.out.print(str(path), soft_wrap=True)

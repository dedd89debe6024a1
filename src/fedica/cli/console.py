"""What every command shares: examples in its help, tables on the screen, plain text anywhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from inspect import unwrap
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.core import TyperCommand

from fedica.text import MAX_SENTENCE, show_text

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
"""Characters per line when the output is not a terminal."""


class PlainCommand(TyperCommand):
    """A command whose help is plain and whole, whichever typer and click are installed.

    Typer before 0.21 escapes "[default: ...]" for rich even in plain help, and a newer click forgets the help that such
    a typer gives to arguments.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        hints = get_type_hints(unwrap(self.callback), include_extras=True) if self.callback is not None else {}
        for parameter in self.params:
            if getattr(parameter, "help", "") is None:
                infos = [x for x in getattr(hints.get(parameter.name or ""), "__metadata__", ()) if hasattr(x, "help")]
                vars(parameter)["help"] = infos[0].help if infos else None

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        """Leave out what a newer click lists on its own: typer lists the arguments, too."""

    def get_help(self, ctx: Any) -> str:
        """Return the help text."""
        for parameter in self.params:
            if getattr(parameter, "help", None):
                vars(parameter)["help"] = name_choices(vars(parameter)["help"])
        return super().get_help(ctx).replace("\\[", "[")


def name_choices(text: str) -> str:
    """Replace ``{fedica.local.SOLVERS}`` by the names declared there: "auto, l4 or picard".

    The library is imported when help is shown, not when the program starts: that takes long.
    """

    def names(found: re.Match[str]) -> str:
        *first, last = getattr(import_module(found[1]), found[2])
        return f"{', '.join(first)} or {last}"

    return re.sub(r"\{([\w.]+)\.(\w+)\}", names, text)


def make_plain(app: typer.Typer) -> None:
    """Give all commands registered so far plain help, which reads the same on a terminal, in a pipe and in the docs."""
    app.rich_markup_mode = None
    for command in app.registered_commands:
        command.cls = PlainCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            make_plain(group.typer_instance)


def examples(*commands: str) -> str:
    r"""Return the last part of a command's help: lines that can be copied and run.

    The mark ``\b`` tells the help's formatter not to join the lines.
    """
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def console() -> Console:
    """Return where a command prints: colours and the terminal's width on a terminal, plain text otherwise.

    The environment variable COLUMNS sets the width of either.
    """
    from rich.console import Console

    asked = os.environ.get("COLUMNS", "")
    width = int(asked) if asked.isdecimal() and int(asked) > 0 else None if Console().is_terminal else PLAIN_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)  # a client's name is never markup


def print_table(
    out: Console, columns: Sequence[str], rows: Iterable[Sequence[str]], *, strong: Iterable[int] = ()
) -> None:
    """Print a table; the first column is text, the others line up on the right.

    Parameters
    ----------
    out : rich.console.Console
        Where to print, from `console`.
    columns : sequence of str
        Headings. One that starts with "<" is a column of text, lined up on the left.
    rows : iterable of sequence of str
        One text per column; what is not printable in it is escaped, as in everything that a command prints.
    strong : iterable of int
        Numbers of the rows to print in bold.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for k, heading in enumerate(columns):
        text = k == 0 or heading.startswith("<")
        table.add_column(heading.removeprefix("<"), justify="left" if text else "right", overflow="fold")
    stressed = set(strong)
    for k, row in enumerate(rows):
        table.add_row(*(show_text(cell, MAX_SENTENCE) for cell in row), style="bold" if k in stressed else None)
    out.print(table)

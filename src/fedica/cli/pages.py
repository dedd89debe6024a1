"""docs/cli.md, made from the commands themselves: ``python -m fedica.cli.pages > docs/cli.md``."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import typer

from fedica.cli.console import name_choices

HEAD = """# The commands

This page is made from the commands by `python -m fedica.cli.pages > docs/cli.md`; a test checks that it is up to date.

Exit codes: 0 done; 1 the input was refused, or something unexpected happened (`--verbose` then prints the traceback),
with one sentence on stderr; 2 wrong usage; 3 done, but the result is not to be relied on (`fedica aggregate
--fail-on`); 130 stopped by Ctrl-C.
Results go to stdout, notes and progress to stderr. `fedica --install-completion` sets up completion for your shell.
"""


def cli_page() -> str:
    """Return the page: for every command what it does, its arguments, options and examples."""
    from fedica.cli import app

    parts = [HEAD]
    for words, command in _commands(typer.main.get_command(app), ()):
        parts.append(_section(words, command))
    return "\n".join(parts)


def _commands(group: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, command in sorted(group.commands.items()):
        deeper = hasattr(command, "commands")
        found += _commands(command, (*path, name)) if deeper else [((*path, name), command)]
    return found


def _section(words: tuple[str, ...], command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help" and not p.hidden]
    usage = " ".join(["fedica", *words, "[OPTIONS]", *(str(p.metavar) for p in arguments)])
    lines = [f"## fedica {' '.join(words)}", "", "```", usage, "```", "", inspect.cleandoc(command.help or ""), ""]
    rows = [(f"`{p.metavar}`", _help(p)) for p in arguments]
    rows += [(f"`{', '.join(p.opts)}`" + _takes(p), _help(p)) for p in options]
    lines += ["| | |", "| --- | --- |", *(f"| {_cell(left)} | {_cell(right)} |" for left, right in rows), ""]
    examples = [line.strip() for line in (command.epilog or "").splitlines()[2:]]
    return "\n".join([*lines, "```", *examples, "```", ""])


def _takes(option: Any) -> str:
    if option.is_flag:
        return ""
    choices = getattr(option.type, "choices", None)
    what = "|".join(str(getattr(choice, "value", choice)) for choice in choices) if choices else option.metavar
    return f" `{what or option.type.name.upper()}`"


def _help(parameter: Any) -> str:
    text = name_choices(parameter.help or "")
    default = parameter.default
    if parameter.required:
        return f"{text} Required."
    if default is None or isinstance(default, bool) or default == [] or callable(default):
        return text
    shown = ", ".join(map(str, default)) if isinstance(default, list | tuple) else getattr(default, "value", default)
    return f"{text} Default: `{shown}`."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(cli_page())

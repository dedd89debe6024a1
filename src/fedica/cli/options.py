"""Options that several commands share, each declared once: names to choose from, and how data is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

from typer import Option

from fedica.errors import InputError
from fedica.formats import READERS, ReadOptions

Command = Callable[..., None]

DATA = (
    f"The data: a table, an array, EEG, MEG, fMRI or AnnData, of a format that its suffix tells: {', '.join(READERS)}."
)


def option(metavar: str, help_text: str, *names: str, **limits: Any) -> Any:
    """Return an option with a value; its names are made from the parameter's unless some are given."""
    if "--output" in names:
        limits["callback"] = _no_stdout
    return Option(*names, metavar=metavar, help=help_text, **limits)


def _no_stdout(output: Any) -> Any:
    """Refuse ``-o -``, which elsewhere means stdout and here would be a file of that name."""
    if str(output) == "-":
        raise InputError("-: results are written to files, not to stdout. Give the name of a file.")
    return output


class Choice(StrEnum):
    """Names to choose from: a member is a str, and is shown as one in messages."""

    def __repr__(self) -> str:
        return repr(str(self))


def bundled(name: str, make: Callable[..., Any], options: Iterable[Parameter]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command some options in place of its parameter `name`.

    Parameters
    ----------
    name : str
        A parameter of the command.
    make : callable
        Called with the values of the options; what it returns is passed as `name`.
    options : iterable of inspect.Parameter
        The options, annotated as typer reads them.
    """
    added = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**values: Any) -> None:
            made = make(**{option.name: values.pop(option.name) for option in added})
            command(**{name: made}, **values)

        own = signature(command, eval_str=True).parameters.values()
        shown = [option for old in own for option in (added if old.name == name else [old])]
        vars(run)["__signature__"] = Signature(shown)
        return run

    return decorate


def options_of(record: type[Any]) -> list[Parameter]:
    """Return the fields of a dataclass as options: its types, defaults, and the help in each field's metadata."""
    types = get_type_hints(record)
    return [_option(item, types[item.name]) for item in fields(record)]


def _option(item: Field[Any], kind: Any) -> Parameter:
    about = dict(item.metadata)
    if choices := about.pop("choices", ()):
        kind = Choice(item.name, [(choice, choice) for choice in choices])  # type: ignore[call-arg]
    turns_on = [f"--{item.name.replace('_', '-')}"] if item.default is False else []  # and no option to turn it off
    annotation = Annotated[kind, Option(*turns_on, **about)]
    return Parameter(item.name, Parameter.KEYWORD_ONLY, default=item.default, annotation=annotation)


class Independence(Choice):
    """Over what sources are independent."""

    samples = "samples"
    features = "features"


class Mixing(Choice):
    """What is known of the mixing matrix."""

    general = "general"
    orthogonal = "orthogonal"


with_read_options = bundled("options", ReadOptions, options_of(ReadOptions))

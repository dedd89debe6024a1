"""Every error that fedica raises on purpose, as one tree.

::

    FedicaError                      one clear sentence: who, what was expected, what was got, what to do
    ├── InputError (ValueError)      what was given cannot be used
    │   ├── DataError                a client's data: not finite, constant, too few samples, rank too low
    │   ├── ContributionError        one client's contribution; ``.client`` names it
    │   ├── PolicyError              a client's own rules do not allow what was asked for
    │   ├── OptionError              an argument: an unknown name, a number out of range
    │   └── FormatError              a file that is not what it should be
    ├── GroupingError (ValueError)   the atoms do not form the groups that were asked for
    ├── FetchError                   a data set cannot be downloaded
    └── MissingExtraError (ImportError)   an optional part is not installed; says how to install it

The command line turns each of them into its sentence and exit code 1. Programs read ``.kind`` and ``.numbers``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedica.text import MAX_SENTENCE, show_text


class _Told(Exception):  # noqa: N818 - an error or a warning
    """A sentence for people; for programs the kind, in a word that does not change with the sentence, and its numbers.

    The kind is by default that of the class; the numbers are what the sentence says, by name. What the sentence quotes
    from files cannot make it more than one printable line of bounded length.
    """

    kind: str = ""
    numbers: Mapping[str, Any]

    def __init__(self, message: str = "", *, kind: str = "", numbers: Mapping[str, Any] | None = None) -> None:
        super().__init__(show_text(message, MAX_SENTENCE))
        self.kind = kind or type(self).kind
        self.numbers = dict(numbers or {})


class FedicaError(_Told):
    """Base of all errors raised on purpose."""


class DataWarning(_Told, UserWarning):
    """A client's data can be fitted, but something in it should be known."""


class InputError(FedicaError, ValueError):
    """What was given cannot be used."""


class DataError(InputError):
    """A client's data cannot be fitted."""

    kind = "unusable-data"


class ContributionError(InputError):
    """One client's contribution cannot be used; ``client`` is the client that sent it."""

    kind = "unusable-contribution"

    def __init__(self, message: str, client: str, *, kind: str = "", numbers: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, kind=kind, numbers=numbers)
        self.client = client

    def __reduce__(self) -> tuple[type[ContributionError], tuple[str, str], dict[str, Any]]:
        return type(self), (str(self), self.client), self.__dict__  # survives the trip between worker processes


class PolicyError(InputError):
    """A client's own rules do not allow what was asked for."""

    kind = "policy"


class OptionError(InputError):
    """An argument has an unknown name or a value out of range."""


class FormatError(InputError):
    """A file is not what it should be."""

    kind = "unreadable-file"


class GroupingError(FedicaError, ValueError):
    """The atoms do not form the groups that were asked for."""


class FetchError(FedicaError):
    """A data set cannot be downloaded."""


class MissingExtraError(FedicaError, ImportError):
    """An optional part of fedica is not installed."""

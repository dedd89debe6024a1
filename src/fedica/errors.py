"""Every error that fedica raises on purpose, as one tree.

::

    FedicaError                      one clear sentence: who, what was wanted, what came, what to do
    ├── InputError (ValueError)      what was given cannot be used
    │   ├── DataError                a client's data: not finite, constant, too few samples, rank too low
    │   ├── ContributionError        one client's contribution; ``.client`` names it
    │   ├── PolicyError              a client's own rules do not allow what was asked for
    │   ├── OptionError              an argument: an unknown name, a number out of range
    │   └── FormatError              a file that is not what it should be
    ├── GroupingError (ValueError)   the atoms do not form the groups that were asked for
    ├── FetchError                   a data set cannot be downloaded
    └── MissingExtraError (ImportError)   an optional part is not installed; says how to install it

The command line turns each of them into its sentence and exit code 1.
"""

from __future__ import annotations


class FedicaError(Exception):
    """Base of all errors raised on purpose."""


class InputError(FedicaError, ValueError):
    """What was given cannot be used."""


class DataError(InputError):
    """A client's data cannot be fitted."""


class ContributionError(InputError):
    """One client's contribution cannot be used.

    Parameters
    ----------
    message : str
        The whole sentence.
    client : str
        The client that sent it.
    """

    def __init__(self, message: str, client: str) -> None:
        super().__init__(message)
        self.client = client

    def __reduce__(self) -> tuple[type[ContributionError], tuple[str, str]]:
        return type(self), (str(self), self.client)  # survives the trip between worker processes


class PolicyError(InputError):
    """A client's own rules do not allow what was asked for."""


class OptionError(InputError):
    """An argument has an unknown name or a value out of range."""


class FormatError(InputError):
    """A file is not what it should be."""


class GroupingError(FedicaError, ValueError):
    """The atoms do not form the groups that were asked for."""


class FetchError(FedicaError):
    """A data set cannot be downloaded."""


class MissingExtraError(FedicaError, ImportError):
    """An optional part of fedica is not installed."""

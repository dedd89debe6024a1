"""The coordinator's mailbox: contributions from files and folders, one bad file never stops the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from fedica.arrays import PathLike
from fedica.errors import ContributionError, FedicaError, InputError
from fedica.exchange.contributions import Received, receive
from fedica.exchange.files import real_path
from fedica.exchange.signatures import TrustedKeys
from fedica.progress import counting
from fedica.records import Rejection

SUFFIX = ".safetensors"
UNKNOWN_CLIENT = "(unknown)"
Message = TypeVar("Message")


def read_contributions(
    paths: PathLike | Iterable[PathLike], *, trusted: TrustedKeys | None = None
) -> Iterator[Received | Rejection]:
    """Read contributions one by one: each gives what was received, or a rejection that says why.

    Parameters
    ----------
    paths : path-like or iterable of path-like
        Files, and folders whose ``*.safetensors`` files are read in the order of their names (hidden files are left
        out). A file that is named twice is read once.
    trusted : TrustedKeys, optional
        As for `read_contribution`.

    Returns
    -------
    iterator of Received or Rejection
        A rejection whose client is not known names ``(unknown)``; its source is always the path.
    """
    return read_each(paths, lambda file: receive(file, trusted=trusted))


def read_each(paths: PathLike | Iterable[PathLike], read: Callable[[Path], Message]) -> Iterator[Message | Rejection]:
    """Read files, and the ``*.safetensors`` files of folders, one by one; what one raises becomes a rejection."""
    seen: set[Path] = set()
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    files = [file for path in given for file in _files(Path(path))]
    for file in counting(files, len(files)):
        if isinstance(file, Rejection):
            yield file
        elif (place := _place(file)) not in seen:
            seen.add(place)
            yield _read_one(file, read)


def _files(path: Path) -> Iterator[Path | Rejection]:
    try:
        if not path.is_dir():
            yield path
            return
        files = sorted(p for p in path.iterdir() if p.suffix == SUFFIX and not p.name.startswith("."))
    except (OSError, ValueError) as error:
        yield Rejection.because(UNKNOWN_CLIENT, "unreadable-folder", str(path), path=str(path), problem=str(error))
        return
    if not files:
        yield Rejection.because(UNKNOWN_CLIENT, "empty-folder", str(path), path=str(path), suffix=SUFFIX)
    yield from files


def _place(file: Path) -> Path:
    try:
        return real_path(file)
    except InputError:
        return file  # reading it will say what is wrong


def _read_one(file: Path, read: Callable[[Path], Message]) -> Message | Rejection:
    try:
        return read(file)
    except FedicaError as error:
        client = error.client if isinstance(error, ContributionError) else UNKNOWN_CLIENT
        return Rejection.of_error(client, error, str(file))

"""A folder that exports of data are put into: a run uses the newest of them that is finished."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fedica.errors import DataError, InputError
from fedica.exchange.files import PRIVATE, make_private_folder, write_atomic
from fedica.flower.policy import Node
from fedica.readers import READERS, suffix_of


class _File(NamedTuple):
    """A file as it is now; files are ordered by the time of their last change, then by name."""

    changed: int  # in nanoseconds
    name: str
    size: int


@contextmanager
def data_of_run(node: Node, run_id: int, seconds: float) -> Iterator[Node]:
    """Give the settings of a node with one file of its watched folder, the same one for all messages of a run.

    Whatever was computed from a file that changed meanwhile is thrown away. A node whose data is no watched folder is
    given as it is. seconds : as for `newest_finished`.
    """
    if not is_watched(node.data):
        yield node
        return
    chosen = node.output / ".runs" / f"{run_id}.data"
    if chosen.exists():
        data = node.data / chosen.read_text(encoding="utf-8")
    else:
        data = newest_finished(node.data, seconds)
        make_private_folder(chosen.parent)
        write_atomic(chosen, [data.name.encode()], mode=PRIVATE)
    before = _state(data)
    yield replace(node, data=data)
    if _state(data) != before:
        raise DataError(f"{data}: the file changed while it was read.")


def is_watched(data: Path) -> bool:
    """Whether the data is a folder of files, not a file or a folder that is one recording."""
    return data.is_dir() and suffix_of(data) not in READERS


def newest_finished(folder: Path, seconds: float) -> Path:
    """Return the newest data file of a folder, as soon as it has not changed for so many seconds.

    Names that begin with a dot and files of other kinds are passed over: programs that copy use such names.
    """
    newest = _newest(folder)
    while time.time() - newest.changed / 1e9 < seconds:  # clocks of file servers differ: it is looked at again, too
        time.sleep(seconds)
        before, newest = newest, _newest(folder)
        if newest == before:
            break
    return folder / newest.name


def _newest(folder: Path) -> _File:
    names = [path for path in folder.iterdir() if suffix_of(path) in READERS and not path.name.startswith(".")]
    if not names:
        raise InputError(f"{folder}: a watched folder must hold a data file ({', '.join(READERS)}); got none.")
    return max(_state(path) for path in names)


def _state(path: Path) -> _File:
    status = path.stat()
    return _File(status.st_mtime_ns, path.name, status.st_size)

"""A gate at the client: what would leave waits in a folder until a person says yes or no.

``approve = "ask"`` in the policy turns it on. The message and a page that says what is in it stand in the folder
``waiting`` of the client's output; ``fedica flower approve`` answers. Without an answer nothing leaves, and the request
ends with the run's deadline.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from fedica.errors import InputError, PolicyError
from fedica.exchange.files import PRIVATE, cannot_write, make_private_folder, write_atomic, write_new
from fedica.exchange.intake import SUFFIX

_POLL = 0.5
_YES, _NO = ".yes", ".no"


def wait_for_approval(output: Path, name: str, data: bytes, page: Iterable[str]) -> None:
    """Return when a person has said yes to sending these bytes; refuse to send if the answer is no.

    output : the client's output folder. name : that of the message, such as ``run-7-contribution``. page : lines that
    say what the message holds.
    """
    folder = output / "waiting"
    make_private_folder(folder)
    files = {suffix: folder / f"{name}{suffix}" for suffix in (SUFFIX, ".txt", _YES, _NO)}
    write_atomic(files[SUFFIX], [data], mode=PRIVATE)
    write_atomic(files[".txt"], ["\n".join([*page, ""]).encode()], mode=PRIVATE)
    try:
        while not files[_YES].exists():
            if files[_NO].exists():
                raise PolicyError(f"a person at this client said no to sending {name}.")
            time.sleep(_POLL)
    finally:
        for path in files.values():
            path.unlink(missing_ok=True)


def list_waiting(output: Path, name: str = "") -> dict[str, str]:
    """Return the page of every message that waits, by its name, or of the one that is named."""
    paths = {path.stem: path for path in sorted((output / "waiting").glob("*.txt")) if not path.name.startswith(".")}
    if name and name not in paths:
        raise InputError(f"{output}: {name!r} does not wait for an answer; waiting: {', '.join(paths) or 'nothing'}.")
    return {stem: path.read_text(encoding="utf-8") for stem, path in paths.items() if name in ("", stem)}


def answer_waiting(output: Path, name: str, *, yes: bool) -> None:
    """Let a waiting message leave, or refuse it."""
    list_waiting(output, name)
    try:
        write_new(output / "waiting" / f"{name}{_YES if yes else _NO}", [b""], mode=PRIVATE)
    except OSError as error:  # also FileExistsError: it was answered a moment ago
        raise cannot_write(output / "waiting", error) from error

"""Replace a whole folder, or leave it: what stands under its name is never half of anything.

A new folder is made beside the old one, ``.NAME.fedica-new-*``, flushed to disk, and renamed into place. No portable
system call swaps two folders, so an old one first moves aside to ``.NAME.fedica-old``, and is deleted when the new one
stands. Killed at any moment, this leaves under ``NAME`` nothing, the old folder whole, or the new one whole; if it was
killed between the two renames, the next writer first moves the old one back.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from fedica.arrays import PathLike
from fedica.errors import InputError
from fedica.exchange.files import PRIVATE, cannot_write, real_path, sync_folder, write_new
from fedica.text import list_names

ABANDONED_SECONDS = 3600.0
"""Folders of an interrupted writer are deleted when they are older than this: a live writer needs seconds."""
_SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})


def replace_folder(
    folder: PathLike,
    contents: Mapping[str, Iterable[bytes | memoryview]],
    own_names: Collection[str],
    public: Collection[str] = (),
) -> None:
    """Make ``folder`` hold exactly these files, all of them or none.

    Parameters
    ----------
    folder : path-like
        Absent, empty, or holding nothing but ``own_names``; anything else would be lost, so it is refused.
    contents : mapping of str to iterable of bytes
        Each file's name and content, in chunks.
    own_names : collection of str
        The names that may be replaced.
    public : collection of str
        The files that others may read, as far as the user's umask allows; all others are their owner's alone.
    """
    target = real_path(folder)
    removable = _SYSTEM_FILES | set(own_names)
    _check_replaceable(target, removable)
    fresh = _beside(target, "new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _tidy(target, removable)
        try:
            fresh.mkdir()
            for name, chunks in contents.items():
                write_new(fresh / name, chunks, mode=0o666 if name in public else PRIVATE)
            sync_folder(fresh)
            _swap(fresh, target, removable)
        except BaseException:
            _remove(fresh, removable)
            raise
    except OSError as error:
        raise cannot_write(target, error) from error


def aside_of(folder: PathLike) -> Path:
    """Return where an old folder stands while it is being replaced."""
    target = real_path(folder)
    return target.with_name(f".{target.name}.fedica-old")


def _check_replaceable(target: Path, removable: Collection[str]) -> None:
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise InputError(f"{target}: expected a folder; there is a file of this name. Choose another name.")
    if os.path.ismount(target) or os.path.samefile(target, os.curdir):
        raise InputError(
            f"{target}: the folder is replaced as a whole, which cannot be done to the current folder or to a mount "
            f"point. Choose a folder inside it: {target / 'result'}"
        )
    try:
        others = sorted(set(os.listdir(target)) - set(removable))
    except OSError as error:
        raise cannot_write(target, error) from error
    if others:
        raise InputError(
            f"{target}: the folder is replaced as a whole, and it holds {list_names(others, 1)}, which would be lost. "
            "Choose another folder."
        )


def _swap(fresh: Path, target: Path, removable: Collection[str]) -> None:
    aside = aside_of(target)
    moved = target.exists()
    if moved:
        os.rename(target, aside)
    try:
        os.rename(fresh, target)
    except OSError:
        if moved:
            with contextlib.suppress(OSError):  # somebody else put a whole folder there meanwhile
                os.rename(aside, target)
        raise
    sync_folder(target.parent)
    if moved:
        _discard(aside, target, removable)


def _tidy(target: Path, removable: Collection[str]) -> None:
    """Finish what an interrupted writer left: bring the old folder back, or delete what nobody needs."""
    aside = aside_of(target)
    if aside.is_dir():
        if target.exists():
            _discard(aside, target, removable)
        else:
            os.rename(aside, target)
    prefixes = tuple(_beside(target, state).name[:-12] for state in ("new", "dead"))
    for path in target.parent.iterdir():
        if path.name.startswith(prefixes):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    _remove(path, removable)


def _discard(aside: Path, target: Path, removable: Collection[str]) -> None:
    """Delete the old folder, under another name first: half of it must never be taken for a result."""
    dead = _beside(target, "dead")
    with contextlib.suppress(OSError):
        os.rename(aside, dead)
        _remove(dead, removable)


def _beside(target: Path, state: str) -> Path:
    return target.with_name(f".{target.name}.fedica-{state}-{secrets.token_hex(6)}")


def _remove(folder: Path, removable: Collection[str]) -> None:
    """Delete the files that are ours and the folder; a stranger's file keeps it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name in removable:
                os.unlink(folder / name)
        os.rmdir(folder)

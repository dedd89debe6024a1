"""Folders of a BIDS data set -> the recordings in them, and which subjects they are of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fedica.arrays import PathLike
from fedica.errors import FormatError, InputError
from fedica.formats import READERS
from fedica.readers.registry import suffix_of

RECORDINGS = ("eeg", "ieeg", "meg", "bold")
"""Last words of the names of files that hold data; others (events, channels, confounds) describe them."""
_SUBJECT = re.compile(r"sub-[A-Za-z0-9+]+")


def bids_recordings(folders: Sequence[PathLike]) -> tuple[list[Path], frozenset[str]]:
    """Return the recordings below folders of a BIDS data set, sorted, and the subjects they are of.

    Parameters
    ----------
    folders : sequence of path-like
        Folders of subjects, ``sub-01``, or of a whole data set; its derivatives are not looked into unless they are
        given themselves.

    Raises
    ------
    FormatError
        If a folder holds no recording that can be read.
    """
    found: list[Path] = []
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise InputError(f"{folder}: fedica local --bids expects folders, such as sub-01; this is none.")
        files = sorted(path for path in folder.rglob("sub-*") if _is_recording(path.relative_to(folder)))
        if not files:
            raise FormatError(
                f"{folder}: there is no recording of BIDS in it: a file sub-*_eeg, _ieeg, _meg or _bold of a format "
                "that can be read."
            )
        found += files
    return found, frozenset(match[0] for path in found if (match := _SUBJECT.match(path.name)))


def _is_recording(path: Path) -> bool:
    """Whether a path below a folder is that of data, and not of a derivative."""
    suffix = suffix_of(path)
    stem = path.name.removesuffix(suffix)
    return suffix in READERS and stem.rpartition("_")[2] in RECORDINGS and "derivatives" not in path.parts

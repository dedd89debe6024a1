"""Arrays that numpy saved: mapped, not loaded; nothing in them is ever executed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedica.errors import DataError, FormatError
from fedica.formats import ReadOptions
from fedica.npy import map_npy, read_npz_array
from fedica.readers.sheet import Sheet
from fedica.text import list_names

_DAMAGED = (ValueError, TypeError, OSError, OverflowError, EOFError)
_DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
_DATA_NAMES = ("X", "x", "data")
FEATURE_NAMES = ("features", "feature_names", "columns", "channels")
"""Names of the array with the names of the columns."""


def read_npy(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read one array of shape (n_samples, n_features); it stays on the disk until it is used."""
    try:
        if _starts_with(path, b"PK"):
            raise FormatError(f"{path}: it is an archive of several arrays; give it the suffix .npz.")
        array = map_npy(path)
    except FormatError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{path}: it is not an array that numpy saved ({_short(error)}).") from error
    return array_sheet(array, None, path)


def read_npz(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the array called ``X`` or ``data``, or the only table; names from ``features`` if they are there."""
    try:
        if _starts_with(path, b"\x93NUMPY"):
            raise FormatError(f"{path}: it is one array; give it the suffix .npy.")
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            chosen = choose_array(names, path)
            features = next((read_npz_array(archive, name) for name in FEATURE_NAMES if name in names), None)
            array = read_npz_array(archive, chosen)
    except FormatError:
        raise
    except _DAMAGED as error:
        raise FormatError(f"{path}: it is not an archive that numpy saved ({_short(error)}).") from error
    except _DAMAGED_ARCHIVE as error:
        raise FormatError(f"{path}: the archive is damaged ({_short(error)}).") from error
    return array_sheet(array, features, path, unread=unread_arrays(names, chosen))


def _starts_with(path: Path, start: bytes) -> bool:
    with open(path, "rb") as stream:
        return stream.read(len(start)) == start


def choose_array(names: Sequence[str], path: Path) -> str:
    """Return the name of the array that is the data."""
    tables = [name for name in names if name not in FEATURE_NAMES]
    chosen = [name for name in _DATA_NAMES if name in names] or (tables if len(tables) == 1 else [])
    if not chosen:
        raise FormatError(
            f"{path}: one array called 'X' or 'data' was expected, got {list_names(names, 10) or 'none'}. Save the "
            "data alone, or under one of these names."
        )
    return chosen[0]


def unread_arrays(names: Sequence[str], chosen: str) -> tuple[str, ...]:
    """Return a note on arrays that are neither the data nor the names of its columns, if there are any."""
    others = [name for name in names if name not in (chosen, *FEATURE_NAMES)]
    return (f"{chosen!r} was read as the data; not used: {list_names(others)}.",) if others else ()


def array_sheet(
    array: NDArray[Any], features: NDArray[Any] | None, path: Path, *, unread: tuple[str, ...] = ()
) -> Sheet:
    """Return a sheet of an array (n_samples, n_features), with the names of its columns if there are any."""
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: data must be real numbers, got an array of {array.dtype!s:.60}.")
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"{path}: data must have shape (n_samples, n_features), neither of them zero; got {array.shape}."
        )
    if features is None:
        return Sheet(array, None, {}, unread)
    if features.dtype.kind != "U" or features.shape != (array.shape[1],):
        raise DataError(
            f"{path}: the names of the features must be {array.shape[1]} texts, got an array of "
            f"{features.dtype!s:.60} of shape {features.shape}."
        )
    return Sheet(array, tuple(map(str, features)), {}, unread)


def _short(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0][:150] or type(error).__name__

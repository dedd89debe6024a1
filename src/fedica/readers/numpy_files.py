"""Arrays that numpy saved: mapped, not loaded; nothing in them is ever executed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import DataError, FormatError
from fedica.read_options import ReadOptions
from fedica.readers.sheet import Sheet

_BROKEN = (ValueError, EOFError, OSError, SyntaxError, TypeError, KeyError, OverflowError)
"""What numpy raises on a file that is not what it should be."""
_DATA_NAMES = ("X", "x", "data")
_FEATURE_NAMES = ("features", "feature_names", "columns", "channels")


def read_npy(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read one array of shape (n_samples, n_features); it stays on the disk until it is used."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (*_BROKEN, zipfile.BadZipFile) as error:
        raise FormatError(f"{path}: it is not an array that numpy saved ({_short(error)}).") from error
    if not isinstance(array, np.ndarray):
        raise FormatError(f"{path}: it is an archive of several arrays; give it the suffix .npz.")
    return _sheet(array, None, path)


def read_npz(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the array called ``X`` or ``data``, or the only table; names from ``features`` if they are there."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if isinstance(archive, np.ndarray):
                raise FormatError(f"{path}: it is one array; give it the suffix .npy.")
            names = list(archive.files)
            tables = [name for name in names if name not in _FEATURE_NAMES]
            chosen = next((name for name in _DATA_NAMES if name in names), tables[0] if len(tables) == 1 else None)
            if chosen is None:
                raise FormatError(
                    f"{path}: one array called 'X' or 'data' was wanted; {', '.join(map(repr, names[:10])) or 'none'} "
                    "came. Save the data alone, or under one of these names."
                )
            features = next((archive[name] for name in _FEATURE_NAMES if name in names), None)
            return _sheet(archive[chosen], features, path)
    except FormatError:
        raise
    except _BROKEN as error:
        raise FormatError(f"{path}: it is not an archive that numpy saved ({_short(error)}).") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise FormatError(f"{path}: the archive is damaged ({_short(error)}).") from error


def _sheet(array: NDArray[Any], features: NDArray[Any] | None, path: Path) -> Sheet:
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: data must be real numbers; an array of {array.dtype!s:.60} came.")
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"{path}: data must have shape (n_samples, n_features), neither of them zero; {array.shape} came."
        )
    names = None
    if features is not None:
        if features.dtype.kind != "U" or features.shape != (array.shape[1],):
            raise DataError(
                f"{path}: the names of the features must be {array.shape[1]} texts; an array of "
                f"{features.dtype!s:.60} of shape {features.shape} came."
            )
        names = tuple(map(str, features))
    return Sheet(array, names, {})


def _short(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0][:150] or type(error).__name__

"""MATLAB's files up to version 7: one table of numbers, and the names of its columns if they are there."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import DataError, FormatError
from fedica.formats import ReadOptions
from fedica.progress import Progress
from fedica.readers.numpy_files import FEATURE_NAMES, array_sheet, choose_array, unread_arrays
from fedica.readers.sheet import Sheet

_NEWER = b"MATLAB 7.3"
_DAMAGED = (ValueError, TypeError, KeyError, IndexError, OSError, OverflowError, EOFError, zlib.error, MemoryError)


def read_mat(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the variable called ``X`` or ``data``, or the only table; names from ``channels`` or ``features``."""
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 - it takes a while to load
    from scipy.io.matlab import MatReadError  # noqa: PLC0415

    with open(path, "rb") as stream:
        if stream.read(len(_NEWER)) == _NEWER:
            raise FormatError(f"{path}: it is of MATLAB's version 7.3. Save it again with save(..., '-v7').")
    try:
        tables = [name for name, shape, _ in whosmat(str(path)) if max(shape, default=0) > 1]
        chosen = choose_array(tables, path)
        names = next((name for name in FEATURE_NAMES if name in tables), None)
        wanted = [chosen] if names is None else [chosen, names]
        with _ToldFile(path) as file:
            found = loadmat(file, variable_names=wanted)  # type: ignore[arg-type]  # stubs: paths alone
    except FormatError:
        raise
    except (MatReadError, NotImplementedError, *_DAMAGED) as error:
        reason = " ".join(str(error).split())[:150] or type(error).__name__
        raise FormatError(f"{path}: it is not a file that MATLAB saved ({reason}).") from error
    if not isinstance(found[chosen], np.ndarray):
        raise DataError(f"{path}: {chosen!r} must be a full matrix of numbers; got {type(found[chosen]).__name__}.")
    features = None if names is None else _texts(found[names])
    return array_sheet(found[chosen], features, path, unread=unread_arrays(tables, chosen))


class _ToldFile(io.BufferedReader):
    """A file that tells how much of it has been read; what MATLAB compresses is read block by block."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._progress = Progress(path.stat().st_size, f"reading {path}")

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes, or all that are left."""
        found = super().read(size)
        self._progress.done(self.tell())
        return found


def _texts(cells: NDArray[Any]) -> NDArray[np.str_]:
    """Return the texts of a cell array, or the rows of an array of characters, one per feature."""
    texts = [cell[0] if isinstance(cell, np.ndarray) and cell.size == 1 else cell for cell in cells.ravel()]
    return np.array([str(text).strip() for text in texts])

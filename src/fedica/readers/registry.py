"""One function that reads any file that people have; a format is one entry of a table."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedica.errors import FormatError, InputError
from fedica.readers.delimited import read_delimited
from fedica.readers.numpy_files import read_npy, read_npz
from fedica.readers.parquet import read_parquet
from fedica.readers.select import Keep, choose_columns, drop_or_refuse_missing
from fedica.readers.sheet import Sheet, Table

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Reader:
    """How one format is read.

    Parameters
    ----------
    read : callable
        From the file and the names of the wanted columns (``None``: all) to a sheet.
    what : str
        The format, in words.
    """

    read: Callable[[Path, Sequence[str] | None], Sheet]
    what: str


# A new format is one line here: its suffix, a function, and what it is.
READERS: dict[str, Reader] = {
    ".npy": Reader(read_npy, "numpy array"),
    ".npz": Reader(read_npz, "numpy archive"),
    ".csv": Reader(read_delimited, "text table"),
    ".tsv": Reader(read_delimited, "text table"),
    ".txt": Reader(read_delimited, "text table"),
    ".parquet": Reader(read_parquet, "parquet table"),
}


def read_data(
    path: PathLike,
    *,
    columns: Sequence[str] | None = None,
    lacking_ok: bool = False,
    drop_missing: bool = False,
    keep: Keep | None = None,
) -> Table:
    """Read a client's data: finite numbers, one sample a row, and the names of the features if the file has them.

    Parameters
    ----------
    path : path-like
        The file; its suffix tells the format.
    columns : sequence of str, optional
        Which columns, in which order. A file that does not name its columns must have exactly as many.
    lacking_ok : bool
        Whether the file may lack some of ``columns``; the rest are then taken, with a note.
    drop_missing : bool
        Whether rows with a missing or infinite value are dropped; otherwise they are refused.
    keep : callable, optional
        Asked about each column of numbers that looks like an identifier or a date: its name and the reason, to a
        truth value. By default such columns are left out. Never asked when ``columns`` names them.

    Returns
    -------
    Table
        The data, and what was noticed.

    Raises
    ------
    FormatError
        If the file is not what its suffix says.
    DataError
        If a column is missing or not of numbers, or values are missing.
    """
    file = _regular_file(path)
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise FormatError(
            f"{file}: the suffix {file.suffix!r} is not one that can be read; {', '.join(READERS)} are. "
            "Save the data as one of these."
        )
    sheet = reader.read(file, columns)
    values, features, left_out, notes = choose_columns(sheet, file, columns, lacking_ok=lacking_ok, keep=keep)
    values, n_dropped = drop_or_refuse_missing(values, features, file, drop=drop_missing)
    if n_dropped:
        notes = (*notes, f"{n_dropped} rows with a missing value were dropped; {values.shape[0]} are left.")
    return Table(values, features, str(file), left_out, n_dropped, (*sheet.notes, *notes))


def _regular_file(path: PathLike) -> Path:
    """Return the path of something that can be read to its end: a pipe without a writer would block for ever."""
    shown = os.fspath(path)
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise FormatError(f"{shown}: cannot be read ({error.strerror or error}). Check the path.") from error
    except ValueError as error:
        raise InputError(f"{shown!r} cannot be the path of a file ({error}).") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "neither a file nor a folder"
        raise FormatError(f"{shown}: data must be in a regular file; this is {kind}.")
    return Path(path)

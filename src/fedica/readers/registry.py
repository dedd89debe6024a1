"""One function that reads a data file of any known format."""

from __future__ import annotations

import importlib
import itertools
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedica.arrays import PathLike
from fedica.errors import FedicaError, FormatError, InputError, OptionError
from fedica.formats import READERS, Reader, ReadOptions, option_name
from fedica.readers.orientation import check_orientation, transposed
from fedica.readers.rename import names_in_file, read_renames, renamed
from fedica.readers.select import Keep, choose_columns, drop_or_refuse_missing
from fedica.readers.sheet import Sheet, Table
from fedica.readers.units import in_units
from fedica.text import counted, show_text

DEFAULT_OPTIONS = ReadOptions()


def suffix_of(path: PathLike) -> str:
    """Return the suffix that tells the format, in lower case: ``.csv``, ``.nii.gz``; the last one if none is known."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    double = "".join(suffixes[-2:])
    return double if double in READERS else "".join(suffixes[-1:])


def read_data(
    path: PathLike,
    *,
    columns: Sequence[str] | None = None,
    lacking_ok: bool = False,
    drop_missing: bool = False,
    keep: Keep | None = None,
    units: Mapping[str, str] | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
) -> Table:
    """Read a client's data: finite numbers, one row per sample, and the names of the features if the file has them.

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
        From the name of a column of numbers that looks like an identifier or a date, and the reason, to whether it is
        kept. By default such columns are left out. Not called when ``columns`` names them.
    units : mapping of str to str, optional
        Unit of each feature in the study. Where the file stores units, the values are converted.
    options : ReadOptions
        Options of some formats. One that the format does not use must have its default.

    Returns
    -------
    Table
        The data, and notes on how it was read.

    Raises
    ------
    FormatError
        If the file is not what its suffix says.
    DataError
        If a column is missing or not of numbers, or values are missing.
    """
    file = _regular_file(path)
    suffix = suffix_of(file)
    reader = READERS.get(suffix)
    if reader is None:
        raise FormatError(
            f"{file}: the suffix {suffix!r} is not one that can be read; {', '.join(READERS)} are. "
            + ("Decompress it first: gunzip." if suffix == ".gz" else "Save the data as one of these.")
        )
    check_options(file, reader, options)
    names = read_renames(options.rename) if options.rename else {}
    sheet = _read(reader, file, None if options.transpose else names_in_file(columns, names), options)
    if options.transpose:
        sheet = transposed(sheet, str(file))
    elif options.transpose is None and columns is None:
        check_orientation(sheet, str(file))
    if names:
        sheet = renamed(sheet, names, str(file))
    return to_table(
        sheet, str(file), columns=columns, lacking_ok=lacking_ok, drop_missing=drop_missing, keep=keep, units=units
    )


def to_table(
    sheet: Sheet,
    source: str,
    *,
    columns: Sequence[str] | None = None,
    lacking_ok: bool = False,
    drop_missing: bool = False,
    keep: Keep | None = None,
    units: Mapping[str, str] | None = None,
) -> Table:
    """Turn what a reader found into data that can be fitted; the arguments are those of `read_data`.

    ``source`` is the name of the data in messages: the file.
    """
    values, features, left_out, notes = choose_columns(sheet, source, columns, lacking_ok=lacking_ok, keep=keep)
    values, whole = drop_or_refuse_missing(values, features, source, drop=drop_missing)
    n_dropped = int(whole.size - whole.sum())
    if n_dropped:
        notes = (*notes, f"{counted(n_dropped, 'row with a missing value', 'were')} dropped; {len(values)} left.")
    values, column_units, unit_notes = in_units(values, features, sheet, source, units)
    left_out |= sheet.unusable
    notes = (*sheet.notes, *notes, *unit_notes)
    labels = None if sheet.labels is None else tuple(itertools.compress(sheet.labels, whole))
    return Table(
        values,
        features,
        source,
        left_out,
        n_dropped,
        notes,
        column_units,
        sheet.extra,
        labels,
        persons=sheet.persons,
        passband=sheet.passband,
    )


def _read(reader: Reader, path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Call the function of a format; one that is named by a text is imported first."""
    function: Any = reader.how
    if isinstance(function, str):
        module, name = function.split(".")
        function = getattr(importlib.import_module(f"fedica.readers.{module}"), name)
    try:
        sheet: Sheet = function(path, columns, options)
    except (FedicaError, MemoryError, PermissionError):
        raise
    except Exception as error:  # a damaged file can raise anything in somebody else's library
        problem = f"{type(error).__name__}: {show_text(' '.join(str(error).split()), 150)}"
        raise FormatError(f"{path}: it cannot be read as what its suffix says ({problem}). Is it damaged?") from error
    return sheet


def check_options(source: Path | str, reader: Reader, options: ReadOptions) -> None:
    """Refuse an option that this format does not use: ignoring it would surprise."""
    for name in options.changed():
        if name not in reader.uses:
            users = [suffix for suffix, other in READERS.items() if name in other.uses]
            article = "an" if reader.what[0] in "AEIO" else "a"
            raise OptionError(
                f"{source}: {option_name(name)} says nothing about {article} {reader.what}"
                + (f"; it is for {', '.join(users)}" if users else "")
                + ". Leave it out."
            )


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
        kind = "a folder (those of BIDS: fedica local --bids)" if stat.S_ISDIR(mode) else "neither a file nor a folder"
        raise FormatError(f"{shown}: data must be in a regular file; this is {kind}.")
    return Path(path)

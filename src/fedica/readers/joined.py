"""Several files of one client -> one table: their rows one below the other, once their features are the same."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedica.arrays import PathLike
from fedica.errors import DataError, InputError
from fedica.progress import counting
from fedica.readers.channels import BAD_CHANNEL
from fedica.readers.passbands import check_passbands, unsaid_filters
from fedica.readers.registry import read_data
from fedica.readers.select import NOT_WANTED, UNWANTED
from fedica.readers.sheet import Table
from fedica.text import list_names


def read_files(paths: Sequence[PathLike], *, columns: Sequence[str] | None = None, **options: Any) -> Table:
    """Read one or more files of a client, and join their rows.

    Parameters
    ----------
    paths : sequence of path-like
        The files, all with the same features and prepared alike. The first tells which columns are taken.
    columns : sequence of str, optional
        As in `read_data`.
    **options
        Further arguments of `read_data`.

    Raises
    ------
    DataError
        If a file lacks a feature of the first, or has others, other units, another preparation, or of recordings
        another sampling rate or other filters. Channels that one file marks as bad are left out of all.
    """
    if len({os.path.realpath(path) for path in paths}) < max(len(paths), 1):
        raise InputError(
            f"data must be in one or more different files; got {list_names([str(path) for path in paths])}."
        )
    first = read_data(paths[0], columns=columns, **options)
    if len(paths) == 1:
        return first
    wanted = columns if columns is not None else first.features
    tables = [first, *(read_data(path, columns=wanted, **options) for path in counting(paths[1:], len(paths) - 1))]
    bad = [name for name in wanted or () if any(table.left_out.get(name) == BAD_CHANNEL for table in tables)]
    if set(bad) & {name for table in tables for name in table.features or ()}:  # bad in some files, good in others
        good = [name for name in wanted or () if name not in bad]
        tables = [read_data(path, columns=good, **options) for path in paths]
    for table in tables[1:]:
        _check_alike(tables[0], table)
        check_passbands(tables[0], table)
    counts = " + ".join(str(len(table.values)) for table in tables)
    later = (
        note for table in tables[1:] for note in _notes(table, bad) if columns is not None or NOT_WANTED not in note
    )
    notes = dict.fromkeys((*_notes(tables[0], bad), *later))
    new = [name for table in tables[1:] for name in table.left_out if name not in (*first.left_out, *bad)]
    if columns is None and new:
        notes[f"left out because the first file does not have them: {list_names(list(dict.fromkeys(new)))}."] = None
    if bad:
        notes[f"left out of all files, because one marks them as bad: {list_names(bad)}."] = None
    notes |= dict.fromkeys(unsaid_filters(tables))
    persons = [person for table in tables for person in table.persons or ()]
    labels = [label for table in tables for label in table.labels or ()]
    return Table(
        values=np.concatenate([table.values for table in tables]),
        features=tables[0].features,
        source=", ".join(table.source for table in tables),
        left_out={name: why for table in reversed(tables) for name, why in table.left_out.items()},
        n_dropped=sum(table.n_dropped for table in tables),
        notes=(*notes, f"{len(tables)} files were joined: {counts} samples."),
        units=tables[0].units,
        extra=tables[0].extra,
        labels=None if any(table.labels is None for table in tables) else tuple(labels),
        n_files=len(tables),
        persons=frozenset(persons) if all(table.persons is not None for table in tables) else None,
        passband=tables[0].passband,
    )


def _notes(table: Table, bad: Sequence[str]) -> Sequence[str]:
    """Return the notes on a file, without one that lists no other columns than channels that are bad elsewhere."""
    unwanted = {name for name, why in table.left_out.items() if why == UNWANTED}
    return [note for note in table.notes if NOT_WANTED not in note or not unwanted <= set(bad)]


def _check_alike(first: Table, table: Table) -> None:
    """Refuse a file that cannot be joined to the first."""
    if table.values.shape[1] != first.values.shape[1]:
        raise DataError(
            f"{table.source}: all files of a client must have the same features; {first.source} has "
            f"{first.values.shape[1]}, this one {table.values.shape[1]}."
        )
    if table.features != first.features:
        raise DataError(
            f"{table.source}: all files of a client must have the same features; {first.source} has "
            f"{list_names(first.features or ())}, this one {list_names(table.features or ())}."
        )
    for what, one, other in (("units", first.units, table.units), ("preparation", first.extra, table.extra)):
        if one != other:
            raise DataError(
                f"{table.source}: all files of a client must have the same {what}; {first.source} has {str(one)[:80]}, "
                f"this one {str(other)[:80]}."
            )

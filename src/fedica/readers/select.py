"""Which columns of a sheet are features, and what happens to rows with missing values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import DataError
from fedica.readers import identifiers
from fedica.readers.sheet import Sheet
from fedica.text import list_names

Keep = Callable[[str, str], bool]
"""From the name of a column that does not look like a feature, and the reason, to whether it is kept."""

UNWANTED = "not wanted"
NOT_WANTED = "left out because they are not wanted"
_BLOCK_NUMBERS = 4_000_000

_Chosen = tuple[NDArray[Any], tuple[str, ...] | None, dict[str, str], tuple[str, ...]]


def choose_columns(
    sheet: Sheet, source: str, columns: Sequence[str] | None, *, lacking_ok: bool, keep: Keep | None
) -> _Chosen:
    """Return values, names, what was left out and why, and the notes that say so."""
    twice = [name for name, count in Counter((*(sheet.names or ()), *sheet.left_out)).items() if count > 1]
    if sheet.names is not None and twice:
        raise DataError(f"{source}: two columns are called {twice[0]!r}; every column needs a name of its own.")
    if columns is None:
        chosen = _without_suspects(sheet, keep)
    elif sheet.names is None:
        chosen = _by_position(sheet, source, columns)
    else:
        chosen = _by_name(sheet, source, columns, lacking_ok=lacking_ok)
    if chosen[0].shape[1] == 0:
        what = ", ".join(f"{name!r} ({why})" for name, why in list(chosen[2].items())[:5])
        raise DataError(f"{source}: no column of numbers is left; left out: {what or 'nothing, the file has none'}.")
    return chosen


def _by_position(sheet: Sheet, source: str, columns: Sequence[str]) -> _Chosen:
    n_columns = sheet.values.shape[1]
    if n_columns != len(columns):
        raise DataError(
            f"{source}: {len(columns)} features are wanted; the file has {n_columns} columns, which it does not name. "
            "Name its columns, or give exactly the wanted ones in order."
        )
    note = f"the file does not name its columns: they were taken to be the {n_columns} wanted features, in order."
    return sheet.values, tuple(columns), {}, (note,)


def _by_name(sheet: Sheet, source: str, columns: Sequence[str], *, lacking_ok: bool) -> _Chosen:
    names = sheet.names or ()
    for name in columns:
        if name in sheet.left_out:
            raise DataError(f"{source}: the column {name!r} must hold numbers; it holds {sheet.left_out[name]}.")
    place, asked = {name: k for k, name in enumerate(names)}, set(columns)
    lacking = [name for name in columns if name not in place and name not in sheet.unusable]
    are = "is" if len(lacking) == 1 else "are"
    if lacking and (not lacking_ok or len(lacking) == len(columns)):
        others = [name for name in (*names, *sheet.left_out) if name not in asked]
        raise DataError(
            f"{source}: {len(lacking)} of {len(columns)} wanted features {are} not there: {list_names(lacking)}. "
            + (likely_names(lacking, others) or (f"It has, among others, {list_names(others)}. " if others else ""))
            + "Rename the columns (--rename FILE); or list those that you have in a file, for fedica local --features."
        )
    wanted = tuple(name for name in columns if name in place)
    order = [place[name] for name in wanted]
    values = sheet.values if order == list(range(len(names))) else sheet.values[:, order]
    rest = [name for name in (*names, *sheet.left_out) if name not in asked]
    notes = [f"{NOT_WANTED}: {list_names(rest)}."] if rest else []
    if lacking:
        notes.append(f"{len(lacking)} of {len(columns)} features {are} not there: {list_names(lacking)}.")
    return values, wanted, dict.fromkeys(rest, UNWANTED), tuple(notes)


def likely_names(lacking: Sequence[str], names: Sequence[str]) -> str:
    """Return a sentence with the columns that may be meant: another spelling of what lacks, or nearly that."""
    spelt = {identifiers.plain(name).replace(" ", ""): name for name in reversed(names)}
    meant = []
    for name in lacking[:5]:
        near = get_close_matches(identifiers.plain(name).replace(" ", ""), spelt, 1, cutoff=0.8)
        meant += [f"{spelt[near[0]]!r} for {name!r}"] if near and spelt[near[0]] != name else []
    return f"Did you mean {', '.join(meant)}? " if meant else ""


def _without_suspects(sheet: Sheet, keep: Keep | None) -> _Chosen:
    """Leave out columns that look like identifiers or dates, with a note each."""
    left_out = dict(sheet.left_out)
    names = sheet.names or tuple(f"column {k + 1}" for k in range(sheet.values.shape[1]))
    suspects = {} if sheet.measured else _suspects(sheet)
    kept = []
    for k, name in enumerate(names):
        if _is_empty(sheet.values[:, k]):
            left_out[name] = "no value in any row"
        elif (why := suspects.get(k, "")) and not (keep is not None and keep(name, why)):
            left_out[name] = why
        else:
            kept.append(k)
    values = sheet.values if len(kept) == len(names) else sheet.values[:, kept]
    notes = _left_out_notes(left_out)
    notes += [] if sheet.measured else _doubts([(names[k], sheet.values[:, k]) for k in kept if k not in suspects])
    if set(left_out) - set(sheet.left_out):
        notes.append(
            "to keep a column that was left out, list the columns to use in a file, for fedica local --features."
        )
    return values, tuple(names[k] for k in kept) if sheet.names else None, left_out, tuple(notes)


def _suspects(sheet: Sheet) -> dict[int, str]:
    """Return the places of the columns that are no features, and why.

    Whole numbers of five digits are postcodes or days where most columns are something else: raw numbers of a device
    come in many columns.
    """
    columns = range(sheet.values.shape[1])
    names = sheet.names or ("",) * len(columns)
    whys = [suspicion(names[k], sheet.values[:, k], first=k == 0) for k in columns]
    doubts = {k: why for k in columns if not whys[k] and (why := identifiers.doubt(sheet.values[:, k]))}
    if 2 * len(doubts) >= sum(not why for why in whys):
        doubts = {}
    return {k: why for k, why in enumerate(whys) if why} | doubts


def _is_empty(column: NDArray[Any]) -> bool:
    """Whether a column has no value at all; a quick look at its first row, then all."""
    return column.dtype.kind == "f" and column.size > 0 and bool(np.isnan(column[0]) and np.isnan(column).all())


def _left_out_notes(left_out: dict[str, str]) -> list[str]:
    """Return one sentence for all columns that were left out for the same reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in left_out.items():
        by_reason.setdefault(why, []).append(name)
    return [
        f"the column {names[0]!r} was left out: it holds {why}."
        if len(names) == 1
        else f"{len(names)} columns were left out: each of {list_names(names)} holds {why}."
        for why, names in by_reason.items()
    ]


def _doubts(columns: Iterable[tuple[str, NDArray[Any]]]) -> list[str]:
    """Return one sentence for each column that is kept though it may be no measurement."""
    return [
        f"the column {name!r} was kept; it holds {why}. If it tells who or when, leave it out: fedica local --features."
        for name, column in columns
        if (why := identifiers.doubt(column))
    ]


def suspicion(name: str, column: NDArray[Any], *, first: bool) -> str:
    """Return why a column of numbers is no feature; an empty text if it may be one.

    A first column without a name that counts rows, as spreadsheets and data frames write it, is an identifier; so is
    any column that grows in equal steps, and whatever `fedica.readers.identifiers` knows.
    """
    if why := identifiers.by_name(name, column):
        return why
    if column.size >= 10 and np.isfinite(column[:10]).all():
        step = float(column[1]) - float(column[0])
        if step > 0 and np.allclose(np.diff(column[:10].astype(float)), step, rtol=1e-6):  # a quick look, then all
            steps = np.diff(np.asarray(column, dtype=np.float64))
            if np.allclose(steps, step, rtol=1e-3):
                return "a counter or a time axis: its values grow in equal steps"
    if first and not name and column.size and np.all(column == np.arange(column.size)):
        return "row numbers"
    return identifiers.by_content(column)


def drop_or_refuse_missing(
    values: NDArray[Any], features: tuple[str, ...] | None, source: str, *, drop: bool
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the finite rows, and which they are; without ``drop``, refuse missing values with their counts."""
    if values.dtype.kind not in "fc":
        return values, np.ones(values.shape[0], dtype=bool)
    rows = max(1, _BLOCK_NUMBERS // max(values.shape[1], 1))
    whole = np.ones(values.shape[0], dtype=bool)
    counts = np.zeros(values.shape[1], dtype=np.int64)
    for start in range(0, values.shape[0], rows):
        finite = np.isfinite(values[start : start + rows])
        whole[start : start + rows] = finite.all(axis=1)
        counts += (~finite).sum(axis=0)
    n_bad = int(values.shape[0] - whole.sum())
    if n_bad == 0:
        return values, whole
    empty = [k for k in range(counts.size) if counts[k] == values.shape[0]]
    if empty and values.shape[1] > 1:
        names = features or tuple(f"column {k + 1}" for k in range(counts.size))
        raise DataError(
            f"{source}: {list_names([names[k] for k in empty])} must hold numbers; got no value in any row. Fill "
            f"{'it' if len(empty) == 1 else 'them'}, or list the other columns in a file, for fedica local --features."
        )
    if not drop:
        worst = np.argsort(-counts, kind="stable")[: min(5, np.count_nonzero(counts))]
        names = features or tuple(f"column {k + 1}" for k in range(counts.size))
        listed = ", ".join(f"{names[k]!r} {counts[k]}" for k in worst)
        more = np.count_nonzero(counts) - worst.size
        raise DataError(
            f"{source}: {n_bad} of {values.shape[0]} rows have missing or infinite values: {listed}"
            + (f" and {more} more columns" if more else "")
            + ". Fill them, or drop these rows with --drop-missing."
        )
    if not whole.any():
        raise DataError(f"{source}: every one of the {values.shape[0]} rows has a missing or infinite value.")
    return values[whole], whole

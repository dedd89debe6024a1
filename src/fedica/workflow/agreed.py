"""What a study decides about a client's fit and message, and what it leaves to the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedica.arrays import Array, check_int
from fedica.errors import DataError, InputError, OptionError
from fedica.formats import READERS
from fedica.readers import Table, suffix_of
from fedica.records import Study
from fedica.text import counted


@dataclass(frozen=True)
class Wanted:
    """What is fitted, as the client and its study say."""

    columns: Sequence[str] | None
    n_components: int | None
    independence: str
    mixing: str
    strengths: bool


def wanted_of(
    features: Sequence[str] | None,
    study: Study | None,
    n_components: int | None,
    independence: str | None,
    mixing: str | None,
    strengths: bool | None,
) -> Wanted:
    """Return what is fitted: what the client asks for, where its study leaves it open; refuse what contradicts it."""
    columns = _columns(features, study)
    return Wanted(
        columns,
        _n_components(n_components, study, columns),
        _term("independence", independence, study, default="samples"),
        _term("mixing", mixing, study, default="general"),
        _with_strengths(strengths, study),
    )


def _columns(features: Sequence[str] | None, study: Study | None) -> Sequence[str] | None:
    if features is None or study is None:
        return features if study is None else study.features
    known, had = set(study.features), set(features)
    strange = [name for name in features if name not in known]
    if strange:
        raise InputError(f"study {study.id!r} has no feature {strange[0]!r}; only features of the study can be used.")
    return [name for name in study.features if name in had]  # the study's order holds


def _n_components(n_components: int | None, study: Study | None, columns: Sequence[str] | None) -> int | None:
    if study is None or study.n_components is None:
        return n_components
    if n_components is None:
        return min(study.n_components, len(columns or ()) or study.n_components)
    if n_components > study.n_components:
        raise OptionError(f"study {study.id!r} has {study.n_components} components; {n_components} were asked for.")
    return n_components


def _term(name: str, value: str | None, study: Study | None, *, default: str) -> str:
    """Return a setting that the study decides if there is one, and that must not contradict it."""
    if study is None:
        return value or default
    agreed: str = getattr(study, name)
    if value not in (None, agreed):
        raise OptionError(f"study {study.id!r} has {name} {agreed!r}; {value!r} was asked for.")
    return agreed


def _with_strengths(strengths: bool | None, study: Study | None) -> bool:
    """Return whether strengths are sent: with a study, exactly where it asks for them."""
    if study is None:
        return bool(strengths)
    agreed = study.strengths == "yes"
    if strengths not in (None, agreed):
        raise OptionError(f"study {study.id!r} has strengths {study.strengths or 'no'!r}; the other was asked for.")
    return agreed


def units_of(study: Study | None) -> dict[str, str] | None:
    """Return the unit of each feature of a study that gives them."""
    return None if study is None or study.units is None else dict(zip(study.features, study.units, strict=True))


def scaled(table: Table, study: Study | None) -> Array:
    """Return the values times the study's common factors, one per feature; (n_samples, n_features)."""
    if study is None or study.scales is None or table.features is None:
        return table.values
    factor = dict(zip(study.features, study.scales, strict=True))
    return np.asarray(table.values * np.array([factor[name] for name in table.features]), dtype=np.float64)


def check_enough_samples(table: Table, min_samples: int | None, study: Study | None) -> None:
    """Refuse data with fewer samples than the client or the study wants."""
    n_samples = table.values.shape[0]
    least = max(2, study.min_samples if study else 2, check_int(min_samples or 2, "min_samples", minimum=2))
    if n_samples < least:
        raise DataError(
            f"{table.source}: expected at least {least} samples, got {n_samples}. A client with fewer does not send."
        )


def declared_samples(n_samples: int, study: Study | None) -> int | None:
    """Return what a client tells of its number of samples: exactly, to one digit, or nothing."""
    how = "exactly" if study is None else study.declare_samples
    if how == "no":
        return None
    if how == "exactly":
        return n_samples
    digits = len(str(n_samples)) - 1
    return max(1, int(round(n_samples, -digits)))


def count_persons(table: Table, subjects: frozenset[str] | None) -> Table:
    """Return a table that knows its persons, where anything tells, and notes on them.

    ``subjects`` are those of a BIDS data set; else a column tells (``--person``). A recording is of one person, and so
    are several files, unless they say otherwise.
    """
    known = subjects or table.persons
    if known is not None:
        return replace(table, persons=known, notes=(*table.notes, f"the data is of {counted(len(known), 'person')}."))
    recording = {"channel_types", "mask"} & set(READERS[suffix_of(table.source)].uses)
    if table.n_files == 1 and not recording:
        return table
    several = ("the files count as one person; --bids counts subjects, --person COLUMN the persons in tables.",)
    return replace(table, persons=frozenset({"one"}), notes=(*table.notes, *several[: table.n_files - 1]))


def declared_persons(table: Table, study: Study | None) -> int | None:
    """Return what a client tells of its number of persons, as precisely as of its samples; refuse too few."""
    n_persons = None if table.persons is None else len(table.persons)
    least = None if study is None else study.min_persons
    if study is not None and least is not None and (n_persons is None or n_persons < least):
        how = "got data that does not tell: give --person COLUMN or --bids" if n_persons is None else f"got {n_persons}"
        raise DataError(f"{table.source}: study {study.id!r} asks for data of at least {least} persons; {how}.")
    return None if n_persons is None else declared_samples(n_persons, study)

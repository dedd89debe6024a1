"""Study <-> file: a small JSON file that the coordinator writes, people read, and every client follows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fedica.arrays import PathLike
from fedica.errors import FormatError, InputError
from fedica.exchange.files import write_atomic
from fedica.exchange.json_files import VERSION, json_text, read_plain
from fedica.records import Study, check_name

STUDY = "fedica.study"
MAX_STUDY_BYTES = 8 * 1024 * 1024
# field: the JSON types that it may have
_FIELDS: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "independence": (str,),
    "mixing": (str,),
    "n_components": (int,),
    "min_samples": (int,),
    "min_persons": (int,),
    "declare_samples": (str,),
    "grid": (str,),
    "preprocessing": (dict,),
    "other_preprocessing": (str,),
    "strengths": (str,),
    "features": (list,),
}
_FEATURE_FIELDS: dict[str, tuple[type, ...]] = {"name": (str,), "unit": (str,), "scale": (int, float)}


def write_study(study: Study, path: PathLike) -> None:
    """Write a study to one file, whole or not at all: one feature per line, for people to read and edit.

    Parameters
    ----------
    study : Study
        What all clients must agree on.
    path : path-like
        The file; an older one is replaced.
    """
    what = f"study {study.id!r}"
    fields = {"format": STUDY, "version": VERSION} | {
        name: dict(value) if isinstance(value, Mapping) else value
        for name in _FIELDS
        if name != "features" and (value := getattr(study, name)) is not None
    }
    head = "".join(f"  {json_text(name, what)}: {json_text(value, what)},\n" for name, value in fields.items())
    lines = ",\n".join(f"    {json_text(feature, what)}" for feature in _features_of(study))
    text = f'{{\n{head}  "features": [\n{lines}\n  ]\n}}\n'
    write_atomic(path, [text.encode()])


def read_study(path: PathLike) -> Study:
    """Read a study.

    Parameters
    ----------
    path : path-like
        The file.

    Raises
    ------
    FormatError
        If it is not a study as docs/format.md defines it; an unknown field is an error too, because a misspelt one
        would change the study unnoticed.
    """
    source = os.fspath(path)
    fields = read_plain(path, STUDY, limit=MAX_STUDY_BYTES)
    try:
        _check_fields(fields, _FIELDS, ("id", "features"), "a study")
        features = fields.pop("features")
        for number, feature in enumerate(features):
            if not isinstance(feature, dict):
                raise InputError(f"feature {number} must be an object with a name; got {str(feature)[:60]!r}.")
            _check_fields(feature, _FEATURE_FIELDS, ("name",), f"feature {number}")
            check_name(feature["name"], f"the name of feature {number}")
        return Study(
            fields.pop("id"),
            [feature["name"] for feature in features],
            units=_column(features, "unit"),
            scales=_column(features, "scale"),
            **fields,
        )
    except (InputError, OverflowError) as error:  # JSON has whole numbers that no float can hold
        raise FormatError(f"{source}: {error}") from error


def _features_of(study: Study) -> list[dict[str, Any]]:
    columns = {"name": study.features, "unit": study.units, "scale": study.scales}
    present = {name: column for name, column in columns.items() if column is not None}
    return [dict(zip(present, row, strict=True)) for row in zip(*present.values(), strict=True)]


def _check_fields(
    fields: dict[str, Any], known: dict[str, tuple[type, ...]], required: tuple[str, ...], what: str
) -> None:
    for name in required:
        if name not in fields:
            raise InputError(f"{what} must have the field {name!r}; it has {', '.join(map(repr, fields)) or 'none'}.")
    for name, value in fields.items():
        if name not in known:
            raise InputError(f"{what} has the unknown field {name[:60]!r}; the known ones are {', '.join(known)}.")
        if isinstance(value, bool) or not isinstance(value, known[name]):
            types = " or ".join(kind.__name__ for kind in known[name])
            raise InputError(f"{what}: {name!r} must be {types}; got {str(value)[:60]!r}.")


def _column(features: list[dict[str, Any]], name: str) -> list[Any] | None:
    """Return one value per feature, or ``None`` when no feature has one."""
    values = [feature[name] for feature in features if name in feature]
    if values and len(values) < len(features):
        raise InputError(f"either every feature has a {name} or none has; {len(values)} of {len(features)} have one.")
    return values or None

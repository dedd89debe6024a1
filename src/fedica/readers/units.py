"""Units of the features: from those of a file to those of the study, because atoms depend on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import DataError
from fedica.readers.sheet import Sheet

_PREFIX = {"": 1.0, "k": 1e3, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
_WORDS = {"milli": "m", "micro": "u", "nano": "n", "pico": "p", "femto": "f"}
_UNIT = re.compile(r"([kmuµμnpf]?)(V|T)(?:/(c?m))?")


def scale_of(unit: str) -> tuple[str, float] | None:
    """Return the SI unit of a unit and its size in that: ``"uV"`` is ("V", 1e-6); None for other texts."""
    text = unit.strip()
    word = re.fullmatch(r"(?i)(milli|micro|nano|pico|femto)?(volt|tesla)s?", text)
    if word:
        text = _WORDS.get((word[1] or "").lower(), "") + word[2][0].upper()
    found = _UNIT.fullmatch(text)
    if found is None:
        return None
    prefix, base, per = found.groups()
    return (base + ("/m" if per else ""), _PREFIX[prefix] / (0.01 if per == "cm" else 1.0))


def in_units(
    values: NDArray[Any],
    features: tuple[str, ...] | None,
    sheet: Sheet,
    source: str,
    wanted: Mapping[str, str] | None,
) -> tuple[NDArray[Any], tuple[str, ...] | None, tuple[str, ...]]:
    """Return the values in the wanted units, the unit of each column, and the notes.

    values : columns of the sheet, (n_samples, n_features). Without units in the sheet nothing is converted.
    """
    if sheet.units is None or features is None or sheet.names is None:
        return values, None, ()
    of_file = dict(zip(sheet.names, sheet.units, strict=True))
    own = tuple(of_file[name] for name in features)
    if wanted is None:
        return values, own, ()
    goal = tuple(wanted.get(name, of_file[name]) for name in features)
    factors = np.array([_factor(*pair, source) for pair in zip(features, own, goal, strict=True)])
    if np.all(factors == 1.0):
        return values, goal, ()
    changed = sorted({f"{a} to {b}" for a, b in zip(own, goal, strict=True) if a != b})
    notes = (f"converted from {', '.join(changed)}, as the study says.",)
    return values * factors.astype(values.dtype), goal, notes


def _factor(name: str, own: str, goal: str, source: str) -> float:
    if own == goal:
        return 1.0
    has, wants = scale_of(own), scale_of(goal)
    if has is None or wants is None or has[0] != wants[0]:
        raise DataError(
            f"{source}: {name!r} is wanted in {goal!r}; the file has {own!r}, which cannot be converted. Correct the "
            "unit in the study, or leave it out."
        )
    ratio = has[1] / wants[1]
    return float(f"{ratio:.12g}")  # 1e-6 / 1e-6 is one, not nearly one

"""TOML files and Flower's configurations as checked settings; an unknown name is an error."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from fedica.arrays import PathLike
from fedica.errors import FormatError, OptionError
from fedica.exchange.files import read_bounded

T = TypeVar("T")
_MAX_FILE = 64 * 1024
_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"}


def read_settings(path: PathLike, kind: type[T]) -> T:
    """Read a TOML file into a dataclass; its paths are relative to the folder of the file.

    ``max_components`` is called ``max-components`` in the file; fields without a default must be there.
    """
    source = os.fspath(path)
    data = read_bounded(path, limit=_MAX_FILE, what="a file of settings")
    try:
        values = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FormatError(f"{source}: the file is not TOML ({error}).") from error
    try:
        return make_settings(values, kind, base=Path(path).parent)
    except OptionError as error:
        raise FormatError(f"{source}: {error}") from error


def make_settings(values: Mapping[str, Any], kind: type[T], *, base: Path | None = None) -> T:
    """Return the dataclass ``kind`` with these values, whose names have dashes instead of underscores."""
    hints = get_type_hints(kind)
    known = {field.name.replace("_", "-"): field for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(values.keys() - known.keys())
    if unknown:
        raise OptionError(f"there is no setting {unknown[0]!r}; the settings are {', '.join(known)}.")
    missing = [name for name, field in known.items() if field.default is MISSING and name not in values]
    if missing:
        raise OptionError(f"the setting {missing[0]!r} is missing.")
    return kind(**{known[name].name: _value(name, values[name], hints[known[name].name], base) for name in values})


def _value(name: str, value: Any, hint: Any, base: Path | None) -> Any:
    """Return the value as the type hint says (``Path | None``, for example); a path is relative to ``base``."""
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise OptionError(f"{name!r} must be a table of settings, [{name}]; got {value!r}.")
        return make_settings(value, hint, base=base)
    if hint == tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise OptionError(f"the setting {name!r} must be a list of texts; got {value!r}.")
        return tuple(value)
    wanted = next(x for x in (bool, int, float, str, Path) if x in (hint, *getattr(hint, "__args__", ())))
    if wanted is Path and isinstance(value, str) and value:
        return (base or Path()) / value
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        raise OptionError(f"the setting {name!r} must be {_KINDS[wanted]}; got {value!r}.")
    return value

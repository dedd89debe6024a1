"""The values of metadata fields <-> text: one reader and one writer for each `Form` that a field may have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fedica.errors import FormatError
from fedica.exchange.header import check_names, parse_texts
from fedica.exchange.json_files import json_text, parse_json
from fedica.records.fields import Form

MAX_VALUE = 65_536
"""The longest text of a number, of a list of numbers or of an object, in characters."""
_NATURAL = r"(?:0|[1-9][0-9]{0,17})"
_WHOLE_NUMBER = re.compile(_NATURAL)
_WHOLE_NUMBERS = re.compile(rf"\[{_NATURAL}(?:,{_NATURAL})*+\]")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


def read_value(form: Form, text: str, what: str) -> Any:
    """Return the value that the text of a metadata field holds; errors start with ``what``."""
    return _READERS[form](text, what)


def write_value(form: Form, value: Any, what: str) -> str:
    """Return a value as the text of a metadata field; errors start with ``what``."""
    return _WRITERS[form](value, what)


def read_whole_number(text: str, what: str) -> int:
    """Return a natural number that is written plainly: digits, no sign, no leading zero."""
    if not _WHOLE_NUMBER.fullmatch(text):
        raise FormatError(f"{what} must be a whole number below 10^18; got {text[:40]!r}.")
    return int(text)


def read_names(text: str, what: str) -> list[str]:
    """Return the names of a JSON list of names."""
    names = parse_texts(text, what)
    check_names(names, f"{what}: each name")
    return names


def _read_number(text: str, what: str) -> float:
    if len(text) > MAX_VALUE or not _NUMBER.fullmatch(text):
        raise FormatError(f"{what} must be a decimal number; got {text[:40]!r}.")
    return float(text)


def _read_whole_numbers(text: str, what: str) -> list[int]:
    if len(text) > MAX_VALUE or not _WHOLE_NUMBERS.fullmatch(text):
        raise FormatError(
            f"{what} must be a JSON list of whole numbers, without spaces, of at most {MAX_VALUE} characters; "
            f"got {text[:40]!r}."
        )
    return [int(number) for number in text[1:-1].split(",")]


def _read_object(text: str, what: str) -> dict[str, str]:
    found = parse_json(text, what) if len(text) <= MAX_VALUE else None
    if not isinstance(found, dict) or not found or not all(isinstance(value, str) for value in found.values()):
        raise FormatError(
            f"{what} must be a JSON object from text to text, not empty, of at most {MAX_VALUE} characters; "
            f"got {text[:40]!r}."
        )
    return found


_READERS: dict[Form, Callable[[str, str], Any]] = {
    Form.TEXT: lambda text, _: text,
    Form.WHOLE_NUMBER: read_whole_number,
    Form.NUMBER: _read_number,
    Form.TEXTS: read_names,
    Form.WHOLE_NUMBERS: _read_whole_numbers,
    Form.OBJECT: _read_object,
}
_WRITERS: dict[Form, Callable[[Any, str], str]] = {
    Form.TEXT: lambda value, _: str(value),
    Form.WHOLE_NUMBER: lambda value, _: str(value),
    Form.NUMBER: lambda value, _: repr(float(value)),
    Form.TEXTS: json_text,
    Form.WHOLE_NUMBERS: json_text,
    Form.OBJECT: lambda value, what: json_text(dict(value), what),
}

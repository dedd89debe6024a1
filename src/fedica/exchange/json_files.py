"""Small files for people to read: JSON objects with a format and a version (study, public key, summary)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedica.arrays import PathLike
from fedica.errors import FormatError, InputError
from fedica.exchange.files import read_bounded
from fedica.exchange.format import check_version
from fedica.exchange.header import encodable, parse_header
from fedica.text import MAX_PATH, show_json, show_text

VERSION = "1"
"""The version of the JSON files."""
MAX_JSON_MEMORY = 512 * 1024 * 1024
"""Most bytes of memory that JSON may take when it is read: a few megabytes of ``[],`` would become gigabytes."""
_MAX_HEADER = 64 * 1024 * 1024
_BINARY = {
    "fedica.contribution": "a contribution, which a client sends to the coordinator",
    "fedica.scores": "a second message, which a client sends to the coordinator",
    "fedica.aggregate": "an aggregate, the result that goes to the clients",
    "fedica.details": "the details of a result, which the coordinator keeps",
}
"""What files of other kinds are."""
_REMEDY = {
    "fedica.study": " Give the .json file that fedica study new wrote.",
    "fedica.key": " Give the .pub file that fedica keygen wrote.",
}
_BYTES_OF = {"{": 240, "[": 72, ",": 72}
"""What an object, a list, and an entry of either take at most, besides their texts."""


def plain_bytes(name: str, fields: Mapping[str, Any]) -> bytes:
    """Return the file's bytes: the format, the version, then the fields, in order."""
    content = {"format": name, "version": VERSION, **fields}
    return json_text(content, f"a {name} file", indent=2).encode() + b"\n"


def json_text(value: Any, what: str, *, indent: int | None = None) -> str:
    """Return the value as JSON: compact, or indented for people, without a character that is not printable.

    What JSON or UTF-8 cannot say is refused.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        text = json.dumps(
            value, ensure_ascii=False, indent=indent, separators=separators, allow_nan=False, default=_plain_value
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} holds plain texts, finite numbers and truth values ({error}).") from error
    if not encodable(text):
        raise InputError(f"{what} holds Unicode text; got half a surrogate pair.")
    return text if indent is None else show_json(text)


def read_plain(path: PathLike, name: str, *, limit: int) -> dict[str, Any]:
    """Return the fields of a plain file without its format and version, which are checked."""
    source = show_text(os.fspath(path), MAX_PATH)
    _refuse_binary(path, name, source)
    data = read_bounded(path, limit=limit, what=f"a {name} file")
    fields = parse_json(data, source)
    if not isinstance(fields, dict) or fields.get("format") != name:
        found = fields.get("format") if isinstance(fields, dict) else None
        raise FormatError(f"{source}: expected a {name} file; got JSON with the format {str(found)[:60]!r}.")
    check_version(fields.get("version"), [VERSION], name, source)
    return {key: value for key, value in fields.items() if key not in ("format", "version")}


def _refuse_binary(path: PathLike, name: str, source: str) -> None:
    """Refuse a safetensors file in place of a text, and say what it is: of it nothing but the header is read."""
    head = read_bounded(path, limit=sys.maxsize, what=f"a {name} file", head=9)
    n_header = int.from_bytes(head[:8], "little")
    if head[8:] != b"{" or n_header > _MAX_HEADER:
        return
    text = read_bounded(path, limit=sys.maxsize, what=f"a {name} file", head=8 + n_header)[8:]
    try:
        kind = parse_header(text.decode("utf-8", "replace"), source)[0].get("format", "")
    except FormatError:
        kind = ""
    what = _BINARY.get(kind, "a safetensors file")
    raise FormatError(f"{source}: expected a {name} file, which is text; this is {what}.{_REMEDY.get(name, '')}")


def parse_json(data: bytes | str, source: str) -> Any:
    """Return what the JSON says; refuse a name that appears twice, NaN and infinity, and what nests too deep."""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        _check_memory(text, source)
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError as error:
        raise FormatError(f"{source}: its JSON nests too deep.") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{source}: it must be UTF-8 text; byte {error.start} is not.") from error
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{source}: it is not JSON as fedica reads it ({str(error)[:200]}).") from error
    if "\\ud" in text.lower() and not encodable(json.dumps(value, ensure_ascii=False)):
        raise FormatError(f"{source}: it must be Unicode text; got half a surrogate pair.")
    return value


def _check_memory(text: str, source: str) -> None:
    """Refuse what would take too much memory before it is read."""
    needed = sum(size * text.count(sign) for sign, size in _BYTES_OF.items())
    if needed > MAX_JSON_MEMORY:
        raise FormatError(
            f"{source}: its JSON may take {MAX_JSON_MEMORY // 2**20} MB of memory; it would take about "
            f"{needed // 2**20} MB."
        )


def _plain_value(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"got {type(value).__name__}")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name appears twice in one object")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")

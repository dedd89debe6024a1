"""Everything that a file holds, field by field, from its bytes: what a data manager reads before it leaves."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import PathLike
from fedica.errors import FormatError
from fedica.exchange import aggregate_from_bytes, contribution_from_bytes, details_from_bytes, scores_from_bytes
from fedica.exchange.aggregates import AGGREGATE
from fedica.exchange.contributions import CONTRIBUTION
from fedica.exchange.details import DETAILS
from fedica.exchange.files import read_bounded, sha256
from fedica.exchange.folder import MAX_SUMMARY_BYTES, SUMMARY
from fedica.exchange.format import FileKind, parse
from fedica.exchange.header import parse_header, parse_texts
from fedica.exchange.json_files import json_text, read_plain
from fedica.exchange.scores import SCORES
from fedica.exchange.signatures import KEY, MAX_KEY_FILE, read_public_key
from fedica.exchange.studies import MAX_STUDY_BYTES, STUDY, read_study
from fedica.text import MAX_PATH, show_text

MAX_SHOWN = 100
"""Characters of a value that are shown."""
_BINARY: dict[str, tuple[FileKind, Any]] = {
    CONTRIBUTION.name: (CONTRIBUTION, contribution_from_bytes),
    AGGREGATE.name: (AGGREGATE, aggregate_from_bytes),
    DETAILS.name: (DETAILS, details_from_bytes),
    SCORES.name: (SCORES, scores_from_bytes),
}
_JSON_BYTES = {STUDY: MAX_STUDY_BYTES, KEY: MAX_KEY_FILE, SUMMARY: MAX_SUMMARY_BYTES}
"""The JSON files that are shown, and how large each may be."""
_HEAD = 4096
_FORMAT = re.compile(rb'"format"\s*:\s*"(fedica\.[a-z]+)"')


@dataclass(frozen=True)
class Field:
    """One field of a file.

    Parameters
    ----------
    name : str
        What it is called in the file.
    n_bytes : int
        How large its value is.
    value : str
        The value, or the range of the numbers, short enough to show.
    """

    name: str
    n_bytes: int
    value: str


@dataclass(frozen=True)
class Inspected:
    """What one file holds; it was read and checked as a whole.

    Parameters
    ----------
    path : str
        The file.
    format : str
        What it is.
    n_bytes : int
        Its size.
    sha256 : str
        Its fingerprint.
    fields : tuple of Field
        All that is in it.
    """

    path: str
    format: str
    n_bytes: int
    sha256: str
    fields: tuple[Field, ...]


def inspect_file(path: PathLike) -> Inspected:
    """Read and check a file of fedica (any but tables and reports), and list its fields.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    Inspected
        All that is in it.

    Raises
    ------
    FormatError
        If it is none of these, or damaged.
    """
    shown = show_text(os.fspath(path), MAX_PATH)
    head = read_bounded(path, limit=DETAILS.max_bytes, what="a file of fedica", head=_HEAD)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _inspect_json(path, head, shown)
    kind, read = _BINARY[_binary_format(path, head, shown)]
    data = read_bounded(path, limit=kind.max_bytes, what=f"a {kind.name} file")
    read(data, source=shown)  # everything in it is checked
    return Inspected(shown, kind.name, len(data), sha256(data), fields_of(data, kind, shown))


def fields_of(data: bytes, kind: FileKind, source: str) -> tuple[Field, ...]:
    """Return all fields of a binary file, from its bytes: nothing else is in it."""
    container = parse(data, kind, source)
    texts = [Field(name, len(text.encode()), _shorten(text)) for name, text in sorted(container.metadata.items())]
    numbers = [Field(name, array.nbytes, _describe_array(array)) for name, array in sorted(container.tensors.items())]
    return (*numbers, *texts)


def _binary_format(path: PathLike, head: bytes, source: str) -> str:
    """Return which of our formats the header names; of the file nothing but the header is read."""
    n_header = int.from_bytes(head[:8], "little")
    if len(head) < 8 or n_header > DETAILS.max_header:
        raise FormatError(f"{source}: it is neither a safetensors file nor JSON, or it is cut short.")
    text = read_bounded(path, limit=DETAILS.max_bytes, what="a file of fedica", head=8 + n_header)[8:]
    try:
        metadata, _ = parse_header(text.decode("utf-8"), source)
    except UnicodeDecodeError as error:
        raise FormatError(f"{source}: its header must be UTF-8; byte {8 + error.start} is not.") from error
    name = metadata.get("format", "")
    if name not in _BINARY:
        raise FormatError(f"{source}: expected a file of fedica, got one of format {name[:60]!r}.")
    return name


def _inspect_json(path: PathLike, head: bytes, source: str) -> Inspected:
    """Read a study or a public key as what it is; show the fields of a summary. The start of the file says what it is.

    A study may have been edited, so that it says so elsewhere; its reader tells what is wrong with any other file.
    """
    said = _FORMAT.search(head)
    name = said[1].decode() if said is not None and said[1].decode() in _JSON_BYTES else STUDY
    data = read_bounded(path, limit=_JSON_BYTES[name], what=f"a {name} file")
    if name == STUDY:
        read_study(path)
    elif name == KEY:
        read_public_key(path)
    fields = read_plain(path, name, limit=_JSON_BYTES[name])
    shown = tuple(Field(key, len(_json(value).encode()), _shorten(value)) for key, value in fields.items())
    return Inspected(source, name, len(data), sha256(data), shown)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value, "a field")


def _shorten(value: Any) -> str:
    """Return a value as it can be shown: whole if it is short; a list of names as its length and its beginning."""
    names = value if isinstance(value, list) else _names_in(value) if isinstance(value, str) else []
    if names:
        first = [item.get("name", item) if isinstance(item, dict) else item for item in names[:MAX_SHOWN]]
        listed = ", ".join(map(str, first))
        more = " ..." if len(names) > MAX_SHOWN or len(listed) > MAX_SHOWN else ""
        return f"{len(names)}: {show_text(listed[:MAX_SHOWN])}{more}"
    return show_text(_json(value), MAX_SHOWN)


def _names_in(text: str) -> list[str]:
    """Return the names of a JSON list of names; none if the text is anything else, which is no fault."""
    try:
        return parse_texts(text, "a field") if text.startswith("[") else []
    except FormatError:
        return []


def _describe_array(array: NDArray[Any]) -> str:
    size = " x ".join(map(str, array.shape))
    kind = {"f": "numbers", "i": "whole numbers", "b": "truth values"}[array.dtype.kind]
    if array.size == 0 or array.dtype.kind == "b":
        return f"{size} {kind}"
    if array.dtype.kind == "i":
        return f"{size} {kind}, from {array.min()} to {array.max()}"
    finite = np.isfinite(array)
    low, high = array.min(where=finite, initial=np.inf), array.max(where=finite, initial=-np.inf)
    if low > high:
        return f"{size} {kind}, none of them finite"
    return f"{size} {kind}, from {low:.4g} to {high:.4g}"

"""Everything that a file holds, field by field, from its bytes: what a data manager reads before it leaves."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import PathLike
from fedica.errors import FormatError
from fedica.exchange import aggregate_from_bytes, contribution_from_bytes, details_from_bytes
from fedica.exchange.aggregates import AGGREGATE
from fedica.exchange.contributions import CONTRIBUTION
from fedica.exchange.details import DETAILS
from fedica.exchange.files import read_bounded, sha256
from fedica.exchange.format import FileKind, parse
from fedica.exchange.header import parse_header
from fedica.exchange.json_files import read_plain
from fedica.exchange.signatures import read_public_key
from fedica.exchange.studies import STUDY, read_study

MAX_SHOWN = 100
"""Characters of a value that are shown."""
_BINARY: dict[str, tuple[FileKind, Any]] = {
    CONTRIBUTION.name: (CONTRIBUTION, contribution_from_bytes),
    AGGREGATE.name: (AGGREGATE, aggregate_from_bytes),
    DETAILS.name: (DETAILS, details_from_bytes),
}
_MAX_JSON = 64 * 1024 * 1024


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
    """Read and check a contribution, an aggregate, details, a study, a summary or a public key, and list its fields.

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
    shown = os.fspath(path)
    data = read_bounded(path, limit=DETAILS.max_bytes, what="a file of fedica")
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        name, fields = _json_fields(path, data)
        return Inspected(shown, name, len(data), sha256(data), fields)
    name = _binary_format(data, shown)
    kind, read = _BINARY[name]
    read(data, source=shown)  # everything in it is checked
    return Inspected(shown, name, len(data), sha256(data), fields_of(data, kind, shown))


def fields_of(data: bytes, kind: FileKind, source: str) -> tuple[Field, ...]:
    """Return all fields of a binary file, from its bytes: nothing else is in it."""
    container = parse(data, kind, source)
    texts = [Field(name, len(text.encode()), _shorten(name, text)) for name, text in sorted(container.metadata.items())]
    numbers = [Field(name, array.nbytes, _describe_array(array)) for name, array in sorted(container.tensors.items())]
    return (*numbers, *texts)


def _binary_format(data: bytes, source: str) -> str:
    """Return which of our formats the header names."""
    n_header = int.from_bytes(data[:8], "little")
    if len(data) < 8 or n_header > min(DETAILS.max_header, len(data) - 8):
        raise FormatError(f"{source}: it is neither a safetensors file nor JSON, or it is cut short.")
    try:
        metadata, _ = parse_header(data[8 : 8 + n_header].decode("utf-8"), source)
    except UnicodeDecodeError as error:
        raise FormatError(f"{source}: its header must be UTF-8; byte {8 + error.start} is not.") from error
    name = metadata.get("format", "")
    if name not in _BINARY:
        raise FormatError(f"{source}: expected a file of fedica, got one of format {name[:60]!r}.")
    return name


def _json_fields(path: PathLike, data: bytes) -> tuple[str, tuple[Field, ...]]:
    """Read a study or a public key as what it is; show the fields of any other plain file."""
    try:
        name = json.loads(data.decode("utf-8-sig")).get("format")
    except (ValueError, AttributeError, RecursionError):
        name = None
    name = name if isinstance(name, str) else STUDY  # the reader of studies says what is wrong with it
    if name == STUDY:
        read_study(path)
    elif name == "fedica.key":
        read_public_key(path)
    fields = read_plain(path, name, limit=_MAX_JSON)
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in fields.items()
    }
    return name, tuple(Field(key, len(text.encode()), _shorten(key, text)) for key, text in texts.items())


def _shorten(name: str, text: str) -> str:
    """Return a value as it can be shown: whole if it is short; a list as its length and its beginning."""
    if name in ("features", "clients") and text.startswith("["):
        items = json.loads(text)
        names = [item.get("name", "") if isinstance(item, dict) else str(item) for item in items]
        listed = ", ".join(names)
        return f"{len(names)}: {listed}" if len(listed) <= MAX_SHOWN else f"{len(names)}: {listed[:MAX_SHOWN]} ..."
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ... ({len(text)} characters)"


def _describe_array(array: NDArray[Any]) -> str:
    size = " x ".join(map(str, array.shape))
    kind = {"f": "numbers", "i": "whole numbers", "b": "truth values"}[array.dtype.kind]
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    if finite.size == 0 or array.dtype.kind == "b":
        return f"{size} {kind}"
    return f"{size} {kind}, from {finite.min():.4g} to {finite.max():.4g}"


def check_parent_exists(path: PathLike) -> None:
    """Refuse an output whose folder does not exist, before any work is done."""
    parent = Path(path).parent
    if not parent.is_dir():
        raise FormatError(f"{os.fspath(path)}: cannot be written: there is no folder {str(parent)!r}. Make it first.")

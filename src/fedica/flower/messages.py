"""The content of Flower's messages: whole files of docs/format.md as bytes, and nothing that could be executed.

The bytes are those that ``fedica local`` and ``fedica aggregate`` write, so that signatures hold and the same code
reads them. They travel in an array record because Flower cuts those into pieces, which a proxy can bound; Flower's own
decoding of arrays is never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedica.errors import FormatError
from fedica.text import list_names

CONTRIBUTION_TYPE = "train.contribution"
SCORES_TYPE = "train.scores"
AGGREGATE_TYPE = "query.aggregate"
CONTRIBUTION = "contribution"
SCORES = "scores"
AGGREGATE = "aggregate"
REQUEST = "request"
REFUSAL = "refusal"
APPLIED = "applied"
_FILE = "file"


def pack_file(kind: str, data: bytes) -> RecordDict:
    """Return a message's content: one file."""
    return RecordDict({kind: ArrayRecord({_FILE: Array("uint8", (len(data),), f"fedica.{kind}", data)})})


def unpack_file(content: RecordDict, kind: str) -> bytes:
    """Return the bytes of the one file of this kind; refuse a content that holds anything else."""
    record = content.get(kind)
    if set(content) != {kind} or not isinstance(record, ArrayRecord):
        raise FormatError(f"a message must hold the record {kind!r} alone; got {_listed(content)}.")
    if set(record) != {_FILE}:
        raise FormatError(f"the record {kind!r} must hold the array {_FILE!r} alone; got {_listed(record)}.")
    array = record[_FILE]
    if array.stype != f"fedica.{kind}":
        raise FormatError(f"an array must be of kind 'fedica.{kind}'; got one of kind {array.stype[:60]!r}.")
    return bytes(array.data)


def pack_fields(name: str, fields: Mapping[str, Any]) -> RecordDict:
    """Return a message's content: a few texts and numbers."""
    return RecordDict({name: ConfigRecord(dict(fields))})


def unpack_fields(content: RecordDict, name: str) -> dict[str, Any] | None:
    """Return the texts and numbers of this name, or ``None`` if the content holds anything else."""
    record = content.get(name)
    return dict(record) if set(content) == {name} and isinstance(record, ConfigRecord) else None


def _listed(records: Mapping[str, Any]) -> str:
    return list_names([str(name) for name in records]) or "nothing"

"""What travels in Flower's messages: whole files of docs/format.md as bytes, and nothing that could run.

The bytes are those that ``fedica local`` and ``fedica aggregate`` write, so that signatures hold and the same code
reads them. They travel in an array record because Flower cuts those into pieces, which a proxy can bound; Flower's own
decoding of arrays is never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedica.errors import FormatError

CONTRIBUTION_TYPE = "train.contribution"
AGGREGATE_TYPE = "query.aggregate"
CONTRIBUTION = "contribution"
AGGREGATE = "aggregate"
REQUEST = "request"
REFUSAL = "refusal"
APPLIED = "applied"
_FILE = "file"
_SHOWN = 5


def pack_file(kind: str, data: bytes) -> RecordDict:
    """Return a message's content: one file."""
    return RecordDict({kind: ArrayRecord({_FILE: Array("uint8", (len(data),), f"fedica.{kind}", data)})})


def unpack_file(content: RecordDict, kind: str) -> bytes:
    """Return the bytes of the one file of this kind; whatever else is in the content is refused."""
    record = content.get(kind)
    if set(content) != {kind} or not isinstance(record, ArrayRecord):
        raise FormatError(f"a message with the record {kind!r} alone was wanted; {_listed(content)} came.")
    if set(record) != {_FILE}:
        raise FormatError(f"the record {kind!r} has the array {_FILE!r} alone; {_listed(record)} came.")
    array = record[_FILE]
    if array.stype != f"fedica.{kind}":
        raise FormatError(f"a file of kind 'fedica.{kind}' was wanted; an array of kind {array.stype[:60]!r} came.")
    return bytes(array.data)


def pack_fields(name: str, fields: Mapping[str, Any]) -> RecordDict:
    """Return a message's content: a few texts and numbers."""
    return RecordDict({name: ConfigRecord(dict(fields))})


def unpack_fields(content: RecordDict, name: str) -> dict[str, Any] | None:
    """Return the texts and numbers of this name, or ``None`` if the content is anything else."""
    record = content.get(name)
    return dict(record) if set(content) == {name} and isinstance(record, ConfigRecord) else None


def _listed(records: Mapping[str, Any]) -> str:
    names = [repr(str(name)[:60]) for name in records]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more

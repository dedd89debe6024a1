"""Scores <-> bytes <-> file: a client's second message, in the same container and with the same checks as its first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedica.arrays import Array, PathLike
from fedica.errors import FormatError, InputError
from fedica.exchange.field_values import read_value, write_value
from fedica.exchange.files import read_bounded, write_atomic
from fedica.exchange.format import Container, FileKind, common_metadata, declared, require_tensor
from fedica.exchange.intake import read_each
from fedica.exchange.signatures import SigningKey, TrustedKeys
from fedica.exchange.signed import message_chunks, read_message
from fedica.records import Rejection, Scores
from fedica.records.fields import Form
from fedica.text import MAX_PATH, show_text

SCORES = FileKind("fedica.scores", max_header=1024 * 1024, max_numbers=2_000_000)
NONLINEARITY = "logcosh"
"""The g of a second message is the derivative of log cosh: tanh."""
TENSORS = {"scale": 1, "covariance": 2, "products": 2, "slopes": 1}
"""The tensors of a file, all F64, and how many dimensions each has."""
FORMS = {"n_samples": Form.WHOLE_NUMBER, "components": Form.WHOLE_NUMBERS, "refines": Form.TEXT}
"""The metadata that every file has, besides ``client`` and ``nonlinearity``."""
SERIAL = {"serial": Form.WHOLE_NUMBER}
"""What a file may have."""


def write_scores(scores: Scores, path: PathLike, *, key: SigningKey | None = None) -> None:
    """Write a second message to one file, whole or not at all.

    Parameters
    ----------
    scores : Scores
        What the client sends.
    path : path-like
        The file; an older one is replaced.
    key : SigningKey, optional
        The client's key, from `read_signing_key`; the file is then signed.
    """
    write_atomic(path, _chunks(scores, key))


def scores_to_bytes(scores: Scores, *, key: SigningKey | None = None) -> bytes:
    """Return the bytes that `write_scores` writes."""
    return b"".join(_chunks(scores, key))


def read_scores(path: PathLike, *, trusted: TrustedKeys | None = None) -> Scores:
    """Read one client's second message. Everything in it is checked; memory is bounded by the limits of the format.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : TrustedKeys, optional
        If given, the file must be signed by the key that is trusted for the client that it names.

    Raises
    ------
    FormatError
        If it is not a regular file, or not a second message as docs/format.md defines it.
    ContributionError
        If it is one that must be refused; the sentence names the client.
    """
    data = read_bounded(path, limit=SCORES.max_bytes, what="a second message")
    return scores_from_bytes(data, source=show_text(os.fspath(path), MAX_PATH), trusted=trusted)


def scores_from_bytes(data: bytes, *, source: str = "scores", trusted: TrustedKeys | None = None) -> Scores:
    """Return the second message that the bytes hold, checked as by `read_scores`; errors start with ``source``."""
    return read_message(data, SCORES, _scores, source=source, trusted=trusted)[0]


def next_scores_serial(scores: Scores, path: PathLike) -> int | None:
    """Return the number of a second message that replaces the client's last one for the same aggregate in a file.

    As `next_serial` does of contributions: the same number if it says the same, ``None`` if the file is not such a one.
    """
    try:
        last = read_scores(path)
    except InputError:
        return None
    if (last.client, last.refines) != (scores.client, scores.refines):
        return None
    same = scores_to_bytes(replace(scores, serial=last.serial)) == scores_to_bytes(last)
    return last.serial if same else (last.serial or 0) + 1


def read_second_messages(
    paths: PathLike | Iterable[PathLike], *, trusted: TrustedKeys | None = None
) -> Iterator[tuple[Path, Scores] | Rejection]:
    """Read second messages from files and folders, one by one: each with its file, or a rejection that says why."""
    return read_each(paths, lambda file: (file, read_scores(file, trusted=trusted)))


def _chunks(scores: Scores, key: SigningKey | None) -> list[bytes | memoryview]:
    return message_chunks(SCORES, scores.client, lambda: _content(scores), _scores, key=key)


def _content(scores: Scores) -> tuple[dict[str, str], dict[str, Array]]:
    """Return the metadata and the tensors of a file."""
    told = declared({"client": scores.client, "study": scores.study, "nonlinearity": NONLINEARITY})
    who = f"client {scores.client!r}"
    forms = FORMS if scores.serial is None else {**FORMS, **SERIAL}
    values = {name: write_value(form, getattr(scores, name), f"{who}: {name}") for name, form in forms.items()}
    return {**common_metadata(SCORES), **told, **values}, {name: getattr(scores, name) for name in TENSORS}


def _scores(container: Container, client: str) -> Scores:
    """Return the record; what it does not check itself is checked here."""
    source, metadata = container.source, container.metadata
    unknown = sorted(container.tensors.keys() - TENSORS.keys())
    missing = sorted({*FORMS, "nonlinearity"} - metadata.keys())
    if unknown or missing:
        what = f"no tensor {unknown[0]!r}" if unknown else f"the metadata field {missing[0]!r}"
        raise FormatError(f"{source}: a second message has {what}.")
    if metadata["nonlinearity"] != NONLINEARITY:
        raise FormatError(
            f"{source}: a second message is made with the nonlinearity {NONLINEARITY!r}; "
            f"got {metadata['nonlinearity'][:40]!r}."
        )
    forms = FORMS if "serial" not in metadata else {**FORMS, **SERIAL}
    values: dict[str, Any] = {n: read_value(f, metadata[n], f"client {client!r}: {n}") for n, f in forms.items()}
    for name, n_dimensions in TENSORS.items():
        values[name] = require_tensor(container, name, "F64", n_dimensions)
    return Scores(client, **values, study=metadata.get("study"))

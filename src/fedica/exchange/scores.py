"""Scores <-> bytes <-> file: a client's second message, in the same container and with the same checks as its first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fedica.arrays import PathLike
from fedica.errors import FormatError
from fedica.exchange.contributions import client_of, naming_client
from fedica.exchange.field_values import read_value, write_value
from fedica.exchange.files import read_bounded, write_atomic
from fedica.exchange.format import Container, FileKind, chunks_within, common_metadata, declared, parse, require_tensor
from fedica.exchange.intake import read_each
from fedica.exchange.signatures import SigningKey, TrustedKeys, check_signature, check_signature_fields, sign
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
    container = parse(data, SCORES, source)
    client = client_of(container)
    with naming_client(client, source):
        if trusted is not None:
            check_signature(container, data, client, trusted)
        check_signature_fields(container.metadata)
        return _scores(container, client)


def read_second_messages(
    paths: PathLike | Iterable[PathLike], *, trusted: TrustedKeys | None = None
) -> Iterator[tuple[Path, Scores] | Rejection]:
    """Read second messages from files and folders, one by one: each with its file, or a rejection that says why."""
    return read_each(paths, lambda file: (file, read_scores(file, trusted=trusted)))


def _chunks(scores: Scores, key: SigningKey | None) -> list[bytes | memoryview]:
    client, what = scores.client, f"client {scores.client!r}"
    with naming_client(client, what):
        told = declared({"client": client, "study": scores.study, "nonlinearity": NONLINEARITY})
        values = {n: write_value(form, getattr(scores, n), f"{what}: {n}") for n, form in FORMS.items()}
        metadata = {**common_metadata(SCORES), **told, **values}
        container = Container(what, metadata, {name: getattr(scores, name) for name in TENSORS})
        _scores(container, client)  # refuse to write what a reader would refuse
        if key is not None:
            container = sign(container, client, key)
        return chunks_within(SCORES, container.metadata, container.tensors)


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
    values: dict[str, Any] = {n: read_value(f, metadata[n], f"client {client!r}: {n}") for n, f in FORMS.items()}
    for name, n_dimensions in TENSORS.items():
        values[name] = require_tensor(container, name, "F64", n_dimensions)
    return Scores(client, **values, study=metadata.get("study"))

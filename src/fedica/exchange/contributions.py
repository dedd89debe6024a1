"""Contribution <-> bytes <-> file: the one small message that a client sends."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, PathLike, column_norms
from fedica.errors import FormatError, InputError
from fedica.exchange.field_values import read_value, write_value
from fedica.exchange.files import read_bounded, sha256, write_atomic
from fedica.exchange.format import Container, FileKind, common_metadata, require_tensor
from fedica.exchange.signatures import SigningKey, TrustedKeys
from fedica.exchange.signed import message_chunks, read_message
from fedica.records import CONTRIBUTION_FIELDS, Contribution
from fedica.records.fields import Form
from fedica.text import MAX_PATH, show_text

CONTRIBUTION = FileKind("fedica.contribution", 4 * 1024 * 1024, max_numbers=11_000_000, versions=("1", "2"))
NORM_TOL = 1e-6
"""How far the norm of an atom in a file may be from one."""
COMMON_FIELDS = ("format", "version", "fedica", "key", "signature")
RESERVED = frozenset((*COMMON_FIELDS, *CONTRIBUTION_FIELDS))
"""The names that the format defines; all other metadata is a contribution's ``extra``."""


@dataclass(frozen=True)
class Provenance:
    """Where a contribution came from.

    Parameters
    ----------
    client : str
        Who it says it is from.
    n_samples : int or None
        The samples that it declares.
    source : str
        The file or message that it came in.
    n_bytes : int
        How large that was.
    sha256 : str
        Its fingerprint, in hexadecimal.
    fedica : str
        The version of fedica that says it wrote it; empty if none does.
    key : str, optional
        The public key that it says it is signed with, in hexadecimal; ``None`` if it is unsigned.
    verified : bool
        Whether the signature was checked against the client's trusted key, and held.
    """

    client: str
    n_samples: int | None
    source: str
    n_bytes: int
    sha256: str
    fedica: str
    key: str | None
    verified: bool


@dataclass(frozen=True, eq=False)
class Received:
    """A contribution as it arrived: what it holds, and where that came from.

    Parameters
    ----------
    contribution : Contribution
        What the client sent.
    provenance : Provenance
        Where it came from.
    narrow : ndarray of shape (d, r_k), optional
        The atoms as they were sent, if that was in single precision.
    """

    contribution: Contribution
    provenance: Provenance
    narrow: NDArray[np.float32] | None = None


def write_contribution(
    contribution: Contribution, path: PathLike, *, key: SigningKey | None = None, float32: bool = False
) -> None:
    """Write a contribution to one file, whole or not at all.

    Parameters
    ----------
    contribution : Contribution
        What the client sends.
    path : path-like
        The file; an older one is replaced.
    key : SigningKey, optional
        The client's key, from `read_signing_key`; the file is then signed.
    float32 : bool
        Whether the atoms are written in single precision: half the size, and an error of 6e-8 of each entry.
    """
    write_atomic(path, _chunks(contribution, key, float32=float32))


def contribution_to_bytes(contribution: Contribution, *, key: SigningKey | None = None, float32: bool = False) -> bytes:
    """Return the bytes that `write_contribution` writes."""
    return b"".join(_chunks(contribution, key, float32=float32))


def next_serial(contribution: Contribution, path: PathLike, *, float32: bool = False) -> int | None:
    """Return the number of a message that replaces the client's last one in a file.

    One more than the last one has; the same number if it says the same, so that equal inputs give equal bytes; ``None``
    if the file is not a contribution of this client.
    """
    try:
        last = read_contribution(path)
    except InputError:
        return None
    if last.client != contribution.client:
        return None
    now = contribution_to_bytes(replace(contribution, serial=last.serial), float32=float32)
    same = contribution_to_bytes(contribution_from_bytes(now)) == contribution_to_bytes(last)
    return last.serial if same else (last.serial or 0) + 1


def read_contribution(path: PathLike, *, trusted: TrustedKeys | None = None) -> Contribution:
    """Read one client's contribution. Everything in it is checked; memory is bounded by the limits of the format.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : TrustedKeys, optional
        If given, the file must be signed by the key that is trusted for the client that it names.

    Raises
    ------
    FormatError
        If it is not a regular file, or not a contribution as docs/format.md defines it.
    ContributionError
        If it is one that must be refused; the sentence names the client.
    """
    return receive(path, trusted=trusted).contribution


def contribution_from_bytes(
    data: bytes, *, source: str = "contribution", trusted: TrustedKeys | None = None
) -> Contribution:
    """Return the contribution that the bytes hold, checked as by `read_contribution`; errors start with ``source``."""
    return receive_bytes(data, source=source, trusted=trusted).contribution


def receive(path: PathLike, *, trusted: TrustedKeys | None = None) -> Received:
    """Read a contribution as `read_contribution` does, and tell where it came from."""
    data = read_bounded(path, limit=CONTRIBUTION.max_bytes, what="a contribution")
    return receive_bytes(data, source=show_text(os.fspath(path), MAX_PATH), trusted=trusted)


def receive_bytes(data: bytes, *, source: str, trusted: TrustedKeys | None = None) -> Received:
    """Read a contribution from bytes, and tell where it came from."""
    contribution, container = read_message(data, CONTRIBUTION, _contribution, source=source, trusted=trusted)
    key = container.metadata.get("key")
    provenance = Provenance(
        contribution.client,
        contribution.n_samples,
        source,
        len(data),
        sha256(data),
        fedica=show_text(container.metadata.get("fedica", "")),
        key=None if key is None else show_text(key),
        verified=trusted is not None,
    )
    sent = container.tensors["atoms"]
    return Received(contribution, provenance, sent if sent.dtype == np.float32 else None)


def _chunks(contribution: Contribution, key: SigningKey | None, *, float32: bool) -> list[bytes | memoryview]:
    return message_chunks(
        CONTRIBUTION,
        contribution.client,
        lambda: _content(contribution, float32=float32),
        _contribution,
        key=key,
        float32=float32,
    )


def _content(contribution: Contribution, *, float32: bool) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Return the metadata and the tensors of a file."""
    clash = sorted(RESERVED & contribution.extra.keys())
    if clash:
        raise InputError(f"extra metadata may not be called {clash[0]!r}: the format uses that name. Rename it.")
    metadata, tensors = {**contribution.extra, **common_metadata(CONTRIBUTION)}, {}
    for name, field in CONTRIBUTION_FIELDS.items():
        value = getattr(contribution, name)
        if field.is_tensor and value is not None:
            narrow = float32 and field.form is Form.TENSOR_OR_F32
            tensors[name] = value.astype(np.float32) if narrow else value
        elif value is not None:
            metadata[name] = write_value(field.form, value, f"client {contribution.client!r}: {name}")
    return metadata, tensors


def _contribution(container: Container, client: str) -> Contribution:
    """Return the record, with everything that the record itself does not check checked here."""
    version = int(container.metadata["version"])
    known = {name: field for name, field in CONTRIBUTION_FIELDS.items() if field.since <= version}
    unknown = sorted(container.tensors.keys() - {name for name, field in known.items() if field.is_tensor})
    if unknown:
        raise FormatError(f"{container.source}: a contribution of version {version} has no tensor {unknown[0]!r}.")
    values: dict[str, Any] = {"n_samples": None}
    for name, field in known.items():
        if field.is_tensor and (field.required or name in container.tensors):
            narrow_too = field.form is Form.TENSOR_OR_F32 and version >= 2
            values[name] = require_tensor(container, name, ("F64", "F32") if narrow_too else ("F64",), 2)
        elif not field.is_tensor and name in container.metadata:
            values[name] = read_value(field.form, container.metadata[name], f"client {client!r}: {name}")
    if "gram" in values:
        values["gram"] = values["gram"].copy()  # a view of the message would keep all of it in memory
    values["atoms"] = _check_atoms(values["atoms"].astype(np.float64, copy=False), client)
    own_names = {*known, *COMMON_FIELDS}
    extra = {name: value for name, value in container.metadata.items() if name not in own_names}
    return Contribution(**values, extra=extra)


def _check_atoms(atoms: Array, client: str) -> Array:
    """Return the atoms if they are what a file promises, without a copy of them."""
    n_features, n_atoms = atoms.shape
    if not 1 <= n_atoms <= n_features:
        raise InputError(
            f"client {client!r} sends {n_atoms} atoms of {n_features} features; a contribution has at least one "
            "atom, and at most as many as features."
        )
    norms = column_norms(atoms)
    if not np.isfinite(norms).all():
        n_bad = atoms.size - np.count_nonzero(np.isfinite(atoms))
        raise InputError(
            f"client {client!r}: atoms must be finite and of norm one; got {n_bad} NaN or infinite values."
        )
    worst = int(np.argmax(np.abs(norms - 1)))
    if abs(norms[worst] - 1) > NORM_TOL:
        raise InputError(
            f"client {client!r}: atoms must have norm one, to {NORM_TOL:g}; atom {worst} has norm {norms[worst]:.9g}."
        )
    return atoms

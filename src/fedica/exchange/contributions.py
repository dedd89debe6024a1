"""Contribution <-> bytes <-> file: the one small message that a client sends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import ContributionError, FormatError, InputError
from fedica.exchange.files import PathLike, read_bounded, sha256, write_atomic
from fedica.exchange.format import Container, Kind, chunks_within, common_metadata, declared, natural, parse, take
from fedica.exchange.header import check_names, parse_texts
from fedica.exchange.json_files import json_text
from fedica.exchange.signatures import SigningKey, TrustedKeys, check_signature, sign
from fedica.records import Contribution, check_name

CONTRIBUTION = Kind("fedica.contribution", max_header=4 * 1024 * 1024, max_numbers=10_000_000)
NORM_TOL = 1e-6
"""How far the norm of an atom in a file may be from one."""
_OURS = ("format", "version", "fedica", "client", "n_samples", "features", "solver", "independence", "mixing", "study")
RESERVED = frozenset((*_OURS, "key", "signature"))
"""The metadata fields that the format defines; all others are a contribution's ``extra``."""


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
    """

    contribution: Contribution
    provenance: Provenance


def write_contribution(contribution: Contribution, path: PathLike, *, key: SigningKey | None = None) -> None:
    """Write a contribution to one file, whole or not at all.

    Parameters
    ----------
    contribution : Contribution
        What the client sends.
    path : path-like
        The file; an older one is replaced.
    key : SigningKey, optional
        The client's key, from `read_signing_key`; the file is then signed.
    """
    write_atomic(path, _chunks(contribution, key))


def contribution_to_bytes(contribution: Contribution, *, key: SigningKey | None = None) -> bytes:
    """Return the bytes that `write_contribution` writes."""
    return b"".join(_chunks(contribution, key))


def read_contribution(path: PathLike, *, trusted: TrustedKeys | None = None, study: str | None = None) -> Contribution:
    """Read one client's contribution. Everything in it is checked; memory is bounded by the limits of the format.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : TrustedKeys, optional
        If given, the file must be signed by the key that is trusted for the client that it names.
    study : str, optional
        If given, the contribution must be for the study of this id.

    Raises
    ------
    FormatError
        If it is not a regular file, or not a contribution as docs/format.md defines it.
    ContributionError
        If it is one that must be refused; the sentence names the client.
    """
    return receive(path, trusted=trusted, study=study).contribution


def contribution_from_bytes(
    data: bytes, *, source: str = "contribution", trusted: TrustedKeys | None = None, study: str | None = None
) -> Contribution:
    """Return the contribution that the bytes hold, checked as by `read_contribution`; errors start with ``source``."""
    return receive_bytes(data, source=source, trusted=trusted, study=study).contribution


def receive(path: PathLike, *, trusted: TrustedKeys | None = None, study: str | None = None) -> Received:
    """Read a contribution as `read_contribution` does, and tell where it came from."""
    data = read_bounded(path, limit=CONTRIBUTION.max_bytes, what="a contribution")
    return receive_bytes(data, source=os.fspath(path), trusted=trusted, study=study)


def receive_bytes(
    data: bytes, *, source: str, trusted: TrustedKeys | None = None, study: str | None = None
) -> Received:
    """Read a contribution from bytes, and tell where it came from."""
    container = parse(data, CONTRIBUTION, source)
    client = _client(container)
    with _blaming(client, source):
        if trusted is not None:
            check_signature(container, data, client, trusted)
        contribution = _contribution(container, client)
        _check_study(contribution, study)
    provenance = Provenance(
        client,
        contribution.n_samples,
        source,
        len(data),
        sha256(data),
        fedica=container.metadata.get("fedica", ""),
        key=container.metadata.get("key"),
        verified=trusted is not None,
    )
    return Received(contribution, provenance)


@contextlib.contextmanager
def _blaming(client: str, source: str) -> Iterator[None]:
    """Turn what goes wrong inside into an error that names the client and starts with the source."""
    try:
        yield
    except InputError as error:
        sentence = str(error) if str(error).startswith(source) else f"{source}: {error}"
        raise ContributionError(sentence, client) from error


def _chunks(contribution: Contribution, key: SigningKey | None) -> list[bytes | memoryview]:
    with _blaming(contribution.client, f"client {contribution.client!r}"):
        return _checked_chunks(contribution, key)


def _checked_chunks(contribution: Contribution, key: SigningKey | None) -> list[bytes | memoryview]:
    client, features = contribution.client, contribution.features
    clash = sorted(RESERVED & contribution.extra.keys())
    if clash:
        raise InputError(f"extra metadata may not be called {clash[0]!r}: the format uses that name. Rename it.")
    fields = {
        "client": client,
        "n_samples": None if contribution.n_samples is None else str(contribution.n_samples),
        "features": None if features is None else json_text(features, f"client {client!r}: features"),
        "solver": contribution.solver,
        "independence": contribution.independence,
        "mixing": contribution.mixing,
        "study": contribution.study,
    }
    metadata = {**contribution.extra, **common_metadata(CONTRIBUTION), **declared(fields)}
    container = Container(f"client {client!r}", metadata, {"atoms": contribution.atoms})
    _contribution(container, client)  # nobody writes what nobody may read
    if key is not None:
        container = sign(container, client, key)
    return chunks_within(CONTRIBUTION, container.metadata, container.tensors)


def _client(container: Container) -> str:
    if "client" not in container.metadata:
        raise FormatError(
            f"{container.source}: the metadata field 'client' is missing: a contribution says who sends it."
        )
    try:
        return check_name(container.metadata["client"], "a client's name")
    except InputError as error:
        raise FormatError(f"{container.source}: {error}") from error


def _contribution(container: Container, client: str) -> Contribution:
    """Return the record, with everything that the record itself does not check checked here."""
    source, metadata = container.source, container.metadata
    others = sorted(container.tensors.keys() - {"atoms"})
    if others:
        raise FormatError(f"{source}: a contribution has the tensor 'atoms' alone; {others[0]!r} came too.")
    atoms = take(container, "atoms", "F64", 2)
    _check_atoms(atoms, client)
    n_samples, features = metadata.get("n_samples"), metadata.get("features")
    for name in ("solver", "study"):
        if name in metadata:
            check_name(metadata[name], f"client {client!r}: {name}")
    return Contribution(
        client,
        atoms,
        None if n_samples is None else natural(n_samples, "n_samples", source),
        features=None if features is None else _features(features, client),
        solver=metadata.get("solver"),
        independence=metadata.get("independence"),
        mixing=metadata.get("mixing"),
        study=metadata.get("study"),
        extra={name: value for name, value in metadata.items() if name not in RESERVED},
    )


def _check_atoms(atoms: NDArray[Any], client: str) -> None:
    """Check what a file promises of its atoms, without a copy of them."""
    n_features, n_atoms = atoms.shape
    if not 1 <= n_atoms <= n_features:
        raise InputError(
            f"client {client!r} sends {n_atoms} atoms of {n_features} features; a contribution has at least one "
            "atom, and at most as many as features."
        )
    norms = np.sqrt(np.einsum("ij,ij->j", atoms, atoms))
    if not np.isfinite(norms).all():
        n_bad = atoms.size - np.count_nonzero(np.isfinite(atoms))
        raise InputError(
            f"client {client!r}: atoms must be finite and of norm one; {n_bad} NaN or infinite values came."
        )
    worst = int(np.argmax(np.abs(norms - 1)))
    if abs(norms[worst] - 1) > NORM_TOL:
        raise InputError(
            f"client {client!r}: atoms must have norm one, to {NORM_TOL:g}; atom {worst} has norm {norms[worst]:.9g}."
        )


def _features(text: str, client: str) -> list[str]:
    names = parse_texts(text, f"client {client!r}: features")
    check_names(names, f"client {client!r}: a feature's name")
    return names


def _check_study(contribution: Contribution, study: str | None) -> None:
    if study is not None and contribution.study != study:
        came = "none is named" if contribution.study is None else f"it is for {contribution.study!r}"
        raise InputError(
            f"client {contribution.client!r} sent a contribution for another study: {study!r} is wanted, {came}."
        )

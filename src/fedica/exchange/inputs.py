"""A record, or the file that holds it: functions that take either turn it into the record here."""

from __future__ import annotations

import os
from pathlib import Path

from fedica.arrays import PathLike
from fedica.errors import InputError
from fedica.exchange.aggregates import PublicAggregate, public_part, read_aggregate
from fedica.exchange.folder import FILES
from fedica.exchange.signatures import SigningKey, TrustedKeys, read_signing_key, read_trusted_keys
from fedica.exchange.studies import read_study
from fedica.records import Aggregate, Study


def as_study(study: Study | PathLike | None) -> Study | None:
    """Return a study, read from its file if a path is given."""
    return study if study is None or isinstance(study, Study) else read_study(study)


def as_signing_key(key: SigningKey | PathLike | None) -> SigningKey | None:
    """Return a private key, read from its file if a path is given."""
    return key if key is None or isinstance(key, SigningKey) else read_signing_key(key)


def as_trusted_keys(keys: TrustedKeys | PathLike | None) -> TrustedKeys | None:
    """Return public keys, read from their folder if a path is given."""
    return keys if keys is None or isinstance(keys, TrustedKeys) else read_trusted_keys(keys)


def files_of(aggregate: object) -> list[Path]:
    """Return the files that hold an aggregate, if a path is given: the file, or those of the result folder."""
    if not isinstance(aggregate, str | os.PathLike):
        return []
    path = Path(aggregate)
    return [path / name for name in FILES] if path.is_dir() else [path]


def as_public(aggregate: Aggregate | PublicAggregate | PathLike) -> PublicAggregate:
    """Return an aggregate in the form that goes to the clients.

    Of aggregate.safetensors or a result folder, what was published; of an `Aggregate`, which whoever has it knows
    anyway, all components.
    """
    if isinstance(aggregate, Aggregate):
        return public_part(aggregate, min_support=1)
    if isinstance(aggregate, PublicAggregate):
        return aggregate
    path = Path(aggregate)
    file = path / "aggregate.safetensors" if path.is_dir() else path
    if file != path and not file.exists() and (path / "summary.json").exists():
        raise InputError(
            f"{path}: no component of this result could be published, so it has no aggregate.safetensors. To publish "
            "it all the same, repeat the aggregation with --min-support 1."
        )
    return read_aggregate(file)

"""Study, Contribution, Aggregate <-> files; signatures; the result folder. The contract is docs/format.md."""

from __future__ import annotations

from fedica.exchange.aggregates import (
    PublicAggregate,
    aggregate_from_bytes,
    aggregate_to_bytes,
    public_part,
    read_aggregate,
    write_aggregate,
)
from fedica.exchange.contributions import (
    Received,
    contribution_from_bytes,
    contribution_to_bytes,
    read_contribution,
    receive,
    receive_bytes,
    write_contribution,
)
from fedica.exchange.files import file_name
from fedica.exchange.signatures import (
    SigningKey,
    TrustedKeys,
    keygen,
    read_public_key,
    read_signing_key,
    read_trusted_keys,
)

__all__ = [
    "PublicAggregate",
    "Received",
    "SigningKey",
    "TrustedKeys",
    "aggregate_from_bytes",
    "aggregate_to_bytes",
    "contribution_from_bytes",
    "contribution_to_bytes",
    "file_name",
    "keygen",
    "public_part",
    "read_aggregate",
    "read_contribution",
    "read_public_key",
    "read_signing_key",
    "read_trusted_keys",
    "receive",
    "receive_bytes",
    "write_aggregate",
    "write_contribution",
]

"""Study, Contribution, Aggregate <-> files; signatures; the result folder. The contract is docs/format.md."""

from __future__ import annotations

from fedica.exchange.aggregates import (
    MIN_SUPPORT,
    PublicAggregate,
    aggregate_from_bytes,
    aggregate_to_bytes,
    public_part,
    published,
    published_first,
    read_aggregate,
    write_aggregate,
)
from fedica.exchange.contributions import (
    Provenance,
    Received,
    contribution_from_bytes,
    contribution_to_bytes,
    read_contribution,
    receive,
    receive_bytes,
    write_contribution,
)
from fedica.exchange.details import details_fit, details_from_bytes, details_to_bytes, read_details, write_details
from fedica.exchange.files import file_name
from fedica.exchange.folder import ResultFolder, read_folder, summarise, write_folder
from fedica.exchange.inputs import as_public, as_signing_key, as_study, as_trusted_keys
from fedica.exchange.intake import read_contributions
from fedica.exchange.scores import read_scores, read_second_messages, scores_from_bytes, scores_to_bytes, write_scores
from fedica.exchange.signatures import (
    SigningKey,
    TrustedKeys,
    keygen,
    read_public_key,
    read_signing_key,
    read_trusted_keys,
)
from fedica.exchange.studies import read_study, write_study

__all__ = [
    "MIN_SUPPORT",
    "Provenance",
    "PublicAggregate",
    "Received",
    "ResultFolder",
    "SigningKey",
    "TrustedKeys",
    "aggregate_from_bytes",
    "aggregate_to_bytes",
    "as_public",
    "as_signing_key",
    "as_study",
    "as_trusted_keys",
    "contribution_from_bytes",
    "contribution_to_bytes",
    "details_fit",
    "details_from_bytes",
    "details_to_bytes",
    "file_name",
    "keygen",
    "public_part",
    "published",
    "published_first",
    "read_aggregate",
    "read_contribution",
    "read_contributions",
    "read_details",
    "read_folder",
    "read_public_key",
    "read_scores",
    "read_second_messages",
    "read_signing_key",
    "read_study",
    "read_trusted_keys",
    "receive",
    "receive_bytes",
    "scores_from_bytes",
    "scores_to_bytes",
    "summarise",
    "write_aggregate",
    "write_contribution",
    "write_details",
    "write_folder",
    "write_scores",
    "write_study",
]

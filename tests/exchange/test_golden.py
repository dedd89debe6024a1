"""Files of version 1, kept for good: whatever changes, they are read as before and written again byte by byte.

A file of version 1 never changes; a new version of the format gets golden files of its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedica import exchange
from fedica.exchange import SigningKey, TrustedKeys
from fedica.records import Aggregate, Contribution, Reason, Rejection, Study


@pytest.fixture(autouse=True)
def _version_of_the_golden_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to be the version of fedica that wrote these files: every file names its writer."""
    monkeypatch.setattr("fedica.__version__", "0.1.0")


def test_contribution_is_read_and_written_as_ever(golden: Path, contribution: Contribution) -> None:
    """All fields of the golden contribution are read, and writing them gives its bytes."""
    read = exchange.read_contribution(golden / "contribution.safetensors")
    for name in ("client", "n_samples", "features", "solver", "independence", "mixing", "study", "extra"):
        assert getattr(read, name) == getattr(contribution, name), name
    np.testing.assert_array_equal(read.atoms, contribution.atoms)
    assert exchange.contribution_to_bytes(read) == (golden / "contribution.safetensors").read_bytes()


def test_bare_contribution_declares_nothing(golden: Path) -> None:
    """A contribution with nothing but a name and atoms is one, and is written without empty fields."""
    read = exchange.read_contribution(golden / "contribution-bare.safetensors")
    assert (read.n_samples, read.features, read.solver, read.study, dict(read.extra)) == (None, None, None, None, {})
    assert exchange.contribution_to_bytes(read) == (golden / "contribution-bare.safetensors").read_bytes()


def test_signed_contribution_verifies_as_ever(golden: Path, key: SigningKey, trusted: TrustedKeys) -> None:
    """The golden signature holds, and signing again gives the same bytes."""
    path = golden / "contribution-signed.safetensors"
    read = exchange.read_contribution(path, trusted=trusted, study="rest-2024")
    assert exchange.contribution_to_bytes(read, key=key) == path.read_bytes()


def test_aggregate_is_read_and_written_as_ever(golden: Path, aggregate: Aggregate) -> None:
    """The golden public aggregate is the public part of the aggregate that it was written from."""
    read = exchange.read_aggregate(golden / "aggregate.safetensors")
    np.testing.assert_array_equal(read.mixing, aggregate.mixing)
    assert read.terms == aggregate.terms
    data = (golden / "aggregate.safetensors").read_bytes()
    assert exchange.aggregate_to_bytes(read) == exchange.aggregate_to_bytes(aggregate) == data


def test_details_are_read_and_written_as_ever(golden: Path, aggregate: Aggregate) -> None:
    """The golden details, whose reasons are sentences alone, are read, and writing them gives their bytes."""
    read = exchange.read_details(golden / "details.safetensors")
    assert read.clients == aggregate.clients
    assert aggregate.trust is not None
    sentences = ("close to the others", "far from the others, in 2 of 2 components")
    trust = replace(aggregate.trust, why=tuple(Reason("", text=sentence) for sentence in sentences))
    rejected = Rejection("client-c", "client 'client-c' sent 5 features; 3 were wanted.", "mail/c.safetensors")
    data = (golden / "details.safetensors").read_bytes()
    assert exchange.details_to_bytes(read) == data
    assert exchange.details_to_bytes(replace(aggregate, trust=trust, rejected=(rejected,))) == data


def test_details_with_kinds_of_reasons_are_read_and_written_as_ever(golden: Path, aggregate: Aggregate) -> None:
    """The golden details whose reasons have kinds and numbers are read, and writing them gives their bytes."""
    read = exchange.read_details(golden / "details-kinds.safetensors")
    assert read.trust is not None
    assert [why.kind for why in read.trust.why] == ["agrees", "far"]
    data = (golden / "details-kinds.safetensors").read_bytes()
    assert exchange.details_to_bytes(read) == exchange.details_to_bytes(aggregate) == data


def test_study_is_read_and_written_as_ever(golden: Path, study: Study, tmp_path: Path) -> None:
    """The golden study is read, and writing it gives its bytes."""
    read = exchange.read_study(golden / "study.json")
    assert (read.id, read.features, read.units, read.scales) == (study.id, study.features, study.units, study.scales)
    exchange.write_study(read, tmp_path / "study.json")
    assert (tmp_path / "study.json").read_bytes() == (golden / "study.json").read_bytes()


def test_public_key_is_read_as_ever(golden: Path, key: SigningKey) -> None:
    """The golden public key belongs to client-07."""
    assert exchange.read_public_key(golden / "client-07.pub") == ("client-07", key.public)

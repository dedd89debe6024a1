"""Golden files, kept for good: whatever changes, they are read as before.

Those of version 1 are read into the same records; those of the newest version of each kind are also written again byte
by byte. A golden file never changes; a new version of the format gets golden files of its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedica import exchange
from fedica.exchange import SigningKey, TrustedKeys
from fedica.records import CONTRIBUTION_FIELDS, Aggregate, Contribution, Reason, Rejection, Study
from fedica.workflow.inspect import inspect_file


def pretend_to_be(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the version of fedica that wrote the golden files: every file names its writer."""
    for module in ("format", "aggregates"):
        monkeypatch.setattr(f"fedica.exchange.{module}.__version__", version)


@pytest.fixture(autouse=True)
def _version_of_the_golden_files(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_to_be("0.1.0", monkeypatch)


@pytest.mark.parametrize(
    ("name", "fixture"),
    [
        ("contribution", "contribution"),
        ("v2/contribution", "contribution"),
        ("v2/contribution-full", "full_contribution"),
        ("v2/contribution-signed", "full_contribution"),
    ],
)
def test_contribution_is_read_as_ever(golden: Path, name: str, fixture: str, request: pytest.FixtureRequest) -> None:
    """All fields of the golden contributions are read."""
    read, expected = exchange.read_contribution(golden / f"{name}.safetensors"), request.getfixturevalue(fixture)
    for field in (*CONTRIBUTION_FIELDS, "extra"):
        np.testing.assert_equal(getattr(read, field), getattr(expected, field), field)


def test_a_second_message_is_read_and_written_as_ever(golden: Path) -> None:
    """All fields, and the same bytes."""
    read = exchange.read_scores(golden / "v2" / "scores.safetensors")
    assert (read.client, read.refines, read.n_samples, read.study) == ("client-07", "0f" * 32, 640, "rest-eeg")
    assert list(read.components) == [0, 2]
    np.testing.assert_array_equal(read.scale, [1.5, 0.25])
    np.testing.assert_array_equal(read.covariance, [[1.0, 0.125], [0.125, 1.0]])
    np.testing.assert_array_equal(read.products, [[0.5, 0.0625], [0.03125, 0.75]])
    np.testing.assert_array_equal(read.slopes, [0.625, 0.375])
    assert exchange.scores_to_bytes(read) == (golden / "v2" / "scores.safetensors").read_bytes()


def test_float32_atoms_are_read_as_ever(golden: Path, full_contribution: Contribution) -> None:
    """The golden atoms in float32 are those in float64, to the precision of float32."""
    read = exchange.read_contribution(golden / "v2" / "contribution-float32.safetensors")
    np.testing.assert_allclose(read.atoms, full_contribution.atoms, rtol=0, atol=6e-8)
    np.testing.assert_array_equal(read.gram, full_contribution.gram)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["contribution", "contribution-bare"])
def test_contribution_of_version_1_is_written_as_version_2(
    golden: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contribution that is read from version 1 gives the bytes of the golden file of version 2."""
    pretend_to_be("0.2.0", monkeypatch)
    for folder in (golden, golden / "v2"):
        read = exchange.read_contribution(folder / f"{name}.safetensors")
        assert exchange.contribution_to_bytes(read) == (golden / "v2" / f"{name}.safetensors").read_bytes()


def test_bare_contribution_declares_nothing(golden: Path) -> None:
    """A contribution with nothing but a name and atoms is one."""
    for folder in (golden, golden / "v2"):
        read = exchange.read_contribution(folder / "contribution-bare.safetensors")
        declared = {name for name in CONTRIBUTION_FIELDS if getattr(read, name) is not None}
        assert declared == {"client", "atoms"}
        assert dict(read.extra) == {}


def test_full_contribution_is_written_as_ever(
    golden: Path, full_contribution: Contribution, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing everything gives the golden bytes; so does signing it."""
    pretend_to_be("0.2.0", monkeypatch)
    unsigned, signed = (golden / "v2" / f"contribution-{name}.safetensors" for name in ("full", "signed"))
    assert exchange.contribution_to_bytes(full_contribution) == unsigned.read_bytes()
    assert exchange.contribution_to_bytes(full_contribution, key=key) == signed.read_bytes()


@pytest.mark.parametrize("folder", ["", "v2"])
def test_signed_contribution_verifies_as_ever(golden: Path, folder: str, trusted: TrustedKeys) -> None:
    """The golden signatures hold."""
    read = exchange.read_contribution(golden / folder / "contribution-signed.safetensors", trusted=trusted)
    assert read.study == "rest-2024"


def test_aggregate_is_read_and_written_as_ever(golden: Path, aggregate: Aggregate) -> None:
    """The golden public aggregate is the public part of the aggregate that it was written from."""
    read = exchange.read_aggregate(golden / "aggregate.safetensors")
    np.testing.assert_array_equal(read.mixing, aggregate.mixing)
    assert read.terms == aggregate.terms
    data = (golden / "aggregate.safetensors").read_bytes()
    assert exchange.aggregate_to_bytes(aggregate, min_support=1) == data
    assert exchange.aggregate_to_bytes(read) == data


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


def test_inspect_lists_every_field(golden: Path) -> None:
    """Whoever looks at a file before it leaves sees all that is in it."""
    inspected = inspect_file(golden / "v2" / "contribution-full.safetensors")
    assert {field.name for field in inspected.fields} >= {*CONTRIBUTION_FIELDS, "software", "format", "version"}

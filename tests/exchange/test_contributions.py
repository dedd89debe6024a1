"""Contributions <-> files: nothing is lost, everything is checked, little is sent."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedica.arrays import unit
from fedica.errors import ContributionError, FedicaError, FormatError
from fedica.exchange import (
    contribution_from_bytes,
    contribution_to_bytes,
    read_contribution,
    receive,
    write_contribution,
)
from fedica.exchange.contributions import CONTRIBUTION
from fedica.exchange.format import parse, serialise
from fedica.records import CONTRIBUTION_FIELDS, Contribution

names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20).filter(str.strip)
clients = st.text("abz AZ09-_./'=é大阪عي🏥", min_size=1, max_size=20).filter(str.strip)
METADATA = {"format": "fedica.contribution", "version": "1", "client": "c"}


@st.composite
def contributions(draw: Any) -> Contribution:
    d = draw(st.integers(1, 8))
    r = draw(st.integers(1, d))
    seed = draw(st.integers(0, 2**32 - 1))
    return Contribution(
        draw(clients),
        np.random.default_rng(seed).standard_normal((d, r)),
        draw(st.none() | st.integers(1, 10**12)),
        features=draw(st.none() | st.lists(names, min_size=d, max_size=d, unique=True)),
        solver=draw(st.none() | names),
        independence=draw(st.sampled_from([None, "samples", "features"])),
        mixing=draw(st.sampled_from([None, "general", "orthogonal"])),
        study=draw(st.none() | names),
        reference=draw(st.none() | names),
        grid=draw(st.none() | names),
        uncertain=draw(st.none() | st.sets(st.integers(0, r - 1))),
        persons=draw(st.none() | st.integers(1, 10**12)),
        preprocessing=draw(st.none() | st.dictionaries(names, names, max_size=3)),
        serial=draw(st.none() | st.integers(0, 10**12)),
        extra=draw(st.dictionaries(st.text("abcxyz ", min_size=1, max_size=9), names, max_size=3)),
    )


@given(contributions())
def test_a_round_trip_loses_nothing(sent: Contribution) -> None:
    """Every field, and every bit of every atom, arrives; writing it again gives the same bytes."""
    data = contribution_to_bytes(sent)
    received = contribution_from_bytes(data)
    for name in ("client", "n_samples", "features", "solver", "independence", "mixing", "study", "extra"):
        assert getattr(received, name) == getattr(sent, name), name
    assert received.atoms.tobytes() == sent.atoms.tobytes()
    assert contribution_to_bytes(received) == data


def test_the_file_for_64_features_and_20_atoms_is_under_12_kilobytes(
    random_contribution: Contribution, key: Any, tmp_path: Path
) -> None:
    """One small file is enough, signed or not: 10 of its kilobytes are the atoms."""
    for signing_key in (None, key):
        write_contribution(random_contribution, tmp_path / "c.safetensors", key=signing_key)
        assert (tmp_path / "c.safetensors").stat().st_size < 12_000


def test_a_file_tells_where_it_came_from(contribution: Contribution, tmp_path: Path) -> None:
    """The provenance holds the path, the size and the fingerprint; an unsigned file has no key."""
    path = tmp_path / "c.safetensors"
    write_contribution(contribution, path)
    origin = receive(path).provenance
    assert (origin.client, origin.n_samples, origin.source) == ("client-07", 5000, str(path))
    assert origin.n_bytes == path.stat().st_size
    assert len(origin.sha256) == 64
    assert (origin.key, origin.verified) == (None, False)


def test_norms_within_a_millionth_are_taken_and_made_one() -> None:
    """Another program's atoms may be off by rounding; what arrives is exact."""
    atoms = unit(np.random.default_rng(0).standard_normal((5, 2))) * (1 + 5e-7)
    received = contribution_from_bytes(b"".join(serialise(METADATA, {"atoms": atoms})))
    np.testing.assert_allclose(np.linalg.norm(received.atoms, axis=0), 1, atol=1e-12)


def test_every_field_survives_the_file(full_contribution: Contribution, tmp_path: Path) -> None:
    """What is declared is read as it was written, of the same types; so it is by `pickle`."""
    write_contribution(full_contribution, tmp_path / "c.safetensors")
    for other in (
        read_contribution(tmp_path / "c.safetensors"),
        pickle.loads(pickle.dumps(full_contribution)),  # noqa: S301 - our own
    ):
        for name in (*CONTRIBUTION_FIELDS, "extra"):
            value, expected = getattr(other, name), getattr(full_contribution, name)
            assert value is not None
            assert type(value) is type(expected), name
            np.testing.assert_equal(value, expected, name)


def test_what_is_not_declared_is_not_in_the_file() -> None:
    """A field that does not apply is absent; so is one that is declared empty."""
    data = contribution_to_bytes(Contribution("a", np.eye(2), None, uncertain=[], preprocessing={}))
    container = parse(data, CONTRIBUTION, "a")
    assert set(container.metadata) == {"format", "version", "fedica", "client"}
    assert set(container.tensors) == {"atoms"}


def test_float32_atoms_are_widened() -> None:
    """A file of version 2 may hold its atoms in half the space; what is read is float64, of norm one."""
    atoms = unit(np.random.default_rng(0).standard_normal((500, 7))).astype(np.float32)
    received = contribution_from_bytes(b"".join(serialise(edited(version="2"), {"atoms": atoms})))
    assert received.atoms.dtype == np.float64
    np.testing.assert_allclose(received.atoms, atoms, rtol=0, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(received.atoms, axis=0), 1, rtol=0, atol=1e-14)


def test_what_version_1_kept_in_extra_is_read_into_the_fields() -> None:
    """`reference` and `grid` had a meaning before; other names that version 2 gave one had none, and stay."""
    old = edited(reference="average", grid="2 x 2 x 2 voxels", serial="of the amplifier")
    read = contribution_from_bytes(b"".join(serialise(old, {"atoms": ONE})))
    assert (read.reference, read.grid, read.serial) == ("average", "2 x 2 x 2 voxels", None)
    assert dict(read.extra) == {"serial": "of the amplifier"}
    with pytest.raises(ContributionError, match="extra metadata may not be called 'serial'"):
        contribution_to_bytes(read)


def edited(**changes: str | None) -> dict[str, str]:
    return {name: value for name, value in {**METADATA, **changes}.items() if value is not None}


ONE = np.eye(3)[:, :2]


@pytest.mark.parametrize(
    ("metadata", "tensors", "problem"),
    [
        (
            edited(version="3"),
            {"atoms": ONE},
            "reads version '1' or '2' of fedica.contribution; got version '3'. Update fedica",
        ),
        (edited(version=None), {"atoms": ONE}, "got version 'None'"),
        (edited(format="fedica.aggregate"), {"atoms": ONE}, "of format 'fedica.aggregate'"),
        (edited(client=None), {"atoms": ONE}, "'client' is missing"),
        (edited(client=" "), {"atoms": ONE}, "a client's name must be a text that is not empty"),
        (edited(client="a\nb"), {"atoms": ONE}, "may not contain control characters"),
        (edited(client="\x9b1m"), {"atoms": ONE}, "may not contain control characters"),
        (edited(client="x" * 201), {"atoms": ONE}, "at most 200 characters; got 201"),
        (METADATA, {}, "tensor 'atoms' is missing; it has none"),
        (METADATA, {"atoms": ONE, "data": ONE}, "a contribution of version 1 has no tensor 'data'"),
        (METADATA, {"atoms": ONE.astype(np.int64)}, "must be F64 with 2 dimensions; got I64"),
        (METADATA, {"atoms": ONE[0]}, "must be F64 with 2 dimensions; got F64 of shape (2,)"),
        (METADATA, {"atoms": np.zeros((3, 0))}, "sends 0 atoms of 3 features"),
        (METADATA, {"atoms": np.zeros((0, 0))}, "sends 0 atoms of 0 features"),
        (METADATA, {"atoms": np.eye(3)[:2]}, "sends 3 atoms of 2 features"),
        (METADATA, {"atoms": ONE * np.nan}, "got 6 NaN or infinite values"),
        (METADATA, {"atoms": ONE * [1, 1e200]}, "atoms must be finite and of norm one; got 0 NaN"),
        (METADATA, {"atoms": ONE * [1, 0]}, "atom 1 has norm 0"),
        (METADATA, {"atoms": ONE * [1, 1.00001]}, "norm one, to 1e-06; atom 1 has norm 1.00001"),
        (edited(n_samples="0"), {"atoms": ONE}, "n_samples must be a whole number of at least 1; got 0"),
        (edited(n_samples="-5"), {"atoms": ONE}, "n_samples must be a whole number below 10^18; got '-5'"),
        (edited(features='["a","b"]'), {"atoms": ONE}, "names 2 features, but its atoms have 3"),
        (edited(features='["a","b","a"]'), {"atoms": ONE}, "must be distinct; got 'a' more than once"),
        (edited(features='["a","b",""]'), {"atoms": ONE}, "features: each name must be a text that is not empty"),
        (edited(features='["a","b","\\u0007"]'), {"atoms": ONE}, "may not contain control characters"),
        (edited(features="[1,2,3]"), {"atoms": ONE}, "features must be a JSON list of texts"),
        (edited(independence="rows"), {"atoms": ONE}, "independence must be one of 'samples', 'features'; got 'rows'"),
        (edited(mixing=""), {"atoms": ONE}, "mixing must be one of 'general', 'orthogonal'; got ''"),
        (edited(study=""), {"atoms": ONE}, "study must be a text that is not empty"),
        (edited(solver="\x1b[31m"), {"atoms": ONE}, "solver may not contain control characters"),
        (METADATA, {"atoms": ONE.astype(np.float32)}, "must be F64 with 2 dimensions; got F32 of shape (3, 2)"),
        (METADATA, {"atoms": ONE, "gram": np.eye(2)}, "a contribution of version 1 has no tensor 'gram'"),
        (edited(grid="x" * 1001), {"atoms": ONE}, "grid may have at most 1000 characters; got 1001"),
        (edited(version="2"), {"atoms": ONE, "gram": np.eye(2)[0]}, "'gram' must be F64 with 2 dimensions"),
        (edited(version="2"), {"atoms": ONE, "gram": np.eye(3)}, "gram must have a row for each of the 2 atoms; got 3"),
        (edited(version="2"), {"atoms": ONE, "gram": -np.eye(2)}, "gram must be positive semidefinite, to 1e-09"),
        (edited(version="2", noise_floor="1.5"), {"atoms": ONE}, "noise_floor belongs to gram; got noise_floor alone"),
        (edited(version="2", noise_floor="nan"), {"atoms": ONE}, "noise_floor must be a decimal number; got 'nan'"),
        (edited(version="2", uncertain="[]"), {"atoms": ONE}, "uncertain must be a JSON list of whole numbers"),
        (edited(version="2", uncertain="[0, 1]"), {"atoms": ONE}, "without spaces, of at most 65536 characters"),
        (edited(version="2", uncertain="[2]"), {"atoms": ONE}, "uncertain must be indices of its 2 atoms; got 2"),
        (edited(version="2", uncertain="[1,1]"), {"atoms": ONE}, "uncertain must be distinct whole numbers"),
        (edited(version="2", persons="0"), {"atoms": ONE}, "persons must be a whole number of at least 1"),
        (edited(version="2", serial="-1"), {"atoms": ONE}, "serial must be a whole number below 10^18; got '-1'"),
        (edited(version="2", preprocessing="{}"), {"atoms": ONE}, "a JSON object from text to text, not empty"),
        (edited(version="2", preprocessing='{"a":1}'), {"atoms": ONE}, "a JSON object from text to text, not empty"),
        (
            edited(version="2", preprocessing=f'{{"a":"{"x" * 10_000}"}}'),
            {"atoms": ONE},
            "preprocessing may have at most 10000 characters in all; got 10001",
        ),
    ],
)
def test_each_defect_has_its_sentence(metadata: dict[str, str], tensors: dict[str, Any], problem: str) -> None:
    """A file that is wrong in one way is refused for that reason, naming the file, and the client where it is known."""
    with pytest.raises(FedicaError, match=r"^mail/c\.safetensors: ") as caught:
        contribution_from_bytes(b"".join(serialise(metadata, tensors)), source="mail/c.safetensors")
    assert problem in str(caught.value)
    if isinstance(caught.value, ContributionError):
        assert caught.value.client == "c"


@pytest.mark.parametrize(
    "change",
    [
        lambda c: {"extra": {"format": "x"}},
        lambda c: {"extra": {"signature": "x"}},
        lambda c: {"extra": {"k" * 200: "x"}},
        lambda c: {"extra": {"k": "\ud800"}},
        lambda c: {"extra": {"k": "x" * 5_000_000}},
        lambda c: {"extra": {f"k{i}": "" for i in range(200)}},
        lambda c: {"features": ["a", "b", "c", "\ud800"]},
        lambda c: {"features": ["a", "b", "c", ""]},
        lambda c: {"solver": "two\nlines"},
        lambda c: {"atoms": np.eye(4)[:, [0, 1, 2, 3, 0]]},
        lambda c: {"n_samples": 10**18},
    ],
)
def test_nobody_writes_what_nobody_may_read(
    contribution: Contribution, change: Callable[[Contribution], dict[str, Any]], tmp_path: Path
) -> None:
    """A record that would make an unreadable file is refused when it is written, and no file appears."""
    fields = {"client": "c", "atoms": contribution.atoms, "n_samples": 5, **change(contribution)}
    with pytest.raises(ContributionError, match=r"^client 'c'"):
        write_contribution(Contribution(**fields), tmp_path / "c.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_unknown_metadata_are_kept_and_sent_on(contribution: Contribution) -> None:
    """A field that a later version or another program adds is kept in ``extra`` and written again."""
    metadata = edited(institution="north", protocol=json.dumps({"tr": 2.0}))
    received = contribution_from_bytes(b"".join(serialise(metadata, {"atoms": ONE})))
    assert dict(received.extra) == {"institution": "north", "protocol": '{"tr": 2.0}'}
    assert contribution_from_bytes(contribution_to_bytes(received)).extra == received.extra


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    """A path without a file gives a FormatError that names it."""
    with pytest.raises(FormatError, match=r"missing\.safetensors: cannot be read \(No such file"):
        read_contribution(tmp_path / "missing.safetensors")


def test_a_hundred_maps_of_200000_voxels_fit_the_limits_in_single_precision() -> None:
    """With strengths and the names of the voxels; in double precision they do not."""
    n_features, n_atoms = 200_000, 100
    atoms = np.full((n_features, n_atoms), np.float64(1 / np.sqrt(n_features)))
    names = [f"{i},{j},{k}" for i in range(100) for j in range(50) for k in range(40)]
    sent = Contribution("large", atoms, 900, features=names, gram=np.eye(n_atoms), noise_floor=0.1)
    written = contribution_to_bytes(sent, float32=True)
    assert len(written) <= CONTRIBUTION.max_bytes
    assert len(written) < 0.53 * atoms.nbytes
    with pytest.raises(ContributionError, match="numbers"):
        contribution_to_bytes(sent)

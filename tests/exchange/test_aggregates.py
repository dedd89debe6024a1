"""The public aggregate: what goes back to the clients, and nothing of any single one of them."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from fedica.errors import FormatError, InputError
from fedica.exchange import (
    PublicAggregate,
    aggregate_from_bytes,
    aggregate_to_bytes,
    public_part,
    read_aggregate,
    write_aggregate,
    write_details,
)
from fedica.exchange.aggregates import AGGREGATE
from fedica.exchange.format import parse, serialise
from fedica.records import Aggregate, Terms


def test_these_fields_and_no_others_go_back(aggregate: Aggregate, tmp_path: Path) -> None:
    """The list of everything in the public file: a new field must be added here, by somebody who thought about it."""
    write_aggregate(aggregate, tmp_path / "a.safetensors", min_support=1)
    with safe_open(tmp_path / "a.safetensors", "np") as file:
        assert set(file.keys()) == {"mixing", "support", "spread", "degenerate"}
        assert file.metadata().keys() == {
            *("format", "version", "fedica"),
            *("method", "n_clients", "features", "independence", "mixing", "study"),
        }
    assert {f.name for f in fields(PublicAggregate)} == {
        *("mixing", "support", "spread", "degenerate", "n_clients", "method", "terms", "fedica"),
        *("n_withheld", "min_support"),
        *("round", "scale"),  # sums over the clients that count, once second messages have told them
    }


def of_support(aggregate: Aggregate, support: list[int], weighted: list[int] | None) -> Aggregate:
    """Five clients, and this support of its two components."""
    names = ("client-a", "client-b", "client-d", "client-e", "client-f")
    counts = None if weighted is None else np.array(weighted)
    return replace(aggregate, clients=names, trust=None, support=np.array(support), weighted_support=counts)


def test_components_in_which_few_clients_count_are_withheld(aggregate: Aggregate, tmp_path: Path) -> None:
    """Three is enough, two is not; who has no weight does not count; results of 0.1.0 have the support alone."""
    for support, weighted, kept in [
        ([3, 2], None, [0]),
        ([5, 5], [2, 3], [1]),
        ([2, 4], [3, 3], [1]),
        ([5, 3], [5, 3], [0, 1]),
    ]:
        result = of_support(aggregate, support, weighted)
        write_aggregate(result, tmp_path / "a.safetensors")
        read = read_aggregate(tmp_path / "a.safetensors")
        np.testing.assert_array_equal(read.mixing, aggregate.mixing[:, kept])
        np.testing.assert_array_equal(read.support, result.support[kept])
        assert read.n_withheld == 2 - len(kept)
        n_told = len(read.withheld)
        assert n_told == (len(kept) < 2)
        assert not n_told or "1 more component is withheld: fewer than 3 clients count in it" in read.withheld[0]
        everything = public_part(result, min_support=1)
        assert (everything.n_components, everything.n_withheld, everything.withheld) == (2, 0, ())


def test_nothing_is_published_of_fewer_clients_unless_told_so(aggregate: Aggregate, tmp_path: Path) -> None:
    """Two clients have no public file; the sentence says how to get one."""
    with pytest.raises(InputError, match=r"^nothing can be published: in no component do 3 of the 2 clients count"):
        write_aggregate(aggregate, tmp_path / "a.safetensors")
    assert not (tmp_path / "a.safetensors").exists()
    write_aggregate(aggregate, tmp_path / "a.safetensors", min_support=2)
    assert read_aggregate(tmp_path / "a.safetensors").support.tolist() == [2]


def test_a_file_that_withholds_says_so_in_two_fields(aggregate: Aggregate) -> None:
    """And nothing else of what is withheld."""
    content = parse(aggregate_to_bytes(aggregate, min_support=2), AGGREGATE, "a")
    assert (content.metadata["n_withheld"], content.metadata["min_support"]) == ("1", "2")
    assert content.tensors["mixing"].shape == (3, 1)


def test_swapping_two_clients_names_changes_no_byte(aggregate: Aggregate) -> None:
    """The public bytes know no names: neither those of clients nor those of the rejected."""
    swapped = replace(
        aggregate,
        clients=aggregate.clients[::-1],
        trust=replace(aggregate.trust, clients=aggregate.clients[::-1]),
        rejected=(),
    )
    assert aggregate_to_bytes(swapped, min_support=1) == aggregate_to_bytes(aggregate, min_support=1)
    for name in (*aggregate.clients, "client-c"):
        assert name.encode() not in aggregate_to_bytes(aggregate, min_support=1)


def test_what_one_client_alone_sent_changes_no_byte(aggregate: Aggregate) -> None:
    """Atoms, labels, signs, trust and options stay with the coordinator."""
    other = replace(
        aggregate,
        atoms=np.roll(aggregate.atoms, 1, axis=1),
        labels=np.zeros(4, dtype=np.int64),
        signs=-aggregate.signs,
        trust=None,
        options={},
        spectrum=np.zeros(0),
        certificate=None,
    )
    assert aggregate_to_bytes(other, min_support=1) == aggregate_to_bytes(aggregate, min_support=1)


def test_a_round_trip_loses_nothing(aggregate: Aggregate, tmp_path: Path) -> None:
    """Every field arrives, bit by bit, and the arrays cannot be written to."""
    path = tmp_path / "a.safetensors"
    write_aggregate(aggregate, path, min_support=1)
    read, sent = read_aggregate(path), public_part(aggregate, min_support=1)
    for name in ("mixing", "support", "spread", "degenerate"):
        assert getattr(read, name).tobytes() == getattr(sent, name).tobytes(), name
        assert not getattr(read, name).flags.writeable
    assert (read.n_clients, read.method, read.terms, read.fedica) == (2, "consensus", aggregate.terms, sent.fedica)
    assert aggregate_to_bytes(read, min_support=1) == path.read_bytes()
    assert "2 components of 3 features from 2 clients of study 'rest-2024'" in repr(read)


def test_nothing_is_declared_when_nothing_was_agreed(aggregate: Aggregate) -> None:
    """Terms that nobody declared are absent, not empty."""
    bare = replace(aggregate, terms=Terms(3))
    assert aggregate_from_bytes(aggregate_to_bytes(bare, min_support=1)).terms == Terms(3)


def test_a_degenerate_component_is_flagged_and_may_be_zero(aggregate: Aggregate) -> None:
    """The naive methods can cancel: the column stays as it is, and the client is told."""
    centres = aggregate.centres * [1.0, 0.0]
    cancelled = replace(aggregate, mixing=centres, centres=centres, spread=np.array([0.5, np.nan]))
    read = aggregate_from_bytes(aggregate_to_bytes(cancelled, min_support=1))
    assert read.degenerate.tolist() == [False, True]
    assert np.isnan(read.spread[1])


def test_the_details_are_not_taken_for_the_public_part(aggregate: Aggregate, tmp_path: Path) -> None:
    """A details file is refused by its format."""
    write_details(aggregate, tmp_path / "d.safetensors")
    with pytest.raises(FormatError, match=r"expected a fedica\.aggregate file; .* of format 'fedica\.details'"):
        read_aggregate(tmp_path / "d.safetensors")


def test_what_exceeds_the_limits_is_not_written(aggregate: Aggregate) -> None:
    """Names that fill more than the header may hold are refused by the writer, with the numbers."""
    features = tuple(f"{i} {'x' * 190}" for i in range(25_000))
    mixing = np.eye(25_000, 2)
    huge = replace(aggregate, mixing=mixing, centres=mixing, terms=Terms(25_000, features))
    with pytest.raises(FormatError, match=r"takes 4194304 bytes of names .*; got 50\d+ bytes and 50006 numbers"):
        aggregate_to_bytes(huge, min_support=1)


@pytest.mark.parametrize(
    ("metadata", "tensors", "problem"),
    [
        ({"version": "7"}, {}, "got version '7'. Update fedica"),
        ({"n_clients": "x"}, {}, "n_clients must be a whole number"),
        ({"n_clients": "1"}, {}, "support must be between 0 and 1 clients; got [2, 1]"),
        ({"method": ""}, {}, "the method must be a text"),
        ({"features": '["x"]'}, {}, "1 names of features for 3 features"),
        ({"features": '["x","y","y"]'}, {}, "must be distinct"),
        ({"mixing": "odd"}, {}, "mixing must be one of"),
        ({"study": " "}, {}, "study must be a text that is not empty"),
        ({}, {"support": np.array([1])}, "needs 2 values of support"),
        ({}, {"support": np.array([1, -1])}, "support must be between"),
        ({}, {"spread": np.array([1.0, 91.0])}, "angles from 0 to 90"),
        ({}, {"spread": np.array([1.0, -1.0])}, "angles from 0 to 90"),
        ({}, {"mixing": np.full((3, 2), np.nan)}, "must have norm one"),
        ({}, {"mixing": np.eye(3)[:, :2] * [1, 1.1]}, "column 1 has norm 1.1"),
        ({}, {"mixing": np.eye(3)[:, :2] * [1, 0]}, "column 1 has norm 0"),
        ({}, {"mixing": np.zeros((0, 2))}, "mixing matrix of shape (0, 2)"),
    ],
)
def test_each_defect_has_its_sentence(
    aggregate: Aggregate, metadata: dict[str, str], tensors: dict[str, Any], problem: str
) -> None:
    """A public file that is wrong in one way is refused for that reason."""
    public = public_part(aggregate, min_support=1)
    whole = {name: getattr(public, name) for name in ("mixing", "support", "spread", "degenerate")}
    base = {
        "format": "fedica.aggregate",
        "version": "1",
        "n_clients": "2",
        "method": "m",
        **metadata,
    }
    with pytest.raises(FormatError, match=r"^a\.safetensors: ") as caught:
        aggregate_from_bytes(b"".join(serialise(base, {**whole, **tensors})), source="a.safetensors")
    assert problem in str(caught.value)

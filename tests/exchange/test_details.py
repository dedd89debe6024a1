"""The coordinator's file: the whole aggregate, nothing lost."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedica.errors import FormatError, InputError
from fedica.exchange import details_from_bytes, details_to_bytes, read_details, write_details
from fedica.exchange.format import parse, serialise
from fedica.records import Aggregate, Certificate, Reason, Rejection, Terms


def assert_same(one: Any, other: Any, name: str = "") -> None:
    """Two records are equal, field by field, array by array, NaN equal to NaN."""
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)
    elif hasattr(one, "__dataclass_fields__"):
        assert type(one) is type(other), name
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), f"{name}.{field.name}")
    else:
        assert one == other, name


def test_a_round_trip_loses_nothing(aggregate: Aggregate, tmp_path: Path) -> None:
    """Every field of the aggregate, of its trust and of its certificate comes back."""
    write_details(aggregate, tmp_path / "d.safetensors")
    assert_same(read_details(tmp_path / "d.safetensors"), aggregate)


def test_what_is_absent_stays_absent(aggregate: Aggregate) -> None:
    """No trust, no certificate, no spectrum, no rejections, no terms: none comes back as something."""
    bare = replace(
        aggregate, trust=None, certificate=None, spectrum=np.zeros(0), rejected=(), terms=Terms(3), options={}
    )
    assert_same(details_from_bytes(details_to_bytes(bare)), bare)
    naive = replace(aggregate, certificate=Certificate(None, None, np.zeros(2)))
    assert_same(details_from_bytes(details_to_bytes(naive)), naive)


def test_infinite_and_undefined_numbers_come_back(aggregate: Aggregate) -> None:
    """A bound that proves nothing and an angle that is not defined are not lost."""
    odd = replace(
        aggregate,
        certificate=Certificate(1 / 3, float("inf"), np.array([np.nan, np.inf])),
        spread=np.array([np.nan, 1.0]),
        explained_variance=np.array([[0.5, 0.25], [np.nan, np.nan]]),
    )
    assert_same(details_from_bytes(details_to_bytes(odd)), odd)


def test_numpy_scalars_in_options_become_plain_numbers(aggregate: Aggregate) -> None:
    """An option that is a numpy number is written as the number that it is."""
    read = details_from_bytes(details_to_bytes(replace(aggregate, options={"n": np.int64(3), "x": np.float64(0.1)})))
    assert dict(read.options) == {"n": 3, "x": 0.1}


@pytest.mark.parametrize("value", [object(), np.nan, np.random.default_rng(0), "\ud800"])
def test_options_that_no_file_can_hold_are_refused(aggregate: Aggregate, value: object) -> None:
    """What is not plain is refused when it is written, not when it is missed."""
    with pytest.raises(InputError, match="the options of an aggregate holds"):
        details_to_bytes(replace(aggregate, options={"odd": value}))


@pytest.mark.parametrize(
    ("metadata", "tensors", "problem"),
    [
        ({"clients": '["a","a"]'}, {}, "clients must be distinct"),
        ({"clients": "[]"}, {}, "nothing may be empty"),
        ({"clients": '["a","\\n"]'}, {}, "a client's name must be a text that is not empty"),
        ({"clients": '["a"]'}, {}, "'client_of_atom' must lie from 0 to 0; got 0 to 1"),
        ({"clients": None}, {}, "metadata field 'clients' is missing"),
        ({"method": None}, {}, "metadata field 'method' is missing"),
        ({"options": "[]"}, {}, "'options' must be a JSON object"),
        ({"options": '{"a":1,"a":2}'}, {}, "a name appears twice"),
        ({"options": "[" * 5000}, {}, "nests too deep"),
        ({"options": " " * 70_000}, {}, "at most 65536 characters; got 70000"),
        ({"kmeans_objective": "much"}, {}, "'kmeans_objective' must be a number; got 'much'"),
        ({"trust_verdict": '["trusted"]'}, {}, "2 clients need as many verdicts and reasons; got 1 and 2"),
        ({"trust_kind": "[]"}, {}, "2 reasons need as many kinds and numbers; got 0 and 2"),
        ({"trust_numbers": '["{}","{}"]'}, {}, "a reason of kind 'agrees' cannot have the numbers {}"),
        ({"trust_numbers": '["[]","{}"]'}, {}, "'trust_numbers' must hold JSON objects"),
        ({"rejected_kind": "[]"}, {}, "1 reasons need as many kinds and numbers; got 0 and 1"),
        ({"rejected_source": "[]"}, {}, "lists of rejections must be equally long"),
        ({}, {"labels": np.array([0, 1, 2, 0])}, "'labels' must lie from -1 to 1; got 0 to 2"),
        ({}, {"labels": np.array([0, 1])}, "tensor 'labels' has shape (2,); R = 4 elsewhere"),
        ({}, {"signs": np.array([1.0, 0.0, 1.0, 1.0])}, "'signs' must be +1 or -1"),
        ({}, {"atoms": np.full((3, 4), np.inf)}, "'atoms' must be finite"),
        ({}, {"centres": np.eye(3)}, "tensor 'centres' has shape (3, 3); r = 2 elsewhere"),
        ({}, {"trust_has": np.ones((2, 3), dtype=bool)}, "tensor 'trust_has' has shape (2, 3); r = 2 elsewhere"),
        ({}, {"support": np.array([3, 0])}, "'support' must lie from 0 to 2"),
        ({}, {"spectrum": None}, "tensor 'spectrum' is missing"),
    ],
)
def test_each_defect_has_its_sentence(
    aggregate: Aggregate, metadata: dict[str, str | None], tensors: dict[str, Any], problem: str
) -> None:
    """A file that is wrong in one way is refused for that reason."""
    from fedica.exchange.details import DETAILS

    container = parse(details_to_bytes(aggregate), DETAILS, "d")
    new_metadata = {k: v for k, v in {**container.metadata, **metadata}.items() if v is not None}
    new_tensors = {k: v for k, v in {**container.tensors, **tensors}.items() if v is not None}
    with pytest.raises(FormatError, match=r"^d\.safetensors: ") as caught:
        details_from_bytes(b"".join(serialise(new_metadata, new_tensors)), source="d.safetensors")
    assert problem in str(caught.value)


def test_reasons_keep_their_kinds_and_numbers(aggregate: Aggregate) -> None:
    """Other programs need not read sentences; a kind that is not known here keeps the sentence that it came with."""
    read = details_from_bytes(details_to_bytes(aggregate))
    assert read.rejected == aggregate.rejected
    assert read.trust is not None
    assert aggregate.trust is not None
    assert read.trust.why == aggregate.trust.why
    assert read.trust.reason == aggregate.trust.reason
    later = Reason("undecided", {"n_matched": 3}, "matches 3 of 10 components")
    written = replace(aggregate, trust=replace(aggregate.trust, why=(later, later)))
    again = details_from_bytes(details_to_bytes(written)).trust
    assert again is not None
    assert (again.why[1], again.reason[1]) == (later, "matches 3 of 10 components")


def test_reasons_of_the_first_version_are_sentences_alone(aggregate: Aggregate) -> None:
    """Files of 0.1.0 have no kinds; who was withdrawn is known all the same."""
    from fedica.exchange.details import DETAILS

    old = replace(aggregate, rejected=(Rejection.because("x", "withdrawn"), *aggregate.rejected))
    container = parse(details_to_bytes(old), DETAILS, "d")
    metadata = {k: v for k, v in container.metadata.items() if not k.endswith(("_kind", "_numbers"))}
    read = details_from_bytes(b"".join(serialise(metadata, container.tensors)))
    assert read.trust is not None
    assert old.trust is not None
    assert {why.kind for why in read.trust.why} == {""}
    assert read.trust.reason == old.trust.reason
    assert [(x.kind, x.reason) for x in read.rejected] == [
        ("withdrawn", old.rejected[0].reason),
        ("", old.rejected[1].reason),
    ]


def test_no_number_of_rejections_keeps_a_result_from_being_written(aggregate: Aggregate) -> None:
    """Of a flood of bad files with long names the first are kept, and the others counted."""
    flood = tuple(Rejection("(unknown)", "x" * 1500, "y" * 4000) for _ in range(40_000))
    back = details_from_bytes(details_to_bytes(replace(aggregate, rejected=flood)))
    *kept, last = back.rejected
    assert tuple(kept) == flood[: len(kept)]
    assert (last.kind, last.numbers) == ("more-rejected", {"n_rejected": 40_000 - len(kept)})
    assert len(kept) > 1000


@pytest.mark.parametrize("name", ["mixing", "centres", "atoms"])
def test_numbers_that_no_unit_vector_has_are_refused(aggregate: Aggregate, name: str) -> None:
    """A hand-made file with 1e200 would overflow in every norm."""
    array = getattr(aggregate, name).copy()
    array[0, 0] = 1e200
    with pytest.raises(InputError, match=f"'{name}' must be finite, its entries at most"):
        details_to_bytes(replace(aggregate, **{name: array}))

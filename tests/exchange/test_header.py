"""The strict reader of headers and lists: on what is allowed it agrees with a general one; it builds nothing else."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedica.errors import FormatError
from fedica.exchange.header import TensorSpec, parse_header, parse_texts

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
specs = st.builds(
    lambda dtype, shape, start, size: {"dtype": dtype, "shape": shape, "data_offsets": [start, start + size]},
    st.sampled_from(["F64", "I64", "odd"]),
    st.lists(st.integers(0, 10**14), max_size=2),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
)
names = texts.filter(lambda name: name != "__metadata__" and len(json.dumps(name)) < 120)


@given(
    st.dictionaries(names, texts, max_size=8), st.dictionaries(names, specs, max_size=5), st.booleans(), st.booleans()
)
def test_agrees_with_a_general_reader(
    metadata: dict[str, str], tensors: dict[str, dict[str, object]], ascii_only: bool, spaced: bool
) -> None:
    """Any header of the right shape, in any spelling of JSON, reads as json.loads reads it."""
    text = json.dumps({"__metadata__": metadata, **tensors}, ensure_ascii=ascii_only, indent=1 if spaced else None)
    read_metadata, read_specs = parse_header(text + "  ", "file")
    assert read_metadata == metadata
    assert read_specs == {
        name: TensorSpec(spec["dtype"], tuple(spec["shape"]), *spec["data_offsets"])  # type: ignore[arg-type, misc]
        for name, spec in tensors.items()
    }


@given(st.lists(texts, max_size=20), st.booleans())
def test_lists_of_texts_agree_with_a_general_reader(values: list[str], ascii_only: bool) -> None:
    """A JSON list of texts reads as json.loads reads it."""
    assert parse_texts(json.dumps(values, ensure_ascii=ascii_only), "it") == values


SPEC = '{"dtype":"F64","shape":[1],"data_offsets":[0,8]}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must start with '{'"),
        ("[]", "must start with '{'"),
        (" {}", "must start with '{'"),
        ("{", "a text in quotes is missing"),
        ('{"a"}', "':' is missing"),
        ('{"a":{}} x', "lacks its dtype"),
        (f'{{"a":{SPEC}}} x', "something follows"),
        (f'{{"a":{SPEC},"a":{SPEC}}}', "tensor 'a' appears twice"),
        (f'{{"a":{SPEC} "b":{SPEC}}}', "',' is missing"),
        (f'{{"a":{SPEC},}}', "a text in quotes is missing"),
        ('{"__metadata__":{},"__metadata__":{}}', "'__metadata__' appears twice"),
        ('{"__metadata__":{"k":"1","k":"1"}}', "metadata 'k' appears twice"),
        ('{"__metadata__":{"k":1}}', "a text in quotes is missing"),
        ('{"__metadata__":{"k":["v"]}}', "a text in quotes is missing"),
        ('{"__metadata__":null}', "'{' is missing"),
        ('{"__metadata__":{"k":"\\ud800"}}', "half a surrogate pair"),
        ('{"__metadata__":{"k":"\\u12"}}', "broken escape"),
        ('{"__metadata__":{"k":"\\x41"}}', "a text in quotes is missing"),
        ('{"__metadata__":{"k":"\n"}}', "a text in quotes is missing"),
        ('{"a":{"dtype":"F64","dtype":"F64"}}', "tensor 'a': field 'dtype' appears twice"),
        ('{"a":{"shape":[1],"shape":[1]}}', "tensor 'a': field 'shape' appears twice"),
        ('{"a":{"dtype":"F64","shape":[-1],"data_offsets":[0,8]}}', "whole number"),
        ('{"a":{"dtype":"F64","shape":[1.0],"data_offsets":[0,8]}}', "whole number"),
        ('{"a":{"dtype":"F64","shape":[1e3],"data_offsets":[0,8]}}', "whole number"),
        ('{"a":{"dtype":"F64","shape":[01],"data_offsets":[0,8]}}', "whole number"),
        ('{"a":{"dtype":"F64","shape":[1000000000000000],"data_offsets":[0,8]}}', "whole number"),
        ('{"a":{"dtype":"F64","shape":[[1]],"data_offsets":[0,8]}}', "whole number"),
        ('{"a":{"dtype":"F64","shape":[1,1,1],"data_offsets":[0,8]}}', "more than 2 numbers"),
        ('{"a":{"dtype":"F64","shape":[1],"data_offsets":[0]}}', "its two data_offsets"),
        ('{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8],"more":1}}', "unknown field 'more'"),
        ('{"' + "a" * 200 + f'":{SPEC}}}', "more than 128 characters"),
        ("{" + ",".join(f'"t{i}":{SPEC}' for i in range(33)) + "}", "more than 32 tensors"),
        ('{"__metadata__":{' + ",".join(f'"k{i}":""' for i in range(129)) + "}}", "more than 128 metadata fields"),
    ],
)
def test_each_defect_has_its_sentence(text: str, problem: str) -> None:
    """A header that is wrong in one way is refused for that reason, at a place."""
    with pytest.raises(FormatError, match=r"^file: its header .*character \d+") as caught:
        parse_header(text, "file")
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text", ["", "[", "{}", '"a"', "[1]", "[null]", "[[]]", '["a",]', '["a" "b"]', '["\\ud800"]', '["\\u12"]', '["a"]x']
)
def test_what_is_no_list_of_texts_is_refused(text: str) -> None:
    """Anything but a flat list of texts is refused."""
    with pytest.raises(FormatError, match=r"^features must be"):
        parse_texts(text, "features")


@pytest.mark.parametrize("unit", ["[],", "{},", "[", '{"a":', "1,", "null,"])
def test_hostile_json_is_never_built(unit: str) -> None:
    """Four megabytes of small objects, which would become up to a hundred as Python objects, cost next to nothing."""
    text = unit * (4 * 1024 * 1024 // len(unit))
    tracemalloc.start()
    try:
        for hostile in (f'{{"a":{text}', f'{{"__metadata__":{{"a":{text}'):
            with pytest.raises(FormatError):
                parse_header(hostile, "file")
        with pytest.raises(FormatError):
            parse_texts(f"[{text}", "features")
        assert tracemalloc.get_traced_memory()[1] < 10e6  # two copies of the text itself, which the test makes
    finally:
        tracemalloc.stop()

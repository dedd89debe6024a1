"""The container: one canonical serialisation, read by others and by us, every limit checked before memory is taken."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load, save

from fedica.errors import FormatError
from fedica.exchange.field_values import read_whole_number
from fedica.exchange.format import FileKind, is_canonical, parse, require_tensor, serialise

KIND = FileKind("fedica.test", max_header=1024 * 1024, max_numbers=10_000)
BASE = {"format": "fedica.test", "version": "1"}

arrays = st.one_of(
    *(
        hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4))
        for dtype in (np.float64, np.float32, np.int64, np.bool_)
    )
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=10).filter(lambda k: k != "__metadata__")
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def pack(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def spec(dtype: str, shape: list[int], start: int, stop: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


@given(st.dictionaries(keys, values, max_size=5), st.dictionaries(keys, arrays, max_size=5))
def test_what_is_written_is_read_bit_by_bit(metadata: dict[str, str], tensors: dict[str, Any]) -> None:
    """Reading returns every text and every bit of every tensor, and the bytes are canonical."""
    data = b"".join(serialise({**metadata, **BASE}, tensors))
    container = parse(data, KIND, "file")
    assert container.metadata == {**metadata, **BASE}
    assert container.tensors.keys() == tensors.keys()
    for name, array in tensors.items():
        assert container.tensors[name].shape == array.shape
        assert container.tensors[name].tobytes() == array.tobytes()
    assert is_canonical(container, data)


@given(st.dictionaries(keys, values, max_size=5), st.dictionaries(keys, arrays, max_size=5), st.randoms())
def test_the_bytes_do_not_depend_on_the_order_of_anything(
    metadata: dict[str, str], tensors: dict[str, Any], random: Any
) -> None:
    """Shuffled dictionaries and Fortran-ordered arrays give the same bytes."""
    shuffled = [list(d.items()) for d in (metadata, tensors)]
    for items in shuffled:
        random.shuffle(items)
    again = serialise(dict(shuffled[0]), {name: array.copy(order="F") for name, array in shuffled[1]})
    assert b"".join(again) == b"".join(serialise(metadata, tensors))


@given(st.dictionaries(keys, values, max_size=5), st.dictionaries(keys, arrays, min_size=1, max_size=5))
def test_the_safetensors_package_reads_what_we_write(metadata: dict[str, str], tensors: dict[str, Any]) -> None:
    """An independent reader finds the same tensors."""
    read = load(b"".join(serialise(metadata, tensors)))
    assert read.keys() == tensors.keys()
    for name, array in tensors.items():
        assert read[name].tobytes() == array.tobytes()


@given(st.dictionaries(keys, values, max_size=5), st.dictionaries(keys, arrays, max_size=5))
def test_we_read_what_the_safetensors_package_writes(metadata: dict[str, str], tensors: dict[str, Any]) -> None:
    """A file by another writer is as good, if not canonical."""
    container = parse(save(tensors, {**metadata, **BASE}), KIND, "file")
    assert container.metadata == {**metadata, **BASE}
    for name, array in tensors.items():
        assert container.tensors[name].tobytes() == array.tobytes()


def test_the_safetensors_package_finds_our_metadata(tmp_path: Any) -> None:
    """Other tools show who sent a file and what it is."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"".join(serialise({**BASE, "client": "é"}, {"a": np.eye(2)})))
    with safe_open(path, "np") as file:
        assert file.metadata() == {**BASE, "client": "é"}


def test_another_spelling_of_the_same_content_is_not_canonical() -> None:
    """White space in the header, or another order, changes nothing but the bytes."""
    canonical = b"".join(serialise(BASE, {"a": np.ones(1)}))
    header = {"__metadata__": dict(reversed(BASE.items())), "a": spec("F64", [1], 0, 8)}
    other = pack(header, np.ones(1).tobytes())
    one, two = parse(canonical, KIND, "file"), parse(other, KIND, "file")
    assert one.metadata == two.metadata
    assert is_canonical(one, canonical)
    assert not is_canonical(two, other)


def test_reading_copies_nothing() -> None:
    """The tensors are views of the file's bytes, and cannot be written to."""
    data = b"".join(serialise(BASE, {"a": np.ones((50, 2)), "b": np.ones(3, dtype=bool)}))
    for array in parse(data, KIND, "file").tensors.values():
        assert not array.flags.owndata
        assert not array.flags.writeable
        assert array.flags.aligned


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "at least 8 bytes; got 0"),
        (b"1234567", "at least 8 bytes; got 7"),
        ((2**63).to_bytes(8, "little"), f"claims {2**63} bytes; the file has 0"),
        ((16).to_bytes(8, "little") + b"{}", "claims 16 bytes; the file has 2"),
        ((2).to_bytes(8, "little") + b"{}", "multiple of 8 bytes"),
        ((8).to_bytes(8, "little") + b'{"\xff": 1}', "UTF-8; byte 10 is not"),
        (bytes(KIND.max_bytes + 1), f"at most {KIND.max_bytes} bytes; got {KIND.max_bytes + 1}"),
        (pack({}), "expected a fedica.test file; this is a safetensors file without the field 'format'"),
        (pack({"__metadata__": {"format": "pt"}}), "of format 'pt'"),
        (pack({"__metadata__": {"format": "fedica.test"}}), "got version 'None'. Update fedica"),
        (pack({"__metadata__": {"format": "fedica.test", "version": "2"}}), "got version '2'. Update fedica"),
        (pack({"__metadata__": BASE}, b"x" * 8), "need 0 bytes of data; 8 follow"),
        (
            pack({"__metadata__": BASE, "a": spec("F16", [1], 0, 4)}, b"x" * 4),
            "'a' must be one of F64, F32, I64, BOOL; got 'F16'",
        ),
        (pack({"__metadata__": BASE, "a": spec("F64", [2], 0, 8)}, b"x" * 8), "needs bytes 0 to 16"),
        (pack({"__metadata__": BASE, "a": spec("F64", [1], 8, 0)}, b"x" * 8), "its offsets are 8 to 0"),
        (pack({"__metadata__": BASE, "a": spec("F64", [1], 8, 16)}, b"x" * 16), "needs bytes 0 to 8"),
        (pack({"__metadata__": BASE, "a": spec("F64", [1], 0, 8)}, b"x" * 7), "need 8 bytes of data; 7 follow"),
        (
            pack({"__metadata__": BASE, "a": spec("F64", [10**9, 10**9], 0, 8 * 10**14)}),
            "claims the shape (1000000000, ",
        ),
        (
            pack({"__metadata__": BASE, "a": spec("F64", [1], 0, 8), "b": spec("F64", [1], 0, 8)}, b"x" * 8),
            "'b' of shape (1,) needs bytes 8 to 16",
        ),
        (pack({"__metadata__": BASE, "a": spec("BOOL", [2], 0, 2)}, b"\1\2"), "must hold zeros and ones; got 2"),
    ],
)
def test_each_defect_has_its_sentence(data: bytes, problem: str) -> None:
    """A file that is wrong in one way is refused for that reason, with the numbers."""
    with pytest.raises(FormatError, match=r"^file: ") as caught:
        parse(data, KIND, "file")
    assert problem in str(caught.value)


def test_a_tensor_must_be_there_in_its_type() -> None:
    """A missing tensor, another dtype, another number of dimensions: refused, naming what is there."""
    container = parse(b"".join(serialise(BASE, {"a": np.ones(2), "n": np.arange(2)})), KIND, "file")
    assert require_tensor(container, "a", "F64", 1).tolist() == [1, 1]
    with pytest.raises(FormatError, match=r"tensor 'b' is missing; it has 'a', 'n'"):
        require_tensor(container, "b", "F64", 1)
    with pytest.raises(FormatError, match=r"'n' must be F64 with 1 dimensions; got I64 of shape \(2,\)"):
        require_tensor(container, "n", "F64", 1)
    with pytest.raises(FormatError, match=r"'a' must be F64 with 2 dimensions"):
        require_tensor(container, "a", "F64", 2)


@pytest.mark.parametrize("text", ["", "-1", "+1", "01", "1.0", "1e3", "1_0", " 1", "٣", "9" * 19])
def test_a_number_has_one_spelling(text: str) -> None:
    """Signs, leading zeros, other digits and huge numbers are refused."""
    with pytest.raises(FormatError, match="n must be a whole number"):
        read_whole_number(text, "n")
    assert [read_whole_number(good, "n") for good in ("0", "10", "9" * 18)] == [0, 10, 10**18 - 1]


@pytest.mark.parametrize("metadata", [{"a" * 200: "x"}, {"a": "\ud800"}, {f"k{i}": "" for i in range(200)}])
def test_metadata_that_nobody_could_read_are_not_written(metadata: dict[str, str]) -> None:
    """The writer keeps to the limits of the reader."""
    with pytest.raises(FormatError, match="metadata"):
        serialise(metadata, {})


def test_numbers_that_would_change_are_not_written() -> None:
    """A complex array is refused rather than cut to its real part."""
    with pytest.raises(TypeError):
        serialise({}, {"a": np.ones(2, dtype=complex)})

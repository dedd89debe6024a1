"""Headers of .npy files: what numpy's own writer makes is read as numpy reads it, in any number of threads."""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedica.npy import MAX_HEADER, map_npy, read_npy_header, read_npz_array
from fedica.readers import read_data

PLAIN = {"descr": "<f8", "fortran_order": False, "shape": (3, 4)}
X = np.arange(12.0).reshape(3, 4) ** 2


def header(text, version=1):
    width = 2 if version == 1 else 4
    data = text.encode("utf-8" if version == 3 else "latin-1")
    return io.BytesIO(b"\x93NUMPY" + bytes([version, 0]) + len(data).to_bytes(width, "little") + data)


@settings(max_examples=200, deadline=None)
@given(
    array=hnp.arrays(
        dtype=st.one_of(hnp.scalar_dtypes(), hnp.unicode_string_dtypes(), hnp.byte_string_dtypes()),
        shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
        fill=st.nothing(),
    ),
    fortran=st.booleans(),
    version=st.sampled_from([None, (1, 0), (2, 0), (3, 0)]),
)
def test_what_numpy_writes_is_read_as_numpy_reads_it(tmp_path_factory, array, fortran, version):
    """Every kind of plain array, both orders, all versions of the format; from a file and from an archive."""
    array = np.asarray(array, order="F" if fortran else "C")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version, allow_pickle=False)
    stream.seek(0)
    wanted = np.load(stream, allow_pickle=False)
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    path.write_bytes(stream.getvalue())
    with zipfile.ZipFile(path.with_suffix(".npz"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "a.npy")
    with zipfile.ZipFile(path.with_suffix(".npz")) as archive:
        from_archive = read_npz_array(archive, "a")
    for found in (map_npy(path), from_archive):
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        assert found.flags.f_contiguous == wanted.flags.f_contiguous
        assert found.tobytes() == wanted.tobytes()
        assert not found.flags.writeable or found.size == 0


@given(order=st.permutations(sorted(PLAIN)), quote=st.sampled_from("'\""), space=st.sampled_from(["", " ", "\n\t"]))
def test_any_spelling_of_the_dictionary_is_the_same(order, quote, space):
    """Other writers order, quote and space the three entries in their own way."""
    entries = [f"{space}{key!r}{space}:{space}{PLAIN[key]!r}{space}" for key in order]
    for end in ("}", ",}", f",{space}}}{space}\n"):
        text = ("{" + ",".join(entries) + end).replace("'", quote)
        assert ast.literal_eval(text.strip()) == PLAIN
        read = read_npy_header(header(text))
        assert (read.dtype, read.shape, read.order) == (np.dtype("<f8"), (3, 4), "C")


def test_the_long_integers_of_python_2():
    """Files of old recordings have them."""
    read = read_npy_header(header("{'descr': '>i2', 'fortran_order': True, 'shape': (3L, 4L), }  \n"))
    assert (read.dtype, read.shape, read.order) == (np.dtype(">i2"), (3, 4), "F")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }", "no header of a plain array"),
        ("{'descr': '2f8', 'fortran_order': False, 'shape': (3,), }", "no header of a plain array"),
        ("{'descr': 'f8,i4', 'fortran_order': False, 'shape': (3,), }", "no header of a plain array"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "never loaded"),
        ("{'descr': '<f8', 'fortran_order': 0, 'shape': (3,), }", "no header of a plain array"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3 4), }", "no header of a plain array"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }", "no header of a plain array"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (" + 5000 * "9" + ",), }", "integer string conversion"),
        ("{'descr': '<f8', 'fortran_order': False, }", "no header of a plain array"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'more': 1}", "no header of a plain array"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), } + f()", "no header of a plain array"),
        ("'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "no header of a plain array"),
        ("", "no header of a plain array"),
        (" " * (MAX_HEADER + 1), f"at most {MAX_HEADER} bytes, got {MAX_HEADER + 1}"),
    ],
)
def test_headers_that_are_refused(text, sentence):
    """Records, objects, and what is not a header; nothing is evaluated."""
    with pytest.raises(ValueError, match=sentence):
        read_npy_header(header(text, version=2))


def test_an_unknown_type_is_refused():
    """As numpy refuses it."""
    with pytest.raises(TypeError):
        read_npy_header(header("{'descr': '<q9z', 'fortran_order': False, 'shape': (3,), }"))


@pytest.mark.parametrize("start", [b"\x93NUMPY\x04\x00", b"\x93NUMPY\x01\x01", b"\x93numpy\x01\x00"])
def test_other_versions_are_refused(start):
    """A later format is not guessed at."""
    with pytest.raises(ValueError, match="version 1, 2 or 3, got b"):
        read_npy_header(io.BytesIO(start + b"\x10\x00" + b" " * 16))


def test_memory_is_taken_only_for_numbers_that_are_there(tmp_path):
    """A header that tells of more is refused before; extra bytes at the end are ignored, as numpy does."""
    stream = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000000), }")
    (tmp_path / "a.npy").write_bytes(stream.getvalue() + bytes(80))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "X.npy")
    with pytest.raises(ValueError, match="take 8000000000000000000 bytes, got 80"):
        map_npy(tmp_path / "a.npy")
    with (
        zipfile.ZipFile(tmp_path / "a.npz") as archive,
        pytest.raises(ValueError, match="take 8000000000000000000 bytes, got 80"),
    ):
        read_npz_array(archive, "X")


def test_no_header_meets_the_parser_of_python(tmp_path, monkeypatch):
    """Before CPython 3.11.8 ``ast`` raises SystemError where several threads use it; here always."""
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", X=X, features=["a", "b", "c", "d"])

    def fail(*_args, **_kwargs):
        raise SystemError("AST constructor recursion depth mismatch (before=30, after=174)")

    monkeypatch.setattr(ast, "parse", fail)
    with pytest.raises(SystemError):
        np.load(tmp_path / "a.npy")
    for name in ("a.npy", "a.npz"):
        np.testing.assert_array_equal(read_data(tmp_path / name).values, X)


def test_threads_read_while_others_parse(tmp_path):
    """At different depths, and with a garbage collector that lets other threads run in the midst of parsing."""
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", X=X)
    done = threading.Event()

    def parse():
        while not done.is_set():
            with contextlib.suppress(SystemError):  # the fault itself, in the threads of the host
                ast.literal_eval("[" * 20 + "]" * 20)

    def read(depth):
        if depth:
            return read(depth - 1)
        same = True
        for _ in range(50):
            with zipfile.ZipFile(tmp_path / "a.npz") as archive:
                same &= np.array_equal(map_npy(tmp_path / "a.npy"), X)
                same &= np.array_equal(read_npz_array(archive, "X"), X)
        return same

    def give_way(_phase, _info):
        time.sleep(1e-5)

    gc.callbacks.append(give_way)
    try:
        with ThreadPoolExecutor(12) as pool:
            parsing = [pool.submit(parse) for _ in range(4)]
            reading = [pool.submit(read, 10 * k) for k in range(8)]
            try:
                assert all(future.result() for future in reading)
            finally:
                done.set()
            assert [future.result() for future in parsing] == [None] * 4
    finally:
        gc.callbacks.remove(give_way)

"""Arrays of numpy, parquet tables, lists of names, and the table of formats."""

from __future__ import annotations

import datetime
import os
import sys

import numpy as np
import pytest

from fedica.errors import DataError, FormatError, InputError, MissingExtraError
from fedica.readers import READERS, read_data, read_names

X = np.array([[1.5, -2.25], [0.5, 3.0], [2.0, 4.125]])


def test_npy_is_mapped_and_not_loaded(tmp_path):
    """A large array stays on the disk."""
    np.save(tmp_path / "a.npy", X)
    table = read_data(tmp_path / "a.npy")
    assert isinstance(table.values, np.memmap)
    np.testing.assert_array_equal(table.values, X)


def test_npz_with_names(tmp_path):
    """The array X, or the only one; names if there are any."""
    np.savez(tmp_path / "a.npz", X=X, y=np.zeros(3), features=["p", "q"])
    table = read_data(tmp_path / "a.npz", columns=["q"])
    np.testing.assert_array_equal(table.values, X[:, 1:])
    np.savez_compressed(tmp_path / "b.npz", X)
    np.testing.assert_array_equal(read_data(tmp_path / "b.npz").values, X)


def test_an_unnamed_array_takes_the_names_in_order_with_a_note(tmp_path):
    """Only if it has exactly as many columns."""
    np.save(tmp_path / "a.npy", X)
    table = read_data(tmp_path / "a.npy", columns=["p", "q"])
    assert table.features == ("p", "q")
    assert "in order" in table.notes[0]
    with pytest.raises(DataError, match="3 features are wanted; the file has 2 columns"):
        read_data(tmp_path / "a.npy", columns=["p", "q", "r"])


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.zeros(3), r"shape \(n_samples, n_features\)"),
        (np.zeros((0, 3)), "neither of them zero"),
        (np.zeros((2, 2, 2)), r"got \(2, 2, 2\)"),
        (np.zeros((2, 2), dtype=complex), "real numbers"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.array([[1.0, np.nan], [2.0, 3.0]]), "1 of 2 rows"),
    ],
)
def test_arrays_that_are_no_data(tmp_path, array, complaint):
    """The message says which shape and kind it got."""
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError, match=complaint):
        read_data(tmp_path / "a.npy")


def test_nothing_pickled_is_ever_loaded(tmp_path):
    """An object array could run code; it is refused."""
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", X=np.array([[{}]], dtype=object))
    np.save(tmp_path / "c.npy", np.zeros(3, dtype=[("a", "<f8"), ("b", "<i4")]))
    for name in ("a.npy", "b.npz", "c.npy"):
        with pytest.raises(FormatError, match="not an a"):
            read_data(tmp_path / name)


def test_an_array_is_no_archive(tmp_path):
    """One that has the other's suffix is told so; an archive of several arrays must name the data."""
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(FormatError, match=r"it is one array; give it the suffix \.npy"):
        read_data(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", p=X, q=X)
    with pytest.raises(FormatError, match="'X' or 'data' was expected, got 'p', 'q'"):
        read_data(tmp_path / "b.npz")
    (tmp_path / "b.npz").rename(tmp_path / "b.npy")
    with pytest.raises(FormatError, match=r"several arrays; give it the suffix \.npz"):
        read_data(tmp_path / "b.npy")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.parquet"])
@pytest.mark.parametrize("content", [b"", b"junk", b"\x93NUMPY", b"PK\x03\x04junk", b"PAR1"])
def test_damaged_files_are_one_sentence(tmp_path, name, content):
    """Cut short, empty, or something else."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.np|a\.parquet"):
        read_data(tmp_path / name)


def test_parquet(tmp_path):
    """Numbers of any kind; nulls are missing; texts and dates are left out by their types."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    day = datetime.date(2021, 1, 1)
    parquet.write_table(
        pa.table({"a": [1, 2, 3], "when": [day] * 3, "b": [0.5, None, 2.5], "who": ["x", "y", "z"]}),
        tmp_path / "a.parquet",
    )
    with pytest.raises(DataError, match="'b' 1"):
        read_data(tmp_path / "a.parquet")
    table = read_data(tmp_path / "a.parquet", drop_missing=True)
    assert table.features == ("a", "b")
    assert table.left_out == {"when": "dates", "who": "string"}
    np.testing.assert_array_equal(table.values, [[1, 0.5], [3, 2.5]])
    assert read_data(tmp_path / "a.parquet", columns=["a"]).features == ("a",)


def test_without_pyarrow_parquet_says_how_to_install_it(tmp_path, monkeypatch):
    """The extra is named."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"fedica\[tables\]"):
        read_data(tmp_path / "a.parquet")


def test_a_format_is_one_entry(tmp_path, monkeypatch):
    """What a new reader returns passes through the same choice of columns and the same check for missing values."""
    from fedica.readers import Reader, Sheet

    reader = Reader(lambda path, columns, options: Sheet(X, ("id", "b"), {}), "something new")
    monkeypatch.setitem(READERS, ".new", reader)
    (tmp_path / "a.new").touch()
    assert read_data(tmp_path / "a.new").features == ("b",)


def test_only_regular_files_of_known_suffix(tmp_path):
    """A folder, a pipe, nothing, or an unknown suffix: a sentence, and no waiting."""
    with pytest.raises(FormatError, match="folder"):
        read_data(tmp_path)
    with pytest.raises(FormatError, match="cannot be read"):
        read_data(tmp_path / "no.csv")
    with pytest.raises(InputError, match="cannot be the path of a file"):
        read_data("a\0.csv")
    (tmp_path / "a.docx").touch()
    with pytest.raises(FormatError, match=r"'\.docx' is not one that can be read; \.npy"):
        read_data(tmp_path / "a.docx")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "a.csv")
        with pytest.raises(FormatError, match="regular file"):
            read_data(tmp_path / "a.csv")


def test_lists_of_names(tmp_path):
    """One a line; blanks and comments are skipped; twice the same is refused."""
    path = tmp_path / "names.txt"
    path.write_text("\ufeffFz\n\n# reference\n  Cz \n", encoding="utf-8")
    assert read_names(path) == ("Fz", "Cz")
    for content, complaint in ((b"a\na\n", "distinct"), (b"", "at least one"), (b"\xff", "UTF-8")):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=complaint):
            read_names(path)
    with pytest.raises(FormatError, match="there is no such file"):
        read_names(tmp_path / "no")

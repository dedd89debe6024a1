"""Feather, Arrow and parquet tables, and DataFrames: the same numbers, the same care, one sentence for each fault."""

from __future__ import annotations

import datetime
import sys

import numpy as np
import pytest

from fedica.errors import DataError, FormatError, InputError, MissingExtraError, OptionError
from fedica.readers import ReadOptions, as_table, read_data

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

DAY = datetime.date(2021, 1, 1)


def example() -> pa.Table:
    """Numbers of four kinds, a null, an identifier, dates and texts."""
    return pa.table(
        {
            "subject_id": pa.array([7, 3, 9], pa.int32()),
            "age": pa.array([60, 54, 71], pa.uint8()),
            "when": [DAY] * 3,
            "dose": [0.5, None, 2.5],
            "who": ["x", "y", "z"],
            "smokes": [True, False, True],
            "level": pa.array([1.5, 2.5, -3.5], pa.float32()),
        }
    )


def write_stream(table: pa.Table, path: object) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


WRITERS = {
    "a.feather": pyarrow.feather.write_feather,
    "plain.feather": lambda table, path: pyarrow.feather.write_feather(table, path, compression="uncompressed"),
    "batches.feather": lambda table, path: pyarrow.feather.write_feather(table, path, chunksize=2),
    "stream.arrow": write_stream,
    "a.parquet": pyarrow.parquet.write_table,
}


@pytest.mark.parametrize("name", WRITERS)
def test_numbers_of_any_kind_and_nothing_else(tmp_path, name):
    """Nulls are missing; texts, dates and identifiers are left out, each with what it is."""
    WRITERS[name](example(), tmp_path / name)
    with pytest.raises(DataError, match="1 of 3 rows have missing or infinite values: 'dose' 1"):
        read_data(tmp_path / name)
    table = read_data(tmp_path / name, drop_missing=True)
    assert table.features == ("age", "dose", "smokes", "level")
    np.testing.assert_array_equal(table.values, [[60, 0.5, 1, 1.5], [71, 2.5, 1, -3.5]])
    assert table.left_out == {"subject_id": "an identifier, by its name", "when": "dates", "who": "string"}


@pytest.mark.parametrize("name", WRITERS)
def test_wanted_columns_in_the_wanted_order(tmp_path, name):
    """Only these are read; a text that is wanted is refused, and so is what is not there."""
    WRITERS[name](example(), tmp_path / name)
    table = read_data(tmp_path / name, columns=["level", "subject_id"])
    np.testing.assert_array_equal(table.values, [[1.5, 7], [2.5, 3], [-3.5, 9]])
    with pytest.raises(DataError, match="'who' must hold numbers; it holds string"):
        read_data(tmp_path / name, columns=["who", "age"])
    with pytest.raises(DataError, match="1 of 2 wanted features is not there: 'height'"):
        read_data(tmp_path / name, columns=["height", "age"])


@pytest.mark.parametrize("name", WRITERS)
def test_two_columns_of_one_name_are_refused(tmp_path, name):
    """Nobody could tell which is meant."""
    WRITERS[name](pa.table([pa.array([1.0, 2.0]), pa.array([3.0, 4.0])], names=["a", "a"]), tmp_path / name)
    with pytest.raises(DataError, match="two columns are called 'a'"):
        read_data(tmp_path / name)


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_of_texts_has_no_data(tmp_path, name):
    """The sentence names what there is."""
    WRITERS[name](pa.table({"who": ["x", "y"]}), tmp_path / name)
    with pytest.raises(DataError, match=r"no column of numbers is left; left out: 'who' \(string\)"):
        read_data(tmp_path / name)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_file_that_was_cut_short(tmp_path, name, share):
    """Wherever: one sentence, no half table."""
    WRITERS[name](pa.table({"a": np.random.default_rng(0).standard_normal(5000)}), tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FormatError, match="that can be read"):
        read_data(tmp_path / name)


@pytest.mark.parametrize("name", ["a.feather", "a.arrow"])
@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"ARROW1", b"\xff\xff\xff\xff\x10", b"PAR1"])
def test_another_kind_of_file(tmp_path, name, content):
    """A text named .feather, and the like."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match="not a feather or Arrow table"):
        read_data(tmp_path / name)
    (tmp_path / name).write_bytes(b"FEA1" + content)
    with pytest.raises(FormatError, match="first version"):
        read_data(tmp_path / name)


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_row_labels_of_a_data_frame_are_no_feature(tmp_path, suffix):
    """Numbers that label rows, under a name that does not give them away; asked for by name, they are read."""
    frame = pd.DataFrame({"x": [1.5, 2.0, 4.0], "y": [0.0, 1.0, 5.0]}, index=pd.Index([0.7, 0.9, 0.4], name="weight"))
    write = pyarrow.parquet.write_table if suffix == ".parquet" else pyarrow.feather.write_feather
    write(pa.Table.from_pandas(frame), tmp_path / f"a{suffix}")
    table = read_data(tmp_path / f"a{suffix}")
    assert table.features == ("x", "y")
    assert table.left_out == {"weight": "row labels"}
    assert read_data(tmp_path / f"a{suffix}", columns=["weight"]).values.ravel().tolist() == [0.7, 0.9, 0.4]


def test_a_name_with_a_dot_is_not_taken_for_a_part_of_another(tmp_path):
    """Parquet has nested columns, whose paths have dots."""
    pyarrow.parquet.write_table(pa.table({"a.b": [1.0, 2.0], "a": [10.0, 20.0]}), tmp_path / "a.parquet")
    np.testing.assert_array_equal(read_data(tmp_path / "a.parquet", columns=["a"]).values, [[10.0], [20.0]])


@pytest.mark.parametrize("name", ["a.feather", "a.arrow", "a.h5ad"])
def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch, name):
    """One sentence."""
    (tmp_path / name).write_bytes(b"ARROW1")
    for library in ("pyarrow", "h5py", "anndata.io"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"fedica\[tables\]"):
        read_data(tmp_path / name)


def test_a_data_frame_is_read_as_its_file_is(tmp_path):
    """The same features, numbers and notes, from memory and from parquet."""
    frame = example().to_pandas()
    frame.to_parquet(tmp_path / "a.parquet")
    held, read = as_table(frame, drop_missing=True), read_data(tmp_path / "a.parquet", drop_missing=True)
    assert held.features == read.features
    np.testing.assert_array_equal(held.values, read.values)
    assert held.left_out.keys() == read.left_out.keys()
    assert held.n_dropped == 1


def test_data_frames_of_every_dtype():
    """Nullable, categorical, sparse, decimal and complex columns; numbers that are held as objects."""
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "sparse": pd.arrays.SparseArray([0.0, 0.0, 2.0]),
            "objects": np.array([1, None, "2.5"], dtype=object),
            "groups": pd.Categorical(["a", "b", "a"]),
            "complex": np.array([1j, 2, 3]),
            "texts": ["u", "v", "w"],
            "when": pd.to_datetime(["2021-01-01"] * 3),
        }
    )
    with pytest.raises(DataError, match="1 of 3 rows"):
        as_table(frame)
    table = as_table(frame, drop_missing=True)
    assert table.features == ("nullable", "flag", "sparse", "objects")
    np.testing.assert_array_equal(table.values, [[1, 1, 0, 1], [3, 0, 2, 2.5]])
    assert table.left_out == {
        "groups": "category",
        "complex": "complex128",
        "texts": "text, such as 'u'",
        "when": "dates",
    }


def test_a_few_texts_among_numbers_are_an_error():
    """They may be numbers that somebody mistyped; a wanted column of texts is an error, too."""
    frame = pd.DataFrame({"a": np.array([1, 2, 3, "x"], dtype=object), "b": ["p", "q", "r", "s"]})
    with pytest.raises(DataError, match="the column 'a' must hold numbers; 1 of its cells do not, the first is 'x'"):
        as_table(frame)
    with pytest.raises(DataError, match="'b' must hold numbers"):
        as_table(frame, columns=["b"])


def test_only_what_is_known_is_taken():
    """An array has no names; an option that does nothing is refused."""
    with pytest.raises(InputError, match=r"a pandas\.DataFrame.*, got ndarray"):
        as_table(np.zeros((3, 2)))
    with pytest.raises(OptionError, match="--layer says nothing about a DataFrame"):
        as_table(pd.DataFrame({"a": [1.0, 2.0]}), options=ReadOptions(layer="counts"))


def test_a_recording_is_taken_by_the_same_function():
    """What is for tables alone is refused there: a recording has no missing values."""
    mne = pytest.importorskip("mne")
    data = np.random.default_rng(0).laplace(size=(3, 2000)) * 1e-5
    raw = mne.io.RawArray(data, mne.create_info(["Fz", "Cz", "Pz"], 200.0, "eeg"), verbose="ERROR")
    assert as_table(raw).features == ("Fz", "Cz", "Pz")
    with pytest.raises(OptionError, match="say nothing about a recording"):
        as_table(raw, drop_missing=True)

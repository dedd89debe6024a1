"""Text tables as people have them."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.errors import DataError, FedicaError, FormatError
from fedica.readers import cell_rows, read_data

X = np.array([[1.5, -2.25], [0.5, 3.0], [2.0, 4.125]])


def written(tmp_path, text, name="a.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a,b\n1.5,-2.25\n0.5,3\n2,4.125\n", "a.csv"),
        ("a;b\n1.5;-2.25\n0.5;3\n2;4.125\n", "a.csv"),
        ("a;b\n1,5;-2,25\n0,5;3\n2;4,125\n", "a.csv"),
        ("a\tb\n1.5\t-2.25\n0.5\t3\n2\t4.125\n", "a.tsv"),
        ("a\tb\n1,5\t-2,25\n0,5\t3\n2\t4,125\n", "a.txt"),
        ('"a","b"\r\n"1.5","-2.25"\r\n"0.5","3"\r\n"2","4.125"\r\n', "a.csv"),
        ('a,b\n"1,5","-2,25"\n"0,5",3\n2,"4,125"\n', "a.csv"),
        ("\ufeffa,b\n1.5,-2.25\n0.5,3\n2,4.125", "a.csv"),
        ("# a, b\n1.5, -2.25\n\n0.5, 3\n2, 4.125\n\n", "a.csv"),
        (" a , b \n 1.5 , -2.25\n0.5,3\n2,4.125\n", "a.CSV"),
        ("a|b\n1.5|-2.25\n0.5|3\n2|4.125\n", "a.csv"),
        ("# a b\n1.500e+00 -2.250e+00\n5e-1 3\n2 4.125\n", "a.txt"),  # numpy.savetxt
        ("  a  b\n  1.5  -2.25  \n\n  0.5   3 \r\n  2   4.125", "a.txt"),  # FSL
    ],
)
def test_many_ways_to_write_one_table(tmp_path, text, name):
    """Delimiters, decimal commas, quotes, byte-order marks, comment signs and blanks all give the same numbers."""
    table = read_data(written(tmp_path, text, name))
    np.testing.assert_array_equal(table.values, X)
    assert table.features == ("a", "b")


@pytest.mark.parametrize(
    "cells",
    [
        ("1\u202f234,5", "12,25", "1\u00a0234\u00a0567"),  # French
        ("1.234,5", "12,25", "1.234.567"),  # German
        ("1'234.5", "12.25", "1'234'567"),  # Swiss
        ("1,234.5", "12.25", "1,234,567"),  # English
        ("1 234.5", "12.25", "1 234 567"),
    ],
)
def test_thousands_that_can_be_read_in_one_way(tmp_path, cells):
    """Numbers as spreadsheets write them in several languages."""
    table = read_data(written(tmp_path, "a;b;c\n" + ";".join(cells) + "\n0;0;0\n"))
    np.testing.assert_array_equal(table.values, [[1234.5, 12.25, 1234567], [0, 0, 0]])


def test_blanks_separate_numbers_alone(tmp_path):
    """What numpy.savetxt writes is read to the bit; a column of texts with blanks in them is one column."""
    values = np.random.default_rng(0).standard_normal((3000, 20))  # more than one block
    np.savetxt(tmp_path / "a.txt", values)
    np.testing.assert_array_equal(read_data(tmp_path / "a.txt").values, values)
    with pytest.raises(DataError, match="no column of numbers is left"):
        read_data(written(tmp_path, "my name\nanna k\nbela m\n", "b.txt"))
    assert read_data(written(tmp_path, "reaction time\n1.5\n2.5\n", "c.txt")).features == ("reaction time",)


def test_a_table_without_names_has_none(tmp_path):
    """A first row of numbers is data."""
    table = read_data(written(tmp_path, "1.5,-2.25\n0.5,3\n2,4.125\n"))
    np.testing.assert_array_equal(table.values, X)
    assert table.features is None


def test_encodings(tmp_path):
    """UTF-8 as it is, UTF-16 by its mark, anything else as Latin-1 with a note."""
    text = "Fühler,b\n1.5,-2.25\n0.5,3\n2,4.125\n"
    for encoding, noted in (("utf-8", False), ("utf-16", False), ("latin-1", True)):
        table = read_data(written(tmp_path, text, encoding=encoding))
        assert table.features == ("Fühler", "b")
        assert any("Latin-1" in note for note in table.notes) == noted


@pytest.mark.parametrize(
    ("header", "cells", "why"),
    [
        ("subject_id", ["7", "3", "9"], "identifier"),
        ("patientID", ["7", "3", "9"], "identifier"),
        ("ID", ["p-7", "p-3", "p-9"], "text, such as 'p-7'"),
        ("recorded", ["2021-03-04", "2021-03-05", "2021-04-01"], "dates or times"),
        ("day", ["4", "7", "1"], "date or a time"),
        ("hour", ["12:30", "12:45:10", "1:00"], "dates or times"),
        ("sex", ["f", "m", "f"], "text"),
    ],
)
def test_identifiers_and_dates_are_left_out_with_a_note(tmp_path, header, cells, why):
    """Never silently: each is named with the reason, and the rest is read."""
    rows = "".join(f"{cell},{a},{b}\n" for cell, (a, b) in zip(cells, X, strict=True))
    table = read_data(written(tmp_path, f"{header},a,b\n{rows}"))
    assert table.features == ("a", "b")
    assert why in table.left_out[header]
    assert any(repr(header) in note for note in table.notes)


def test_a_counter_is_left_out_whatever_it_is_called(tmp_path):
    """Row numbers and time axes grow in equal steps; a feature never does."""
    values = np.random.default_rng(0).standard_normal((50, 2))
    text = "t,a,b\n" + "".join(f"{0.004 * k:.3f},{a},{b}\n" for k, (a, b) in enumerate(values))
    assert read_data(written(tmp_path, text)).features == ("a", "b")
    text = ",a,b\n" + "".join(f"{k},{a},{b}\n" for k, (a, b) in enumerate(values))  # as pandas writes its index
    assert read_data(written(tmp_path, text)).features == ("a", "b")


def test_a_doubtful_column_can_be_kept(tmp_path):
    """By an answer, or by naming the columns; texts cannot."""
    path = written(tmp_path, "id,a\n7,1\n3,2\n9,4\n")
    asked = []
    table = read_data(path, keep=lambda name, why: asked.append(name) or True)
    assert (asked, table.features) == (["id"], ("id", "a"))
    assert read_data(path, columns=["a", "id"]).features == ("a", "id")
    with pytest.raises(DataError, match="'sex' must hold numbers"):
        read_data(written(tmp_path, "sex,a\nm,1\nf,2\n"), columns=["sex"])


def test_missing_values_are_refused_with_counts_or_dropped(tmp_path):
    """Whatever people write for them; the worst column first."""
    path = written(tmp_path, "a,b,c\n1,NA,3\n,?,6\n7,8,9\n1,n/a,0\n4,5,inf\n")
    with pytest.raises(DataError, match=r"4 of 5 rows have missing .*'b' 3, 'a' 1, 'c' 1.*--drop-missing"):
        read_data(path)
    table = read_data(path, drop_missing=True)
    np.testing.assert_array_equal(table.values, [[7, 8, 9]])
    assert table.n_dropped == 4
    assert any("4 rows" in note for note in table.notes)
    with pytest.raises(DataError, match="every one of the 2 rows"):
        read_data(written(tmp_path, "a,b\n,1\n2,\n"), drop_missing=True)


def test_an_empty_column_is_named(tmp_path):
    """It is left out, or refused by its name where it is wanted: not every row."""
    path = written(tmp_path, "a,b,c\n1,,3\n4,,6\n7,,9.5\n")
    table = read_data(path)
    assert (table.features, table.left_out) == (("a", "c"), {"b": "no value in any row"})
    for drop in (False, True):
        with pytest.raises(DataError, match=r"'b' must hold numbers; got no value in any row\. .*--features"):
            read_data(path, columns=["a", "b"], drop_missing=drop)


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("FP1,cz ,Pz", "Did you mean 'FP1' for 'Fp1', 'cz' for 'Cz'"),
        ("EEG Fp1,EEG Cz,Pz", "It has, among others"),
        ("Fp-1,Cz,Pz", "Did you mean 'Fp-1' for 'Fp1'"),
    ],
)
def test_another_spelling_is_asked_about(tmp_path, header, complaint):
    """Case, blanks and signs in a header differ between programs."""
    with pytest.raises(DataError, match=complaint):
        read_data(written(tmp_path, f"{header}\n1,2,3\n4,5,6.5\n"), columns=["Fp1", "Cz", "Pz"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n3,x\n4,5\n", r"'b' must hold numbers; 1 of its cells do not, the first is 'x' in row 3"),
        ("a,b\n1,2\n3\n", "must have 2 cells; row 3"),
        ("a,b\n", "no rows under them"),
        ("", "empty"),
        ("\n\n", "no rows"),
        (b"a,b\n1,\0\n", "zero byte"),
        ('a,b\n"1,234","2,345"\n"3,456","7,891"\n', "could be a decimal comma or separate thousands"),
        ("a;b\n1,5;2.5\n1;2\n", "some a decimal point"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ("x,y\nred,blue\n", "no column of numbers"),
        (b"\xff\xfea", "damaged"),
        ("a,b\n1," + "9" * 200_000 + "\n", "field larger than"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, text, complaint):
    """Nothing is guessed; the place is named."""
    with pytest.raises((DataError, FormatError), match=complaint):
        read_data(written(tmp_path, text))


def test_columns_are_taken_by_name_and_in_order(tmp_path):
    """Those that are not wanted are noted; those that are not there are refused, or noted if that may be."""
    path = written(tmp_path, "a,b,c\n1,2,3\n4,5,7\n")
    table = read_data(path, columns=["c", "a"])
    np.testing.assert_array_equal(table.values, [[3, 1], [7, 4]])
    assert "'b'" in table.notes[0]
    with pytest.raises(DataError, match="1 of 2 wanted features is not there: 'z'"):
        read_data(path, columns=["a", "z"])
    assert read_data(path, columns=["z", "a"], lacking_ok=True).features == ("a",)
    with pytest.raises(DataError, match="2 of 2 wanted"):
        read_data(path, columns=["y", "z"], lacking_ok=True)


def test_names_are_not_formed_anew_for_every_column(tmp_path, monkeypatch):
    """Voxels of a whole brain are chosen by name in a moment: work grows with the columns, not with their square."""
    formed = []

    def counting(cells, named):
        formed.append(len(cells))
        return original(cells, named)

    original = cell_rows._names
    monkeypatch.setattr(cell_rows, "_names", counting)
    names = [f"voxel {k}" for k in range(50)]
    path = written(tmp_path, "\n".join([",".join(names), ",".join(map(str, range(50))), ",".join(["0.5"] * 50)]))
    table = read_data(path, columns=names[::-2])
    np.testing.assert_array_equal(table.values[0], np.arange(50)[::-2])
    assert len(formed) <= 2


def test_memory_stays_about_the_array(tmp_path):
    """The cells of a large file are never all there at once: under twice the array and a fixed share."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((60_000, 10))
    path = tmp_path / "large.csv"
    np.savetxt(path, values, delimiter=",", header=",".join("abcdefghij"), comments="", fmt="%.12g")
    tracemalloc.start()
    table = read_data(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(table.values, values, rtol=1e-11)
    assert peak < 2 * values.nbytes + 60e6 / 2


@given(
    values=st.lists(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3), min_size=1, max_size=30),
    delimiter=st.sampled_from([",", ";", "\t"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
@settings(max_examples=50, deadline=None)
def test_what_python_writes_is_read_to_the_bit(tmp_path_factory, values, delimiter, quoting):
    """Numbers as repr writes them come back the same."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, quoting=quoting)
    writer.writerows([["x", "y", "z"], *values])
    path = written(tmp_path_factory.mktemp("t"), stream.getvalue())
    np.testing.assert_array_equal(read_data(path, columns=["x", "y", "z"]).values, values)


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_bytes_give_a_table_or_a_sentence(tmp_path_factory, data):
    """No input whatever ends in another error."""
    with contextlib.suppress(FedicaError):
        assert np.isfinite(read_data(written(tmp_path_factory.mktemp("t"), data)).values).all()


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.gz", "a.TXT.GZ"])
@pytest.mark.parametrize("last", ["2,4.125", '"2","4.125"'])
def test_compressed_tables_are_read_as_they_are(tmp_path, name, last):
    """As GEO and pandas write them; also where a quote far below asks for another look at the lines before."""
    text = "a,b\n" + "1.5,-2.25\n0.5,3\n" * 2000 + f"{last}\n"
    table = read_data(written(tmp_path, gzip.compress(text.encode()), name))
    assert table.features == ("a", "b")
    np.testing.assert_array_equal(table.values, np.vstack([np.tile(X[:2], (2000, 1)), X[2]]))


@pytest.mark.parametrize("damage", [lambda packed: packed[:-20], lambda packed: b"a,b\n1,2\n", lambda packed: b""])
def test_damaged_compression_is_one_sentence(tmp_path, damage):
    """Cut short, not compressed at all, or empty."""
    packed = gzip.compress(b"a,b\n" + b"1.5,-2.25\n" * 2000)
    with pytest.raises(FormatError, match=r"a\.csv\.gz: (it cannot be read as what its suffix says|the file is empty)"):
        read_data(written(tmp_path, damage(packed), "a.csv.gz"))

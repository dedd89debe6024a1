"""First lines of numbers: names of columns, or a sample."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.errors import DataError
from fedica.readers import ReadOptions, read_data

RNG = np.random.default_rng(0)
SPREAD = RNG.standard_normal((40, 4))
COUNTS = RNG.poisson(3.0, (40, 9))
LABS = np.column_stack([RNG.integers(20, 90, 40), RNG.integers(40, 120, 40), RNG.integers(150, 200, 40)])


def written(folder, header, values):
    stream = io.StringIO()
    np.savetxt(stream, values, delimiter=",", fmt="%.10g")
    path = folder / "a.csv"
    path.write_text((f"{header}\n" if header else "") + stream.getvalue())
    return path


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("2001,2002,2003,2004", SPREAD),
        ("0,1,2,3", SPREAD),
        ("7892501,7892514,7892502,7892533", SPREAD),
        ("0,1,2,3,4,5,6,7,8", COUNTS),
        ("1007,1053,1121,1294,1316,1405,1431,1438,1487", COUNTS),
        ("0,1,2", LABS),
    ],
)
def test_numbers_that_differ_in_kind_from_those_below_are_names(tmp_path, header, values):
    """The header of pandas, years and probe numbers are no sample; the note says what to do if they are one."""
    table = read_data(written(tmp_path, header, values))
    assert table.features == tuple(header.split(","))
    np.testing.assert_allclose(table.values, values)
    assert any("read as the names of the columns" in note and "--header no" in note for note in table.notes)


def test_an_index_below_an_empty_cell_is_no_feature(tmp_path):
    """As pandas writes a frame of an array with its index, also after rows were drawn from it."""
    path = tmp_path / "a.csv"
    order = RNG.permutation(40)
    path.write_text(",0,1\n" + "".join(f"{k},{a},{b}\n" for k, (a, b) in zip(order, SPREAD[:, :2], strict=True)))
    table = read_data(path)
    assert table.features == ("0", "1")
    np.testing.assert_array_equal(table.values, SPREAD[:, :2])


def test_what_could_be_either_stops_with_both_options(tmp_path):
    """Consecutive numbers among answers from 1 to 5: nobody can tell, so the user does."""
    answers = np.array([[3, 1, 4], [5, 5, 1], [2, 2, 2], [1, 4, 5], [4, 3, 3], [5, 1, 2]])
    path = written(tmp_path, "1,2,3", answers)
    with pytest.raises(DataError, match=r"a\.csv: the first line \(1, 2, 3\) may name .*--header yes .*--header no"):
        read_data(path)
    named = read_data(path, options=ReadOptions(header="yes"))
    assert (named.features, len(named.values)) == (("1", "2", "3"), 6)
    sample = read_data(path, options=ReadOptions(header="no"))
    assert (sample.features, len(sample.values)) == (None, 7)


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("5,17,23", RNG.integers(100, 900, (300, 3))),
        ("0,1,2", np.vstack([[[4, 5, 6], [0, 2, 1]], RNG.integers(3, 9, (60, 3)), [[0, 0, 2], [8, 9, 8]]])),
        ("0,1", RNG.integers(1, 9, (60, 2))),
    ],
)
def test_numbers_apart_and_the_count_of_pandas_are_asked_about(tmp_path, header, values):
    """Smaller than all below, by more than these differ; or from zero on, as no other line, over columns of codes."""
    with pytest.raises(DataError, match=r"may name the columns or be a sample"):
        read_data(written(tmp_path, header, values))
    assert len(read_data(written(tmp_path, header, values), options=ReadOptions(header="yes")).values) == len(values)


def test_the_note_on_a_header_over_an_index_shows_names_alone(tmp_path):
    """The empty cell over the index is not among them."""
    path = tmp_path / "a.csv"
    path.write_text(",0,1,2,3\n" + "".join(f"{k},{a},{b},{c},{d}\n" for k, (a, b, c, d) in enumerate(SPREAD)))
    assert any("the first line (0, 1, 2, ...) was read as the names" in note for note in read_data(path).notes)


WAVELENGTHS = ("450", "452.5", "455", "457.5", "460", "462.5", "465", "467.5")


def test_names_in_equal_steps_are_no_sample(tmp_path):
    """Wavelengths and frequencies, fractions among them; few are asked about, and a ramp among ramps is data."""
    absorbed = RNG.normal(450.3, 5.0, (40, 8))
    assert read_data(written(tmp_path, ",".join(WAVELENGTHS), absorbed)).features == WAVELENGTHS
    with pytest.raises(DataError, match=r"the first line \(450, 452.5, 455, ...\) may name"):
        read_data(written(tmp_path, ",".join(WAVELENGTHS[:5]), absorbed[:, :5]))
    ramps = RNG.normal(0, 1, (9, 1)) + np.arange(8) * 0.5
    assert len(read_data(written(tmp_path, "", ramps)).values) == 9


def test_the_names_that_are_wanted_decide(tmp_path):
    """A study whose features are called 1, 2, 3 tells what the first line is."""
    table = read_data(written(tmp_path, "1,2,3", [[3, 1, 4], [5, 5, 1]]), columns=["3", "1"])
    np.testing.assert_array_equal(table.values, [[4, 3], [1, 5]])


def test_a_sample_stays_a_sample_and_that_is_said(tmp_path):
    """Numbers without names: the note names the option for the other case."""
    table = read_data(written(tmp_path, "", SPREAD))
    assert table.features is None
    assert len(table.values) == len(SPREAD)
    assert any("was read as a sample" in note and "--header yes" in note for note in table.notes)


def test_a_missing_first_value_is_no_empty_name(tmp_path):
    """A line that begins with a missing value, over a column that is no index, is a sample."""
    answers = RNG.integers(1, 6, (40, 3))
    assert len(read_data(written(tmp_path, ",3,5", answers), drop_missing=True).values) == 40
    assert read_data(written(tmp_path, ",3,5", answers), drop_missing=True).features is None


def cells_of(row):
    return [np.format_float_positional(x, trim="-") for x in row]


@given(
    seed=st.integers(0, 2**32 - 1),
    law=st.sampled_from(["normal", "decimals", "answers", "counts", "binary", "constant", "trend", "heavy", "ages"]),
    n_columns=st.integers(2, 12),
    n_rows=st.integers(30, 300),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_false_alarm_on_samples(seed, law, n_columns, n_rows):
    """Real numbers, codes, counts, constants, trends and outliers: a first sample is never taken for names."""
    from fedica.readers.header import is_header

    rng, size = np.random.default_rng(seed), (n_rows, n_columns)
    values = {
        "normal": lambda: rng.standard_normal(size),
        "decimals": lambda: rng.normal(5, 2, size).round(1),
        "answers": lambda: rng.integers(1, 6, size),
        "counts": lambda: rng.poisson(rng.gamma(1, 20, n_columns), size),
        "binary": lambda: rng.integers(0, 2, size),
        "constant": lambda: np.tile(rng.integers(0, 1000, n_columns), (n_rows, 1)),
        "trend": lambda: np.cumsum(rng.integers(0, 9, size), axis=0) + rng.integers(0, 9000, n_columns),
        "heavy": lambda: np.rint(100 * rng.standard_t(2, size)),
        "ages": lambda: np.rint(rng.normal(rng.uniform(20, 200, n_columns), 10, size)),
    }[law]().astype(float)
    assert is_header(cells_of(values[0]), values[1:]) is False


@given(seed=st.integers(0, 2**32 - 1), n_columns=st.integers(8, 40))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_a_counted_header_is_found_over_anything(seed, n_columns):
    """From eight columns on, consecutive numbers are names even over counts."""
    from fedica.readers.header import is_header

    below = np.random.default_rng(seed).poisson(4.0, (50, n_columns)).astype(float)
    assert is_header([str(k) for k in range(n_columns)], below) is True

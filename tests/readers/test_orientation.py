"""Tables with one feature per row: transposed when that is said, asked about when it seems so."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import DataError, OptionError
from fedica.readers import ReadOptions, read_data

RNG = np.random.default_rng(0)
GENES = ("1007_s_at", "1053_at", "117_at", "121_at", "1255_g_at", "1294_at")
ALIKE = np.random.default_rng(1).normal((3, 20, 50), 1, (6, 3))  # columns differ, rows are alike
LEVELS = RNG.uniform(3, 14, (6, 1)) + RNG.normal(0, 0.5, (6, 5))  # genes differ, samples are alike


def geo():
    """Rows are features."""
    return ReadOptions(transpose=True)


def text_of(corner, columns, labels, values, sep=","):
    rows = [[corner, *columns], *([a, *map(repr, map(float, v))] for a, v in zip(labels, values, strict=True))]
    return "".join(sep.join(row) + "\n" for row in rows)


@pytest.fixture
def series_matrix(tmp_path):
    """A table as GEO gives it: lines that begin with an exclamation mark around it, texts quoted."""
    table = text_of('"ID_REF"', [f'"GSM{k}"' for k in range(5)], [f'"{g}"' for g in GENES], LEVELS, "\t")
    head = '!Series_title\t"Stress"\n!Sample_characteristics_ch1\t"age: 5"\t"age: 7"\n\n' * 30
    path = tmp_path / "GSE1_series_matrix.txt"
    path.write_text(f"{head}!series_matrix_table_begin\n{table}!series_matrix_table_end\n")
    return path


def test_a_series_matrix_of_geo_is_asked_about_and_transposed(series_matrix):
    """The sentence names both options; transposed, probes are features and arrays are samples."""
    with pytest.raises(
        DataError, match=r"one sample per column \(columns such as 'GSM0'.*--transpose .*--no-transpose"
    ):
        read_data(series_matrix)
    table = read_data(series_matrix, options=geo())
    assert table.features == GENES
    assert table.labels == tuple(f"GSM{k}" for k in range(5))
    np.testing.assert_array_equal(table.values, LEVELS.T)
    assert any("6 rows were read as features, the 5 columns as samples" in note for note in table.notes)
    some = read_data(series_matrix, columns=["121_at", "1007_s_at"], options=geo())
    np.testing.assert_array_equal(some.values, LEVELS.T[:, [3, 0]])
    assert read_data(series_matrix, options=ReadOptions(transpose=False)).features == table.labels


@pytest.mark.parametrize(
    ("corner", "columns", "labels"),
    [
        ("gene", ["TCGA-02-0001-01", "TCGA-02-0003-01", "TCGA-02-0004-01"], ["TP53", "EGFR", "KRAS", "MYC"]),
        ("", ["north", "west", "east"], ["TP53", "EGFR", "KRAS", "MYC"]),
        ("Gene Symbol", ["a", "b", "c"], ["TP53", "EGFR", "KRAS", "MYC"]),
        ("probe", ["a", "b", "c"], ["ENSG00000141510", "ENSG00000146648", "ENSG00000133703", "ENSG00000136997"]),
    ],
)
def test_genes_by_samples_are_asked_about(tmp_path, corner, columns, labels):
    """By the names of the samples, by those of the genes, or by labels without a name over rows that differ most."""
    (tmp_path / "a.csv").write_text(text_of(corner, columns, labels, LEVELS[:4, :3]))
    with pytest.raises(DataError, match="one feature per row"):
        read_data(tmp_path / "a.csv")
    assert read_data(tmp_path / "a.csv", options=geo()).features == tuple(labels)


@pytest.mark.parametrize(
    "labels",
    [
        ["TP53", "EGFR", "KRAS", "MYC", "HLA-A", "C9orf72"],
        ["FBgn0000001", "FBgn0000003", "FBgn0000008", "FBgn0000014", "FBgn0000015", "FBgn0000017"],
        ["YAL001C", "YBR160W", "YDL220C-A", "YHR205W", "YGL048C", "YAL069W"],
        ["hsa-miR-21-5p", "hsa-let-7a-5p", "hsa-miR-155", "hsa-miR-1", "hsa-mir-9-1", "hsa-miR-34a"],
    ],
)
def test_labels_of_genes_are_asked_about_whatever_the_values_are(tmp_path, labels):
    """Where arrays differ more than genes do, and no column is called like a sample, their names alone tell."""
    (tmp_path / "a.csv").write_text(text_of("", ["north", "west", "east"], labels, ALIKE))
    with pytest.raises(DataError, match=r"one feature per row .*--transpose .*--no-transpose"):
        read_data(tmp_path / "a.csv")
    assert read_data(tmp_path / "a.csv", options=geo()).features == tuple(labels)


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        (["age", "dose", "level"], ["KO1", "KO2", "KO3", "WT1", "WT2", "WT10"]),  # counted
        (["age", "dose", "level"], ["A1", "A12", "B1", "B12", "C1", "C2"]),  # wells of a plate
        (["age", "dose", "level"], ["A7F3K2", "QB91XY", "M4M4ZZ", "K1LT20", "PO7R5S", "ZX81QL"]),  # codes of persons
        (["age", "dose", "level"], ["FRANCE", "ITALY", "CHAD", "OMAN", "CUBA", "PERU"]),
        (["age", "dose", "level"], ["Anna", "Bela", "Carl", "Dora", "Emil", "Fritz"]),
        (["TP53", "EGFR", "MYC"], ["MCF7", "HELA", "A549", "HCT116", "K562", "U2OS"]),  # lines of cells
    ],
)
def test_other_labels_without_a_name_are_an_index(tmp_path, columns, labels):
    """As pandas writes it: left out without a question."""
    (tmp_path / "a.csv").write_text(text_of("", columns, labels, ALIKE))
    table = read_data(tmp_path / "a.csv")
    assert (table.features, table.labels) == (tuple(columns), tuple(labels))


def test_centred_genes_are_asked_about(tmp_path):
    """Log-ratios to the mean of each gene: all rows have the mean zero, so nothing else tells them from samples."""
    labels = [f"b{k:04d}" for k in range(40)]
    values = RNG.laplace(size=(40, 2)) @ RNG.standard_normal((2, 12)) + RNG.normal(0, 0.3, (40, 12))
    centred = (values - values.mean(axis=1, keepdims=True)).round(4)
    (tmp_path / "a.csv").write_text(text_of("", list("abcdefghijkl"), labels, centred))
    with pytest.raises(DataError, match="one feature per row"):
        read_data(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("corner", "columns", "labels"),
    [
        ("", ["age", "dose", "level"], ["p-1", "p-7", "p-3", "p-9"]),  # an index of pandas
        ("patient", ["TP53", "EGFR", "KRAS"], ["anna", "bela", "carl", "dora"]),
        ("", ["TP53", "EGFR", "KRAS"], ["0", "1", "2", "3"]),
        ("", ["TP53", "EGFR", "KRAS"], ["patient-1", "patient-2", "patient-3", "patient-4"]),
    ],
)
def test_samples_by_features_are_read_as_they_are(tmp_path, corner, columns, labels):
    """Labelled samples are the usual case: nobody is asked."""
    values = LEVELS[:4, :3] * [1, 20, 300] + [0, 50, 10]
    (tmp_path / "a.csv").write_text(text_of(corner, columns, labels, values))
    table = read_data(tmp_path / "a.csv")
    assert table.features == tuple(columns)
    assert table.labels == tuple(labels)


def test_labels_that_name_the_features_are_not_left_out(series_matrix):
    """Once transposed, the column of labels is said to be nothing else."""
    table = read_data(series_matrix, options=geo())
    assert "ID_REF" not in table.left_out
    assert not any("ID_REF" in note for note in table.notes)


def test_an_index_of_times_is_no_name_of_features(tmp_path):
    """Sensors that rise and fall together differ more over time than from each other."""
    times = [f"2021-03-04 12:00:{k:02d}" for k in range(6)]
    (tmp_path / "a.csv").write_text(text_of("", ["left", "right"], times, LEVELS[:, :2]))
    assert read_data(tmp_path / "a.csv").features == ("left", "right")


def test_arrays_are_transposed_too_and_other_formats_refuse(tmp_path):
    """Where a format has its own orientation, the option would do nothing."""
    np.save(tmp_path / "a.npy", LEVELS)
    np.testing.assert_array_equal(read_data(tmp_path / "a.npy", options=geo()).values, LEVELS.T)
    (tmp_path / "a.fif").touch()
    with pytest.raises(OptionError, match="--transpose says nothing about a FIF recording"):
        read_data(tmp_path / "a.fif", options=geo())


def test_equal_labels_name_no_features(tmp_path):
    """Two probes of one gene: their rows must be told apart first."""
    (tmp_path / "a.csv").write_text("gene,GSM1,GSM2\nTP53,1,2\nTP53,2,3.5\n")
    with pytest.raises(DataError, match="labels of the rows must be different"):
        read_data(tmp_path / "a.csv", options=geo())


def test_labels_follow_the_rows_that_are_kept(tmp_path):
    """Where rows are dropped, so are their labels."""
    (tmp_path / "a.csv").write_text("who,a,b\nx,1,2\ny,,3\nz,4,5.5\n")
    assert read_data(tmp_path / "a.csv", drop_missing=True).labels == ("x", "z")

"""Columns that tell who or when: by name in several languages, and by content."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets

from fedica.datasets import fetch_ecoli, fetch_fmri_rois
from fedica.errors import DataError, FetchError
from fedica.readers import read_data
from fedica.readers.identifiers import by_content, by_name, doubt

RNG = np.random.default_rng(0)
MEASURED = RNG.normal(50, 9, 60)


@pytest.mark.parametrize(
    "name",
    [
        *("Fallnummer", "Patientennummer", "Versicherten-Nr", "lfd. Nr.", "Geburtsdatum", "Aufnahmedatum"),
        *("Postleitzahl", "PLZ", "zip", "ZIP code", "Code postal", "code_postal", "Codice fiscale", "codice_paziente"),
        *("N° de dossier", "Numéro de sécurité sociale", "date de naissance", "Matricule", "data di nascita"),
        *("Fecha de nacimiento", "número de historia", "código postal", "Personnummer", "geboortedatum", "postcode"),
        *("Medical Record Number", "NHS number", "case_no", "Unnamed: 0", "level_0", "patientID", "birth_date"),
    ],
)
def test_identifiers_in_the_languages_of_their_hospitals(name):
    """However they are spelt: accents, case and punctuation do not matter."""
    assert by_name(name, MEASURED)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "age",
            "Alter",
            "Gewicht",
            "RR_sys",
            "number of lesions",
            "reaction_time",
            "response time",
            "prothrombin time",
        ),
        *("CAP", "NIF", "data", "update_rate", "code", "mean radius", "candidate", "NR1H3", "ID1", "postprandial"),
        *("n_patients", "Datenrate", "Kalium", "days_in_hospital", "CPR", "NIR", "zipf", "Nordwert", "Tagesdosis"),
    ],
)
def test_measurements_keep_their_names(name):
    """Words that only look alike, and times that are measured."""
    assert not by_name(name, MEASURED)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (RNG.permutation(np.arange(5000, 5400)), "no two of them equal"),
        (np.sort(RNG.choice(2000, 300, replace=False)), "no two of them equal"),
        (RNG.choice(np.arange(10_000_000, 99_999_999), 60), "codes: whole numbers of 8 digits"),
        (19_500_000 + 10_000 * RNG.integers(0, 50, 60) + 100 * RNG.integers(1, 13, 60) + 5, "dates"),
    ],
)
def test_content_gives_identifiers_away(column, what):
    """Whatever the column is called: numbers that never repeat, long codes, and dates without signs between."""
    assert what in by_content(column.astype(float))


def test_whole_numbers_of_five_digits_are_noted():
    """Postcodes of one region repeat, the days of a spreadsheet hardly do."""
    assert "postcodes" in doubt(RNG.choice([10115.0, 80331.0, 20095.0], 60))
    assert "postcodes" in doubt(RNG.integers(30_000, 45_000, 60).astype(float))
    assert not doubt(RNG.integers(900, 45_000, 60).astype(float))


def test_a_table_of_a_hospital_sends_neither_who_nor_when(tmp_path):
    """Days as a spreadsheet counts them, postcodes and case numbers, whatever they are called."""
    n = 80
    columns = {
        "Fallnummer": RNG.permutation(n) + 300,
        "Geburtsdatum": RNG.integers(12_000, 40_000, n),
        "PLZ": RNG.integers(10_000, 99_999, n),
        "x": RNG.choice(np.arange(1_000_000, 9_999_999), n),
        "y": RNG.integers(20_000, 45_000, n),
        "Kalium": RNG.normal(4, 0.5, n).round(2),
        "Alter": RNG.integers(18, 95, n),
    }
    rows = zip(*columns.values(), strict=True)
    (tmp_path / "a.csv").write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))
    table = read_data(tmp_path / "a.csv")
    assert table.features == ("Kalium", "Alter")
    assert any("the column 'y' was left out" in note and "five digits" in note for note in table.notes)
    asked = read_data(tmp_path / "a.csv", keep=lambda name, why: name == "y" and "five digits" in why)
    assert asked.features == ("y", "Kalium", "Alter")
    assert not any("'y'" in note for note in asked.notes)  # the user has said what it is


def test_raw_numbers_of_a_device_are_kept(tmp_path):
    """Where most columns hold whole numbers of five digits, they are what was measured; notes say what they may be."""
    values = RNG.integers(31_000, 34_000, (80, 3))
    (tmp_path / "a.csv").write_text("\n".join(["left,right,middle", *(",".join(map(str, row)) for row in values)]))
    table = read_data(tmp_path / "a.csv")
    assert table.features == ("left", "right", "middle")
    assert sum("was kept; it holds whole numbers of five digits" in note for note in table.notes) == 3


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes", "digits", "linnerud"])
def test_real_tables_of_measurements_lose_nothing(name):
    """The tables of scikit-learn: no column is left out, none is doubted."""
    table = getattr(datasets, f"load_{name}")()
    values, names = table.data, [str(name) for name in table.feature_names]
    assert [
        (label, why)
        for k, label in enumerate(names)
        if (why := by_name(label, values[:, k]) or by_content(values[:, k]))
    ] == []
    assert not any(doubt(values[:, k]) for k in range(values.shape[1]))


@pytest.mark.parametrize("labelled", [False, True])
def test_real_data_with_and_without_an_index_loses_no_column(tmp_path, require, labelled):
    """Regions of brains and genes as pandas writes them: only the index goes; genes by samples are asked about."""
    pd = pytest.importorskip("pandas")
    try:
        regions, ecoli = fetch_fmri_rois(), fetch_ecoli()
    except FetchError:
        require("the real data sets", found=False)
    tables = [
        pd.DataFrame(regions.data, columns=regions.channels),
        pd.DataFrame(ecoli.expression[:, :600], columns=ecoli.genes[:600], index=ecoli.samples),
    ]
    for frame in tables:
        frame.to_csv(tmp_path / "a.csv", index=labelled)
        assert read_data(tmp_path / "a.csv").features == tuple(frame.columns)
        frame.to_csv(tmp_path / "a.csv", index=False, header=False)
        np.testing.assert_allclose(read_data(tmp_path / "a.csv").values, frame.to_numpy())
    tables[1].T.to_csv(tmp_path / "a.csv")
    with pytest.raises(DataError, match="--transpose"):
        read_data(tmp_path / "a.csv")


@given(
    seed=st.integers(0, 2**32 - 1),
    law=st.sampled_from(["poisson", "negative-binomial", "adc", "answers", "ages", "money", "constant", "walk"]),
    n_rows=st.integers(20, 2000),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_whole_numbers_that_are_measured_are_kept(seed, law, n_rows):
    """Counts, converters, codes of answers, ages, prices, constants and walks are no identifiers."""
    rng = np.random.default_rng(seed)
    column = {
        "poisson": lambda: rng.poisson(rng.gamma(1, 100), n_rows),
        "negative-binomial": lambda: rng.negative_binomial(0.5, 0.001, n_rows),
        "adc": lambda: np.rint(rng.normal(2048, 300, n_rows)),
        "answers": lambda: rng.integers(1, 6, n_rows),
        "ages": lambda: rng.integers(18, 95, n_rows),
        "money": lambda: 500 * rng.integers(10, 200, n_rows),
        "constant": lambda: np.full(n_rows, rng.integers(0, 10**9)),
        "walk": lambda: np.abs(np.cumsum(rng.integers(-9, 10, n_rows))),
    }[law]()
    assert by_content(column.astype(float)) == ""

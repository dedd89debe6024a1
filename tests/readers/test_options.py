"""What only some formats need to be told: checked, refused where it would do nothing, and the units of features."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from fedica.errors import DataError, OptionError
from fedica.readers import READERS, Reader, ReadOptions, Sheet, read_data, suffix_of


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,4.5\n")
    return path


def test_an_option_of_another_format_is_refused(table, monkeypatch):
    """Whoever gave it expects that it does something; the sentence says for which formats it is."""
    monkeypatch.setitem(READERS, ".xyz", Reader(lambda *_: None, "something new", uses=("keep_bads",)))
    with pytest.raises(OptionError, match=r"a\.csv: --keep-bads says nothing about a text table; it is for .*\.xyz"):
        read_data(table, options=ReadOptions(keep_bads=True))
    assert read_data(table, options=ReadOptions(highpass=1.0)).features == ("a", "b")  # the default is no wish


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"highpass": -1}, "highpass must be a number above 0"),
        ({"highpass": float("nan")}, "highpass must be a number above 0"),
        ({"reference": "Cz"}, "reference must be one of 'average', 'keep'"),
        ({"channel_types": "eeg,eeeg"}, "got 'eeeg'"),
        ({"smoothing": "much"}, "smoothing must be a number"),
    ],
)
def test_values_are_checked(options, sentence):
    """A wrong value is refused before anything is read."""
    with pytest.raises(OptionError, match=sentence):
        ReadOptions(**options)


def test_types_of_channels_in_any_case():
    """People write EEG."""
    assert ReadOptions(channel_types="EEG, Meg").types == ("eeg", "meg")


def test_zero_means_none():
    """As on the command line and in TOML, which has no word for nothing."""
    assert ReadOptions(highpass=0).changed() == ReadOptions(highpass=None).changed() == ("highpass",)
    assert ReadOptions(smoothing=0.0).changed() == ()


def test_every_option_tells_the_commands_its_help():
    """Commands and policies are built from the fields, without waiting for numpy or scikit-learn."""
    code = "import sys, fedica.formats; print([m for m in ('numpy', 'sklearn') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
    for field in fields(ReadOptions):
        assert field.metadata["help"].startswith(("EEG", "fMRI", "AnnData", "Text tables"))
        assert field.metadata.keys() <= {"help", "metavar", "min", "choices", "hidden"}


def test_double_suffixes(monkeypatch):
    """The longest suffix that is known; a point in the name does not matter."""
    monkeypatch.setitem(READERS, ".xyz.gz", Reader(lambda *_: None, "something new"))
    assert suffix_of("a.XYZ.gz") == ".xyz.gz"
    assert suffix_of("sub-1.v2.csv") == ".csv"
    assert suffix_of(Path("b.tar.gz")) == ".gz"
    assert suffix_of("none") == ""


def test_formats_are_imported_when_used():
    """Nothing optional is imported with the readers."""
    code = "import sys, fedica.readers; print([m for m in ('mne', 'nilearn', 'anndata') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("unit", "factor"), [("V", 1e-6), ("mV", 1e-3), ("µV", 1.0), ("microvolts", 1.0), ("nV", 1e3), ("uV", 1.0)]
)
def test_values_are_converted_to_the_unit_of_the_study(tmp_path, monkeypatch, unit, factor):
    """However the unit is spelt; a feature without one keeps that of the file."""
    X = np.array([[1.0, 2.0], [3.0, 5.0]])
    reader = Reader(lambda path, columns, options: Sheet(X, ("a", "b"), {}, units=("uV", "uV")), "something new")
    monkeypatch.setitem(READERS, ".new", reader)
    (tmp_path / "a.new").touch()
    table = read_data(tmp_path / "a.new", units={"a": unit})
    np.testing.assert_allclose(table.values, X * [factor, 1.0], rtol=1e-12)
    assert table.units == (unit, "uV")
    assert any("converted" in note for note in table.notes) == (factor != 1.0)
    for wrong in ("fT", "z-score"):
        with pytest.raises(DataError, match=f"'b' is wanted in '{wrong}'; the file has 'uV'"):
            read_data(tmp_path / "a.new", units={"b": wrong})

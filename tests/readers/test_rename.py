"""Columns that are called otherwise than in the study."""

from __future__ import annotations

import pytest

from fedica.errors import DataError, FormatError
from fedica.readers import ReadOptions, read_data

ROWS = "1.5,2.5,x\n2.5,1.5,y\n3.5,4.5,z\n"


def read(folder, renames, columns=None, head="Kalium,Natrium,note"):
    (folder / "a.csv").write_text(f"{head}\n{ROWS}")
    (folder / "names.txt").write_text(renames, encoding="utf-8-sig")
    return read_data(folder / "a.csv", columns=columns, options=ReadOptions(rename=folder / "names.txt"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("columns", [None, ["sodium", "potassium"]])
def test_columns_get_their_new_names(tmp_path, delimiter, columns):
    """Also when the study asks for them, in its order."""
    table = read(tmp_path, f"Kalium{delimiter}potassium\nNatrium {delimiter} sodium\n\n", columns)
    assert table.features == tuple(columns or ("potassium", "sodium"))
    assert table.values[0].tolist() == ([2.5, 1.5] if columns else [1.5, 2.5])
    assert "2 columns were renamed: 'Kalium', 'Natrium'." in table.notes


def test_what_is_left_out_is_named_anew(tmp_path):
    """A column of texts."""
    assert set(read(tmp_path, "note,remark\n").left_out) == {"remark"}


@pytest.mark.parametrize(
    ("renames", "error", "complaint"),
    [
        ("Calium,potassium\n", DataError, "'Calium' should be renamed, but there is no such column"),
        ("Kalium\n", FormatError, "every line must hold two names"),
        ("Kalium,\n", FormatError, "every line must hold two names"),
        ("Kalium,a\nNatrium,a\n", FormatError, "some are there twice"),
        ("Kalium,Natrium\n", DataError, "two columns are called 'Natrium'"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(tmp_path, renames, error, complaint):
    """A misspelt column, half a line, one name for two columns."""
    with pytest.raises(error, match=complaint):
        read(tmp_path, renames)


def test_a_format_without_names_refuses_the_option(tmp_path):
    """Voxels are not renamed."""
    (tmp_path / "a.nii.gz").write_bytes(b"x")
    with pytest.raises(Exception, match="--rename says nothing about a NIfTI image"):
        read_data(tmp_path / "a.nii.gz", options=ReadOptions(rename=tmp_path / "names.txt"))

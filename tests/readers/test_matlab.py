"""MATLAB files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import eye_array

from fedica.errors import DataError, FormatError
from fedica.readers import ReadOptions, read_data

X = np.random.default_rng(0).standard_normal((7, 3))


@pytest.mark.parametrize("names", [np.array(["Fz", "Cz", "Pz"], dtype=object), np.array(["Fz", "Cz", "Pz"])])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_matrix_and_its_channels(tmp_path, names, compressed):
    """Cells or rows of characters name the columns; single numbers beside the data do not matter."""
    savemat(tmp_path / "a.mat", {"data": X, "channels": names, "srate": 250}, do_compression=compressed)
    table = read_data(tmp_path / "a.mat")
    np.testing.assert_array_equal(table.values, X)
    assert table.features == ("Fz", "Cz", "Pz")


def test_other_arrays_are_named_as_not_used(tmp_path):
    """What was taken for the data is said where there was a choice."""
    savemat(tmp_path / "a.mat", {"X": X, "labels": X[:, :1]})
    np.savez(tmp_path / "a.npz", X=X, labels=X[:, 0])
    for name in ("a.mat", "a.npz"):
        assert read_data(tmp_path / name).notes == ("'X' was read as the data; not used: 'labels'.",)


def test_channels_by_samples_are_transposed(tmp_path):
    """As EEG lies in MATLAB."""
    savemat(tmp_path / "a.mat", {"EEG": X.T})
    np.testing.assert_array_equal(read_data(tmp_path / "a.mat", options=ReadOptions(transpose=True)).values, X)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"a": X, "b": X}, "one array called 'X' or 'data' was expected, got 'a', 'b'"),
        ({"X": np.array(["text", "more"])}, "data must be real numbers"),
        ({"X": 1j * X}, "data must be real numbers"),
        ({"X": eye_array(5).tocsc()}, "'X' must be a full matrix"),
        ({"X": X, "channels": np.array(["Fz", "Cz"], dtype=object)}, "must be 3 texts"),
    ],
)
def test_what_is_no_table_is_one_sentence(tmp_path, content, complaint):
    """Each names the file."""
    savemat(tmp_path / "a.mat", content)
    with pytest.raises((DataError, FormatError), match=rf"a\.mat: .*{complaint}"):
        read_data(tmp_path / "a.mat")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not a file that MATLAB saved"),
        (b"not MATLAB at all", "not a file that MATLAB saved"),
        (b"MATLAB 7.3 MAT-file, Platform: GLNXA64", "-v7"),
    ],
)
def test_foreign_files(tmp_path, data, complaint):
    """An empty one, another one, and the newer format."""
    (tmp_path / "a.mat").write_bytes(data)
    with pytest.raises(FormatError, match=complaint):
        read_data(tmp_path / "a.mat")

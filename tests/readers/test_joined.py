"""Several files of one client."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fedica.errors import DataError, InputError
from fedica.readers import ReadOptions, read_files
from fedica.workflow import contribute

X = np.random.default_rng(0).laplace(size=(900, 3)) @ np.random.default_rng(1).standard_normal((3, 3))


def write(path, values, names="a,b,c"):
    np.savetxt(path, values, delimiter=",", header=names, comments="")
    return path


def test_rows_are_joined_in_the_order_of_the_first_file(tmp_path):
    """Columns are taken by their names; the note says how many samples each file has."""
    one = write(tmp_path / "1.csv", X[:500])
    other = write(tmp_path / "2.csv", X[500:, ::-1], names="c,b,a")
    table = read_files([one, other])
    np.testing.assert_allclose(table.values, X)
    assert table.features == ("a", "b", "c")
    assert "2 files were joined: 500 + 400 samples." in table.notes
    np.testing.assert_array_equal(read_files([one]).values, table.values[:500])


def test_the_fit_is_that_of_all_rows(tmp_path):
    """What leaves is the same as from one file with all rows, and tells of neither file."""
    files = [write(tmp_path / "1.csv", X[:500]), write(tmp_path / "2.csv", X[500:])]
    whole = write(tmp_path / "all.csv", X)
    joined, one = (contribute(data, client="a").contribution for data in (files, whole))
    np.testing.assert_array_equal(joined.atoms, one.atoms)
    assert joined.n_samples == 900
    assert any("2 files" in line for line in contribute(files, client="a").stays)


@pytest.mark.parametrize(
    ("names", "values", "complaint"),
    [
        ("a,b,x", X, "1 of 3 wanted features is not there: 'c'"),
        ("a,b", X[:, :2], "1 of 3 wanted features is not there: 'c'"),
        ("", X[:, :2], r"3 features are wanted; the file has 2 columns"),
    ],
)
def test_files_with_other_features_are_refused(tmp_path, names, values, complaint):
    """The sentence begins with the file."""
    first = write(tmp_path / "1.csv", X)
    other = write(tmp_path / "2.csv", values, names=names) if names else tmp_path / "2.npy"
    if not names:
        np.save(other, values)
    with pytest.raises(DataError, match=complaint):
        read_files([first, other])


def test_arrays_without_names_must_have_as_many_columns(tmp_path):
    """Nothing else can be compared."""
    np.save(tmp_path / "1.npy", X)
    np.save(tmp_path / "2.npy", X[:, :2])
    with pytest.raises(DataError, match=r"2\.npy: all files of a client .* has 3, this one 2"):
        read_files([tmp_path / "1.npy", tmp_path / "2.npy"])


def test_what_all_files_lack_is_said_once(tmp_path):
    """A column of texts is left out of each; one that only a later file has is named."""
    (tmp_path / "1.csv").write_text("ward,a,b\nx,1.5,2\ny,3,4.5\n")
    (tmp_path / "2.csv").write_text("ward,a,b,new\nx,5.5,6\ny,7,8.5\n".replace("6\n", "6,1\n").replace("8.5", "8.5,2"))
    table = read_files([tmp_path / "1.csv", tmp_path / "2.csv"])
    assert table.notes == (
        "the column 'ward' was left out: it holds text, such as 'x'.",
        "left out because the first file does not have them: 'new'.",
        "2 files were joined: 2 + 2 samples.",
    )


def test_a_file_counts_once(tmp_path):
    """The same file twice would count its samples twice."""
    path = write(tmp_path / "1.csv", X)
    (tmp_path / "link.csv").symlink_to(path)
    for files in ([path, tmp_path / "link.csv"], []):
        with pytest.raises(InputError, match="one or more different files"):
            read_files(files)


def test_runs_of_one_mask_are_joined_and_others_refused(tmp_path):
    """In another grid their columns are not the same places."""
    pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    from images_simulated import AFFINE, MASK, run_of, save

    moved = AFFINE + np.eye(4, k=3)
    one, other = save(tmp_path / "1.nii", run_of(0)), save(tmp_path / "2.nii", run_of(1), affine=moved)
    mask = save(tmp_path / "mask.nii", MASK, dtype=np.uint8)
    with pytest.raises(DataError, match=r"2\.nii: the image must have the grid of the mask"):
        read_files([one, other], options=ReadOptions(mask=mask))
    same = save(tmp_path / "3.nii", run_of(2))
    assert read_files([one, same], options=ReadOptions(mask=mask)).values.shape[0] == 120


def recording(path, rate=200.0, highpass=None, lowpass=None):
    """Save a recording that says at which frequencies it was filtered."""
    pytest.importorskip("mne")
    from eeg_simulated import dipole_maps, simulated_raw

    raw = simulated_raw(dipole_maps(3), n_samples=2000, extra=False)
    raw.resample(rate, verbose="ERROR").filter(highpass, lowpass, verbose="ERROR").save(path, verbose="ERROR")
    return path


@pytest.mark.parametrize(
    ("one", "other", "complaint"),
    [
        (
            {"rate": 100.0},
            {"rate": 200.0},
            r"2_raw\.fif: all recordings of a client must be sampled at the same rate; .*1_raw\.fif is sampled at "
            r"100 Hz, this one at 200 Hz\. Resample them to one rate first, .* raw\.resample\(100\)",
        ),
        ({"highpass": 2.0}, {"highpass": 3.0}, r"high-pass of .*1_raw.fif is at 2 Hz, .* at 3 Hz. Give --highpass 3"),
        ({"highpass": 2.0}, {}, r"high-pass of .*1_raw.fif is at 2 Hz, .* at 1 Hz. Give --highpass 2"),
        ({"lowpass": 40.0}, {"lowpass": 60.0}, r"low-pass of .*1_raw.fif is at 40 Hz, .* at 60 Hz. Give --lowpass 40"),
    ],
)
def test_recordings_with_other_rates_or_filters_are_refused(tmp_path, one, other, complaint):
    """They cannot be joined: the sentence says what differs and what to do, and that helps."""
    files = [recording(tmp_path / "1_raw.fif", **one), recording(tmp_path / "2_raw.fif", **other)]
    with pytest.raises(DataError, match=complaint):
        read_files(files)
    remedy = re.search(r"Give --(\w+) (\d+)", complaint)
    if remedy:
        joined = read_files(files, options=ReadOptions(**{remedy[1]: float(remedy[2])}))
        assert getattr(joined.passband, remedy[1]) == float(remedy[2])


def test_a_filter_that_one_recording_does_not_mention_is_noted(tmp_path):
    """It may have been filtered all the same; what fedica filters away itself needs no word."""
    files = [recording(tmp_path / "1_raw.fif"), recording(tmp_path / "2_raw.fif", highpass=0.5, lowpass=40.0)]
    [note] = [note for note in read_files(files).notes if "does not say so" in note]
    assert "2_raw.fif was low-pass filtered at 40 Hz, as it says itself" in note
    assert note.endswith("1_raw.fif does not say so. If it was not, give --lowpass 40.")
    assert not any("does not say so" in note for note in read_files(files, options=ReadOptions(lowpass=30.0)).notes)

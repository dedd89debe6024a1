"""The data sets themselves, where they are in the cache or can be fetched: shapes, units, labels that fit."""

from __future__ import annotations

import gzip
import re
import struct

import numpy as np
import pytest

from fedica import datasets
from fedica.errors import FetchError


@pytest.fixture(scope="module", autouse=True)
def _reachable(require):
    """Try the smallest first: where that cannot be had, none is waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_DEFAULT_TIMEOUT", "15")
        try:
            datasets.fetch_fmri_rois()
        except FetchError:
            require("the real data sets", found=False)
        yield


@pytest.fixture
def get(require):
    """Return what a function fetches, where it can be fetched."""

    def get(fetch):
        try:
            return fetch()
        except FetchError:
            require("the real data sets", found=False)

    return get


def correlation(recording, one, other):
    columns = [recording.channels.index(name) for name in (one, other)]
    return np.corrcoef(recording.data[:, columns].T)[0, 1]


def test_ecoli_expression_is_what_its_published_components_explain(get):
    """Samples, genes and components of the three tables belong together: the product explains most of the data."""
    ecoli = get(datasets.fetch_ecoli)
    assert ecoli.expression.shape == (278, 3923) == (len(ecoli.samples), len(ecoli.genes))
    assert ecoli.published.shape == (3923, 92)
    assert len(set(ecoli.projects)) == 21
    left = ecoli.expression - ecoli.activities @ ecoli.published.T
    shuffled = ecoli.expression - ecoli.activities[::-1] @ ecoli.published.T
    total = np.sum(ecoli.expression**2)
    assert 0.67 < 1 - np.sum(left**2) / total < 0.69
    assert np.sum(shuffled**2) > total
    assert not ecoli.expression.flags.writeable
    assert "92 published components" in repr(ecoli)


def test_eeg_of_five_people(get):
    """Volts; eight channels that are not a combination of one another."""
    people = get(datasets.fetch_eeg_five)
    assert list(people) == [f"sub-0{k}" for k in range(1, 6)]
    for recording in people.values():
        assert recording.data.shape == (252000, 8)
        assert recording.sfreq == 240
        assert 1e-6 < np.median(recording.data.std(axis=0)) < 50e-6
        assert np.linalg.matrix_rank(recording.data[:20000]) == 8
        assert correlation(recording, "O1", "Oz") > correlation(recording, "O1", "Fpz")


def test_eeg_of_64_channels_is_labelled_right(get):
    """Neighbours on the head are alike, and no padding is left at the end."""
    recording = get(datasets.fetch_eeg_64)
    assert recording.data.shape == (9632, 64)
    assert len(set(recording.channels)) == 64
    assert recording.data[-1].any()
    assert 10e-6 < np.median(recording.data.std(axis=0)) < 100e-6
    correlations = np.corrcoef(recording.data.T)
    row = [re.sub(r"[0-9z]+$", "", name) for name in recording.channels]  # FC5, FCz, FC4: one row of the cap
    beside = np.array([k for k in range(63) if row[k] == row[k + 1] and row[k] not in {"FT", "T", "TP"}])
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(64) for _ in range(99)]
    as_labelled = correlations[beside, beside + 1].mean()
    assert as_labelled > max(correlations[order[beside], order[beside + 1]].mean() for order in shuffled)
    assert correlation(recording, "Fp1", "Fp2") > correlation(recording, "Fp1", "O1") + 0.5  # the eyes' own signal


def test_fmri_regions_are_labelled_right(get):
    """The same region of both sides is more alike than regions are on the whole."""
    recording = get(datasets.fetch_fmri_rois)
    assert recording.data.shape == (250, 31)
    assert recording.sfreq == pytest.approx(1 / 1.89)
    usual = np.abs(np.corrcoef(recording.data[:, 3:].T)).mean()
    for region in ("Put", "Cau", "Thal", "PCC"):
        assert correlation(recording, f"L{region}", f"R{region}") > usual + 0.2


def test_images_and_recordings_as_files(get):
    """They are there under the names by which other libraries know what they are."""
    images, meg = get(datasets.fetch_fmri_images), get(datasets.fetch_meg)
    assert [path.name for path in (*images.paths, *meg.paths)] == ["fmri1.nii.gz", "fmri2.nii.gz", "test_raw.fif"]
    assert all(path.read_bytes()[:2] == b"\x1f\x8b" for path in images.paths)
    assert meg.paths[0].read_bytes()[3] == 100  # a FIF file begins with its id


def test_runs_of_one_slice_are_images_of_one_size(get):
    """Twelve runs in their order; 40 x 20 x 1 voxels, 121 scans, as the header of the file says."""
    runs = get(datasets.fetch_fmri_slice)
    assert [path.name for path in runs.paths] == [f"task001_run{k:03d}_bold_1slice.nii.gz" for k in range(1, 13)]
    for path in runs.paths:
        header = gzip.decompress(path.read_bytes())[:348]
        assert struct.unpack("<8h", header[40:56])[:5] == (4, 40, 20, 1, 121)


def test_eeg_of_128_channels_is_there_with_its_fits(get):
    """Two people: an EDF file of 130 signals (128 channels, two of annotations), and a FIF file."""
    files = get(datasets.fetch_eeg_128)
    assert [path.name[:7] for path in files.paths] == ["sub-s01"] * 2 + ["sub-s02"] * 2
    for edf, fif in (files.paths[:2], files.paths[2:]):
        with open(edf, "rb") as stream:
            assert int(stream.read(256)[252:256]) == 130
        assert fif.read_bytes()[3] == 100

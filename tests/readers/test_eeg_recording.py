"""Recordings that MNE holds in memory: the same handling as files; bad channels, references, filters, amplitudes."""

from __future__ import annotations

import numpy as np
import pytest

from fedica import LocalICA
from fedica.errors import DataError, InputError, OptionError
from fedica.evaluate import recovery_error
from fedica.readers import ReadOptions, as_table, read_data
from fedica.readers import recording as recording_module

mne = pytest.importorskip("mne")
from eeg_simulated import NAMES, dipole_maps, simulated_raw  # noqa: E402 - needs mne

MAPS = dipole_maps(5)


@pytest.fixture
def raw():
    return simulated_raw(MAPS)


def test_a_live_recording_is_read_as_its_file(raw, tmp_path):
    """One path for both, and the recording is not changed."""
    raw.info["bads"] = ["T8"]
    raw.set_annotations(mne.Annotations([2.0], [1.0], ["bad blink"]))
    before = raw.get_data()
    raw.save(tmp_path / "a_raw.fif", fmt="double", verbose="ERROR")
    live, file = as_table(raw), read_data(tmp_path / "a_raw.fif")
    np.testing.assert_allclose(live.values, file.values, atol=1e-9)
    assert (live.features, live.units, live.notes) == (file.features, file.units, file.notes)
    np.testing.assert_array_equal(raw.get_data(), before)


def test_atoms_of_a_recording_are_its_scalp_maps(raw):
    """Through filter and reference: the maps that made it, with the average over channels taken out."""
    table = as_table(raw)
    atoms = LocalICA(5, random_state=0).fit(table.values).atoms_
    centred = MAPS - MAPS.mean(axis=0)
    assert recovery_error(atoms, centred).relative < 0.06
    assert np.linalg.matrix_rank(table.values) == len(NAMES) - 1


def test_bad_channels(raw):
    """Left out with a note, also when a study wants them; used on request."""
    raw.info["bads"] = ["Cz", "O1"]
    table = as_table(raw)
    assert not {"Cz", "O1"} & set(table.features)
    assert "left out because they are marked as bad: 'Cz', 'O1'." in table.notes
    assert table.left_out["Cz"] == "a channel that is marked as bad"
    wanted = as_table(raw, columns=["Fz", "Cz", "Pz"])
    assert wanted.features == ("Fz", "Pz")
    assert any("'Cz'" in note for note in wanted.notes)
    assert as_table(raw, options=ReadOptions(keep_bads=True)).features == tuple(NAMES)
    raw.info["bads"] = NAMES
    with pytest.raises(DataError, match=r"all 19 wanted channels of type eeg are marked as bad\. Give --keep-bads"):
        as_table(raw)


def test_reference(raw):
    """The average over the channels that are used, or that of the recording."""
    kept = as_table(raw, options=ReadOptions(reference="keep"))
    average = as_table(raw)
    np.testing.assert_allclose(average.values.mean(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(average.values, kept.values - kept.values.mean(axis=1, keepdims=True), atol=1e-9)
    assert "the reference of the recording was kept, as was asked for." in kept.notes
    with pytest.raises(DataError, match="an average reference needs several EEG channels, got one"):
        as_table(raw, columns=["Cz"])


def test_the_filter(raw):
    """Drifts of 300 microvolts at 0.05 Hz are gone; what was high-passed already is not filtered again."""
    drift = np.exp(-2j * np.pi * 0.05 * np.arange(raw.n_times) / 200.0) / raw.n_times
    options = ReadOptions(highpass=0, reference="keep")
    raw_values, filtered = as_table(raw, options=options).values, as_table(raw).values
    assert np.abs(drift @ raw_values).min() > 100
    assert np.abs(drift @ filtered).max() < 0.02 * np.abs(drift @ raw_values).min()  # what is left is at the edges
    np.testing.assert_allclose(raw_values, raw.get_data("eeg").T * 1e6)
    done = raw.copy().filter(2.0, None, verbose="ERROR")
    table = as_table(done, options=ReadOptions(reference="keep"))
    np.testing.assert_array_equal(table.values, done.get_data("eeg").T * 1e6)
    assert "not filtered: it was high-passed at 2 Hz already, as it says itself." in table.notes


def test_the_low_pass(raw):
    """A hum at 70 Hz is gone, the rest stays; what says itself that it has nothing above is not filtered again."""
    hum = np.exp(-2j * np.pi * 70 * np.arange(raw.n_times) / 200.0) / raw.n_times
    plain = as_table(raw, options=ReadOptions(reference="keep"))
    table = as_table(raw, options=ReadOptions(lowpass=40, reference="keep"))
    assert np.abs(hum @ table.values).max() < 0.02 * np.abs(hum @ plain.values).max()
    by_hand = raw.copy().filter(1.0, 40.0, picks="eeg", verbose="ERROR").get_data("eeg").T * 1e6
    np.testing.assert_allclose(table.values, by_hand, atol=1e-6)
    assert "low-pass filtered at 40 Hz with MNE's FIR filter." in table.notes
    done = raw.copy().filter(None, 30.0, verbose="ERROR")
    for limit, recording in ((40, done), (120, raw)):
        notes = as_table(recording, options=ReadOptions(lowpass=limit)).notes
        assert any(note.startswith("not low-pass filtered: it has nothing above") for note in notes)
    assert (as_table(done).passband.lowpass, plain.passband.lowpass) == (30.0, 0.0)
    with pytest.raises(OptionError, match=r"lowpass must be above highpass, 1 Hz; got 0\.5 Hz"):
        ReadOptions(lowpass=0.5)


def test_recordings_that_cannot_be_filtered(raw):
    """Sampled too slowly, or too short for the filter."""
    slow = mne.io.RawArray(raw.get_data("eeg"), mne.create_info(NAMES, 1.5, "eeg"), verbose="ERROR")
    with pytest.raises(DataError, match=r"sampled at 1\.5 Hz, too slowly for a high-pass at 1 Hz"):
        as_table(slow)
    with pytest.raises(DataError, match=r"lasts 2 s; a high-pass at 1 Hz needs at least 3\.3 s"):
        as_table(raw.copy().crop(0, 2.0, include_tmax=False))


def test_amplitudes_that_no_brain_has(raw):
    """Microvolts where MNE wants volts, and volts divided by a million: the sentence says which."""
    for factor, words in (
        (1e6, "microvolts that are declared to be volts"),
        (1e-6, "volts that are declared to be micro"),
    ):
        wrong = mne.io.RawArray(raw.get_data("eeg") * factor, mne.create_info(NAMES, 200.0, "eeg"), verbose="ERROR")
        with pytest.raises(DataError, match=words):
            as_table(wrong)


def test_flat_channels_and_values_that_are_no_numbers(raw):
    """Named, with what to do."""
    raw._data[3] = 1e-6
    with pytest.raises(DataError, match=r"1 of 19 channels are flat: 'F4'\. Mark them as bad"):
        as_table(raw)
    raw.info["bads"] = ["F4"]
    as_table(raw)
    raw._data[5, 7] = np.nan
    with pytest.raises(DataError, match="'F8' has 1 values that are not numbers"):
        as_table(raw)


def test_all_is_annotated_as_bad(raw):
    """Nothing is left to fit."""
    raw.set_annotations(mne.Annotations([0.0], [100.0], ["BAD_all"]), verbose="ERROR")
    with pytest.raises(DataError, match="no two samples are left"):
        as_table(raw)


def test_other_types_of_channels(raw):
    """Asked for by their type; what the recording has instead is listed."""
    table = as_table(raw, options=ReadOptions(channel_types="eeg, eog"))
    assert table.features == (*NAMES, "EOG1")
    eeg = [k for k, name in enumerate(table.features) if name != "EOG1"]
    np.testing.assert_allclose(table.values[:, eeg].mean(axis=1), 0.0, atol=1e-9)  # the eyes take no part
    with pytest.raises(DataError, match="channels of type grad or mag are wanted; it has 19 eeg, 1 eog, 1 stim"):
        as_table(raw, options=ReadOptions(channel_types="meg"))


def test_epochs_are_put_one_after_the_other(raw):
    """Not filtered, which is said; in the units and the reference of a recording."""
    filtered = raw.copy().filter(1.0, None, verbose="ERROR")
    epochs = mne.make_fixed_length_epochs(filtered, 2.0, preload=True, verbose="ERROR")
    table = as_table(epochs)
    np.testing.assert_allclose(table.values, as_table(filtered).values, atol=1e-9)
    unfiltered = as_table(mne.make_fixed_length_epochs(raw, 2.0, preload=True, verbose="ERROR"))
    assert any("epochs are too short" in note for note in unfiltered.notes)


def test_batches_and_single_precision_give_the_same(raw, monkeypatch):
    """A recording that is large is read some channels at a time, into float32."""
    whole = as_table(raw).values
    monkeypatch.setattr(recording_module, "BATCH_BYTES", 3 * 8 * raw.n_times)
    np.testing.assert_allclose(as_table(raw).values, whole, atol=1e-9)
    monkeypatch.setattr(recording_module, "SINGLE_PRECISION_BYTES", 1000)
    single = as_table(raw).values
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, whole, atol=1e-3)


def test_only_recordings_and_their_options(raw):
    """Another object, or an option of another format."""
    with pytest.raises(InputError):
        as_table(raw.info)
    with pytest.raises(OptionError, match="--layer says nothing about a FIF recording"):
        as_table(raw, options=ReadOptions(layer="counts"))

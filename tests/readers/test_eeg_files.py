"""EEG files, each written by the library that people write them with: the signal comes back, and faults are named."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest

from fedica.datasets.archive import data_folder
from fedica.errors import DataError, FormatError, MissingExtraError
from fedica.readers import ReadOptions, read_data

mne = pytest.importorskip("mne")
from eeg_simulated import NAMES, dipole_maps, simulated_raw  # noqa: E402 - needs mne

CAN_WRITE_BDF = "bdf" in (mne.export.export_raw.__doc__ or "").lower()
FILES = ("a.edf", *(("a.bdf",) if CAN_WRITE_BDF else ()), "a_raw.fif", "a.fif.gz", "a.vhdr", "a.set")
BAD = mne.Annotations([3.0, 10.0, 20.0], [1.0, 0.5, 2.0], ["BAD_move", "BAD_move", "rest"])


@pytest.fixture(scope="module")
def raw():
    """Nineteen channels of EEG, one of the eyes, one of triggers; two segments of 300 samples in all are bad."""
    recording = simulated_raw(dipole_maps(5))
    recording.set_annotations(BAD)
    return recording


@pytest.fixture(scope="module")
def folder(raw, tmp_path_factory):
    """The same recording in every format."""
    path = tmp_path_factory.mktemp("eeg")
    with mne.use_log_level("ERROR"):
        raw.save(path / "a_raw.fif")
        raw.save(path / "a.fif.gz")
        without_triggers = raw.copy().pick(["eeg", "eog"])
        for name, kind in (("a.edf", "edf"), ("a.bdf", "bdf"), ("a.set", "eeglab"), ("a.vhdr", "brainvision")):
            if kind != "bdf" or CAN_WRITE_BDF:
                mne.export.export_raw(path / name, without_triggers, fmt=kind)
    return path


@pytest.fixture(scope="module")
def expected(raw):
    """What an EEG person would do by hand, in microvolts."""
    done = raw.copy().pick("eeg").filter(1.0, None, verbose="ERROR").set_eeg_reference("average", verbose="ERROR")
    return done.get_data(reject_by_annotation="omit", verbose="ERROR").T * 1e6


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_what_is_done_by_hand(folder, expected, name, capfd):
    """Filtered, without bad segments, average reference, microvolts; told in notes, and MNE says nothing."""
    table = read_data(folder / name)
    quantised = {"a.edf": 0.05}.get(name, 1e-3)  # EDF holds 16 bits
    assert table.features == tuple(NAMES)
    assert table.values.shape == expected.shape
    assert np.abs(table.values - expected).max() < quantised
    assert table.units == ("uV",) * len(NAMES)
    assert table.left_out["EOG1"] == "eye movements (EOG)"
    told = " ".join(table.notes)
    for words in (
        f"{len(expected)} samples at 200 Hz, 19 eeg channels in uV",
        "high-pass filtered at 1 Hz",
        "2 segments annotated as bad (BAD_move): 300 of 8000 samples were dropped; 7700 are left",
        "average reference over the 19 EEG channels",
        "'EOG1' was left out",
    ):
        assert words in told
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_named_as_such(folder, tmp_path, name):
    """Cut anywhere, also between two samples: never a shorter recording that is taken for the whole."""
    for share in (0.05, 0.3, 0.77):
        path = tmp_path / name
        if name == "a.vhdr":
            shutil.copy(folder / "a.vhdr", path)
            shutil.copy(folder / "a.vmrk", tmp_path)
            whole = (folder / "a.eeg").read_bytes()
            (tmp_path / "a.eeg").write_bytes(whole[: int(len(whole) * share) | 1])
        else:
            whole = (folder / name).read_bytes()
            path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(FormatError, match=r"cut short|damaged") as refused:
            read_data(path)
        assert str(refused.value).startswith(f"{path}: ")
        assert "\n" not in str(refused.value)


def test_a_fif_cut_between_two_buffers(folder, tmp_path):
    """MNE reads what is there without a word; here it is refused."""
    whole = (folder / "a_raw.fif").read_bytes()
    ends = [k for k in range(8) if _reads(whole[: len(whole) // 2 + 4 * k], tmp_path / "cut_raw.fif")]
    for k in ends or [0]:
        (tmp_path / "cut_raw.fif").write_bytes(whole[: len(whole) // 2 + 4 * k])
        with pytest.raises(FormatError, match="cut short"):
            read_data(tmp_path / "cut_raw.fif")


def _reads(data, path):
    path.write_bytes(data)
    try:
        mne.io.read_raw_fif(path, preload=True, verbose="ERROR")
    except Exception:
        return False
    return True


@pytest.mark.parametrize("suffix", [".edf", ".bdf", ".fif", ".fif.gz", ".vhdr", ".set"])
def test_files_that_are_something_else(tmp_path, suffix):
    """Text, nothing, noise: one sentence each, before MNE sees it."""
    path = tmp_path / f"x{suffix}"
    path.write_text("time,Fp1,Fp2\n0,1,2\n" * 50)
    with pytest.raises(FormatError, match=r"text that starts with 'time,Fp1,Fp2'|not compressed by gzip"):
        read_data(path)
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="the file is empty"):
        read_data(path)
    path.write_bytes(np.random.default_rng(0).bytes(4000))
    with pytest.raises(FormatError, match=r"does not begin as such a file does|not compressed by gzip"):
        read_data(path)


def test_other_fif_files_are_called_by_what_they_hold(raw, tmp_path):
    """Where to go with an ICA solution, epochs or averages."""
    with mne.use_log_level("ERROR"):
        epochs = mne.make_fixed_length_epochs(raw, 2.0, preload=True)
        epochs.save(tmp_path / "x-epo.fif")
        epochs.average().save(tmp_path / "x-ave.fif")
        epochs.export(tmp_path / "x.set")
        ica = mne.preprocessing.ICA(3, max_iter=2, random_state=0)
        filtered = raw.copy().filter(1.0, None)
        with pytest.warns(UserWarning, match="converge"):
            ica.fit(filtered)
        ica.save(tmp_path / "x-ica.fif")
    for name, words in (
        ("x-epo.fif", "it holds epochs.*as_table"),
        ("x-ave.fif", "it holds averages"),
        ("x.set", "it holds epochs"),
        ("x-ica.fif", "it holds an ICA solution.*from_mne"),
    ):
        with pytest.raises(FormatError, match=words):
            read_data(tmp_path / name)


def test_a_brainvision_header_without_its_data(folder, tmp_path):
    """Three files belong together."""
    shutil.copy(folder / "a.vhdr", tmp_path)
    with pytest.raises(FormatError, match=r"'a\.eeg', is not beside it"):
        read_data(tmp_path / "a.vhdr")


def test_channels_of_the_study(folder):
    """In the study's order; some that are not there, or are none of EEG, are named."""
    table = read_data(folder / "a.edf", columns=["O2", "Cz", "Fp1"])
    assert table.features == ("O2", "Cz", "Fp1")
    np.testing.assert_allclose(table.values.sum(axis=1), 0.0, atol=1e-9)  # referenced to these three
    with pytest.raises(DataError, match="1 of 3 wanted features is not there: 'A1'"):
        read_data(folder / "a.edf", columns=["O2", "Cz", "A1"])
    with pytest.raises(DataError, match=r"none of the 2 wanted channels \('E1', 'E2' \.\.\.\) is there"):
        read_data(folder / "a.edf", columns=["E1", "E2"])
    with pytest.raises(DataError, match=r"'EOG1' is wanted as eeg; it holds eye movements"):
        read_data(folder / "a.edf", columns=["O2", "EOG1"])


def test_units_of_the_study(folder, expected):
    """MNE holds volts; a study may want them, or millivolts."""
    table = read_data(folder / "a_raw.fif", columns=NAMES, units=dict.fromkeys(NAMES, "mV"))
    np.testing.assert_allclose(table.values, expected / 1e3, atol=1e-6)
    with pytest.raises(DataError, match="'Fp1' is wanted in 'fT'; the file has 'uV'"):
        read_data(folder / "a_raw.fif", columns=NAMES, units=dict.fromkeys(NAMES, "fT"))


def _edf(path, signals, **header):
    """An EDF file as its authors' library writes it: name -> (values, sampling rate, physical dimension)."""
    edfio = pytest.importorskip("edfio")
    edfio.Edf(
        [
            edfio.EdfSignal(values, rate, label=name, physical_dimension=unit)
            for name, (values, rate, unit) in signals.items()
        ],
        **header,
    ).write(path)
    return path


@pytest.fixture
def microvolts():
    return np.random.default_rng(0).laplace(size=(3, 4000)) * 20.0


@pytest.mark.parametrize(
    ("factor", "unit", "mistake"),
    [
        (1.0, "V", "microvolts that are declared to be volts"),
        (1.0, "mV", "microvolts that are declared to be millivolts"),
        (1e-3, "uV", "millivolts that are declared to be microvolts"),
        (1e-6, "uV", "volts that are declared to be microvolts"),
    ],
)
def test_wrong_units_are_recognised(tmp_path, microvolts, factor, unit, mistake):
    """The amplitude after the filter tells which mistake it is."""
    signals = {name: (row * factor, 200, unit) for name, row in zip(("C3", "C4", "Cz"), microvolts, strict=True)}
    with pytest.raises(DataError, match=f"which no brain does: it looks like {mistake}"):
        read_data(_edf(tmp_path / "a.edf", signals))


def test_channels_that_are_no_eeg_by_their_label_or_unit(tmp_path, microvolts):
    """EDF knows no types: a label with one, a usual name, or a unit that is no voltage tell."""
    signals = {
        "EEG C3": (microvolts[0], 200, "uV"),
        "C4": (microvolts[1], 200, "uV"),
        "EOG left": (microvolts[2], 200, "uV"),
        "HEOG": (microvolts[2], 200, "uV"),
        "EKG": (microvolts[2], 200, "uV"),
        "EMG1": (microvolts[2], 200, "uV"),
        "SaO2": (microvolts[2], 200, "%"),
        "Therm": (microvolts[2], 200, "degC"),
    }
    table = read_data(_edf(tmp_path / "a.edf", signals))
    assert table.features == ("C3", "C4")
    assert table.left_out["Therm"] == "values in degC"
    assert set(table.left_out) == {"left", "HEOG", "EKG", "EMG1", "SaO2", "Therm"}


def test_channels_sampled_faster_do_not_change_the_rate(tmp_path, microvolts):
    """EEG at 200 Hz beside an ECG at 1000 Hz stays at 200 Hz; two rates within the EEG are refused."""
    signals = {name: (row, 200, "uV") for name, row in zip(("C3", "C4", "Cz"), microvolts, strict=True)}
    alone = read_data(_edf(tmp_path / "a.edf", signals))
    fast = np.repeat(microvolts[0], 5)
    both = read_data(_edf(tmp_path / "b.edf", {"ECG": (fast, 1000, "uV"), **signals}))
    np.testing.assert_allclose(both.values, alone.values, atol=1e-9)
    with pytest.raises(DataError, match=r"different rates \('Pz' at 1000 Hz, 'C3' at 200 Hz\)"):
        read_data(_edf(tmp_path / "c.edf", {"Pz": (fast, 1000, "uV"), **signals}))


def test_without_mne_the_extra_is_named(folder, monkeypatch):
    """One sentence that says how to install it."""
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedica\[eeg\]'"):
        read_data(folder / "a.edf")


def test_a_real_recording_of_meg_and_eeg(require):
    """The file that ships with eeglabio: each type by itself, in its unit, with amplitudes of a brain."""
    path = data_folder() / "eeglabio-0.1.4" / "test_raw.fif"
    require("the real data sets", path.is_file())
    eeg = read_data(path)
    assert eeg.values.shape == (14400, 60)
    assert 5 < np.median(eeg.values.std(axis=0)) < 100
    assert len(eeg.left_out) == 306 + 9 + 1
    assert len(eeg.notes) < 10
    magnetometers = read_data(path, options=ReadOptions(channel_types="mag"))
    assert magnetometers.units == ("fT",) * 102
    assert 100 < np.median(magnetometers.values.std(axis=0)) < 5000
    meg = read_data(path, options=ReadOptions(channel_types="meg"))
    assert meg.values.shape == (14400, 306)
    assert any("different units" in note for note in meg.notes)


def test_a_study_made_from_a_recording_knows_its_units(folder, tmp_path):
    """``fedica study new --from``, ``local`` and ``apply``: the commands read recordings, and say what was done."""
    from typer.testing import CliRunner

    from fedica.cli import app
    from fedica.exchange import read_study

    def run(*words):
        outcome = CliRunner().invoke(app, [str(word) for word in words])
        assert outcome.exit_code == 0, outcome.output
        return outcome.output

    study = tmp_path / "study.json"
    run("study", "new", "--id", "eeg", "--from", folder / "a.edf", "--components", 4, "-o", study)
    assert read_study(study).features == tuple(NAMES)
    assert read_study(study).units == ("uV",) * len(NAMES)
    said = ""
    for name in ("a.edf", "a_raw.fif"):
        said = run("local", folder / name, "--study", study, "-o", tmp_path / f"{name[:-4]}.safetensors")
    assert "Note: High-pass filtered at 1 Hz" in said
    assert "Note: Average reference over the 19 EEG channels" in said
    (tmp_path / "in").mkdir()
    for path in tmp_path.glob("*.safetensors"):
        path.rename(tmp_path / "in" / path.name)
    run("aggregate", tmp_path / "in", "--study", study, "--min-support", 2, "-o", tmp_path / "out")
    run("apply", tmp_path / "out", folder / "a.vhdr", "--study", study, "-o", tmp_path / "sources.npy")
    assert np.load(tmp_path / "sources.npy").shape == (7700, 4)
    outcome = CliRunner().invoke(app, ["local", str(folder / "a.edf"), "--mask", "x.nii", "-o", str(tmp_path / "x")])
    assert outcome.exit_code == 1
    assert "--mask says nothing about an EDF recording; it is for .nii" in outcome.output

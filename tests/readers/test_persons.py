"""Of whom the rows are: a column of a table, or the subjects of BIDS."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedica.errors import DataError, FedicaError, FormatError
from fedica.readers import ReadOptions, bids_recordings, read_data, read_files
from fedica.workflow import contribute

TABLE = "ward,K,Na,person\n1,4.5,140,{0}\n2,3.5,141,{0}\n1,4.1,139,{1}\n3,3.9,150,{1}\n"


def write(path, *persons):
    path.write_text(TABLE.format(*persons))
    return path


def test_persons_are_counted_and_left_out(tmp_path):
    """Numbers or texts, with or without a list of wanted columns."""
    for persons in (("7", "9"), ("ann", "bob")):
        path = write(tmp_path / "a.csv", *persons)
        for columns in (None, ["Na", "K"]):
            table = read_data(path, columns=columns, options=ReadOptions(person="person"))
            assert table.persons == frozenset(persons)
            assert "person" not in table.features
            assert "person" in table.left_out
            assert sum("'person'" in note for note in table.notes) == 1
    assert read_data(path).persons is None


def test_files_of_the_same_person_count_once(tmp_path):
    """Rows are joined, persons united."""
    paths = [write(tmp_path / "a.csv", "ann", "bob"), write(tmp_path / "b.csv", "bob", "cem")]
    assert read_files(paths, options=ReadOptions(person="person")).persons == {"ann", "bob", "cem"}


def test_a_column_that_is_not_there(tmp_path):
    """The others are named; a transposed table has no such column."""
    path = write(tmp_path / "a.csv", "ann", "bob")
    with pytest.raises(DataError, match=r"no column 'patient' to tell persons by\. It has 'ward', 'K'"):
        read_data(path, options=ReadOptions(person="patient"))
    with pytest.raises(DataError, match=r"Did you mean 'person' for 'Persons'\?"):
        read_data(path, options=ReadOptions(person="Persons"))
    with pytest.raises(DataError, match="a transposed table has samples in its columns"):
        read_data(path, options=ReadOptions(person="person", transpose=True))


@pytest.fixture
def data_set(tmp_path):
    """Two subjects whose channels.tsv mark other channels as bad, and call electrodes of the face F7 and F8 EOG."""
    mne = pytest.importorskip("mne")
    from eeg_simulated import dipole_maps, simulated_raw

    for seed, bad in enumerate(["Cz", "O1"]):
        folder = tmp_path / f"sub-0{seed + 1}" / "eeg"
        folder.mkdir(parents=True)
        raw = simulated_raw(dipole_maps(3), seed, n_samples=2000, extra=False)
        mne.export.export_raw(folder / f"sub-0{seed + 1}_task-rest_eeg.vhdr", raw, verbose="ERROR")
        rows = [
            f"{name}\t{'EOG' if name in ('F7', 'F8') else 'EEG'}\tuV\t{'bad' * (name == bad) or 'good'}"
            for name in raw.ch_names
        ]
        text = "\n".join(["name\ttype\tunits\tstatus", *rows, ""])
        (folder / f"sub-0{seed + 1}_task-rest_channels.tsv").write_text(text)
    return tmp_path


def test_channels_of_bids_are_as_their_table_says(data_set, monkeypatch):
    """Other types and bad channels are left out, and that is said; joined, what is bad in one file is bad in all."""
    monkeypatch.chdir(data_set)
    first, second = bids_recordings(["sub-01", "sub-02"])[0]
    table = read_data(first)
    assert not {"Cz", "F7", "F8"} & set(table.features)
    assert "O1" in table.features
    assert "types of channels, and which are bad, are those of sub-01_task-rest_channels.tsv." in table.notes
    assert "left out because they are marked as bad: 'Cz'." in table.notes
    assert table.left_out["F7"] == "eye movements (EOG)"
    assert "Cz" in read_data(first, options=ReadOptions(keep_bads=True)).features
    both = contribute(["sub-01", "sub-02"], client="a", bids=True)
    assert len(both.contribution.features) == 19 - 4
    assert "left out of all files, because one marks them as bad: 'O1'." in both.notes
    assert not any("the first file does not have" in note for note in both.notes)
    assert both.contribution.persons == 2
    values = read_files([first, second]).values
    np.testing.assert_allclose(values.mean(axis=1), 0.0, atol=1e-9)  # the reference is the average of these channels
    Path("sub-02/eeg/sub-02_task-rest_channels.tsv").unlink()
    for name in ("task-rest_channels.tsv", "sub-02/sub-02_channels.tsv", "task-other_channels.tsv"):
        bad = {"task-rest_channels.tsv": "Pz", "sub-02/sub-02_channels.tsv": "P3"}.get(name, "P4")
        Path(name).write_text(f"name\ttype\tstatus\n{bad}\tEEG\tbad\n")
    assert read_data(second).left_out == {"P3": "a channel that is marked as bad"}  # the nearest that fits
    Path("sub-02/sub-02_channels.tsv").write_text("no table")
    with pytest.raises(FormatError, match="must have a column 'name'"):
        read_data(second)


def test_recordings_of_a_data_set(tmp_path):
    """Data of subjects, in order; what describes them, and derivatives, are not data."""
    for name in (
        "sub-02/ses-1/eeg/sub-02_ses-1_task-rest_eeg.edf",
        "sub-01/eeg/sub-01_task-rest_run-2_eeg.vhdr",
        "sub-01/eeg/sub-01_task-rest_run-1_eeg.vhdr",
        "sub-01/eeg/sub-01_task-rest_run-1_channels.tsv",
        "sub-01/func/sub-01_task-rest_bold.json",
        "derivatives/x/sub-01/eeg/sub-01_task-rest_eeg.edf",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files, subjects = bids_recordings([tmp_path])
    assert [path.name.split("_task")[0] for path in files] == ["sub-01", "sub-01", "sub-02_ses-1"]
    assert subjects == {"sub-01", "sub-02"}
    assert bids_recordings([tmp_path / "sub-02"])[1] == {"sub-02"}
    with pytest.raises(FormatError, match="no recording of BIDS"):
        bids_recordings([tmp_path / "sub-01" / "func"])
    with pytest.raises(FedicaError, match="--bids expects folders"):
        bids_recordings([tmp_path / "sub-03"])

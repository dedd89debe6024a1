"""New users with files as other software writes them: the commands of each persona, one script each, do as they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from fedica.cli import app

SCRIPTS = Path(__file__).parent


def run_script(name):
    """Run the commands of a script in the current folder, and check exit codes and what they print."""
    for block in re.split(r"\n(?=\S)", (SCRIPTS / name).read_text(encoding="utf-8").strip()):
        line, *texts = block.split("\n")
        if line.startswith("#"):
            continue
        code, command = re.fullmatch(r"(?:\[(\d)\] )?(fedica .*)", line).groups()
        result = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="fedica")
        assert result.exit_code == int(code or 0), (line, result.output, result.exception)
        said = " ".join(result.output.split())
        for text in texts:
            assert text.strip() in said, (line, text, result.output)


def laboratory(seed, n_samples=2500):
    """Three sources in four laboratory values."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).standard_normal((4, 3)) * [[0.5], [60.0], [4.0], [9.0]]
    return rng.laplace(size=(n_samples, 3)) @ mixing.T + [4.2, 250.0, 90.0, 60.0], rng


def excel(path, names, values, encoding, seed):
    """Write a table as Excel saves it where the comma is the decimal sign: semicolons, CRLF, an ANSI code page."""
    rng = np.random.default_rng(seed)
    lines = [";".join(["Fallnummer", "Geburtsdatum", "PLZ", *names, "Bemerkung"])]
    for k, row in enumerate(values):
        who = [str(70_000 + 7 * k), str(rng.integers(9_000, 40_000)), f"{rng.integers(10_000, 99_999)}"]
        lines.append(";".join([*who, *(f"{x:.2f}".replace(".", ",") for x in row), "unauffällig"]))
    path.write_bytes("\r\n".join([*lines, ""]).encode(encoding))


def test_data_manager(tmp_path, monkeypatch):
    """Excel in German and French, with a case number, a birthday as a serial number and a postcode in each row."""
    monkeypatch.chdir(tmp_path)
    names = ["Kalium", "Thrombozyten", "Größe", "Alter"]
    for seed, (name, encoding) in enumerate([("nord", "cp1252"), ("ouest", "utf-8-sig"), ("ost", "cp1252")]):
        excel(tmp_path / f"{name}.csv", names, laboratory(seed)[0], encoding, seed)
    excel(tmp_path / "klein.csv", [name.lower() for name in names], laboratory(5)[0], "cp1252", 5)
    run_script("data_manager.txt")
    assert (tmp_path / "quellen.csv").read_text().startswith("row,component_0")
    for name in ("nord", "ouest", "ost"):
        sent = (tmp_path / f"{name}.safetensors").read_bytes()
        assert b"Fallnummer" not in sent
        assert b"PLZ" not in sent


def test_analyst(tmp_path, monkeypatch):
    """The same array, however pandas and MATLAB hold it."""
    pd = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(2000, 3)) @ rng.standard_normal((3, 5)) + 0.01 * rng.standard_normal((2000, 5))
    frame = pd.DataFrame(X)
    frame.to_csv("indexed.csv")
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("bare.csv", index=False, header=False)
    answers = np.array([[1, 2, 3], *rng.permuted(np.tile([[3, 1, 4], [5, 5, 1], [2, 2, 5]], (20, 1)), axis=1)])
    answers = answers[[True, *(np.diff(answers[1:]) != 1).any(axis=1)]]
    pd.DataFrame(answers).to_csv("codes.csv", index=False, header=False)
    savemat("array.mat", {"X": X})
    run_script("analyst.txt")


def series_matrix(path, seed):
    """Write expression of 300 probes in 40 arrays as GEO gives it."""
    rng = np.random.default_rng(seed)
    maps = np.random.default_rng(7).laplace(size=(300, 3))
    levels = (
        np.linspace(4, 13, 300)[:, None] + maps @ rng.standard_normal((3, 40)) + 0.05 * rng.standard_normal((300, 40))
    )
    head = ['!Series_title\t"Stress"', '!Series_geo_accession\t"GSE1"', "", '!Sample_title\t"a"\t"b"']
    arrays = "\t".join(f'"GSM{1000 * seed + k}"' for k in range(40))
    rows = [f'"{1000 + k}_at"\t' + "\t".join(f"{x:.4f}" for x in row) for k, row in enumerate(levels)]
    table = ["!series_matrix_table_begin", f'"ID_REF"\t{arrays}', *rows, "!series_matrix_table_end", ""]
    path.write_text("\n".join([*head, *table]))


def test_genomics(tmp_path, monkeypatch):
    """Patients' barcodes never become features, and do not leave."""
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        series_matrix(tmp_path / f"GSE{seed}_series_matrix.txt", seed)
    run_script("genomics.txt")
    assert b"GSM" not in (tmp_path / "a.safetensors").read_bytes() + (tmp_path / "b.safetensors").read_bytes()


def test_eeg(tmp_path, monkeypatch):
    """Files written by eeglabio and pybv."""
    mne = pytest.importorskip("mne")
    pytest.importorskip("eeglabio")
    pytest.importorskip("pybv")
    from eeg_simulated import dipole_maps, simulated_raw

    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["a.set", "b.vhdr", "c.set", "d.set"]):
        raw = simulated_raw(dipole_maps(5), seed, n_samples=6000, extra=False)
        mne.export.export_raw(name, raw, verbose="ERROR")
    run_script("eeg.txt")
    assert np.load("sources.npy").shape[1] == 5


def test_fmri(tmp_path, monkeypatch):
    """Runs with a mask, and a scanner that counts voxels from the other side."""
    pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    from images_simulated import AFFINE, MASK, run_of, save

    monkeypatch.chdir(tmp_path)
    save("mask.nii.gz", MASK, dtype=np.uint8)
    flipped = np.diag([-1.0, 1, 1, 1]) @ AFFINE
    save("flipped_mask.nii.gz", MASK, affine=flipped, dtype=np.uint8)
    save("flipped.nii.gz", run_of(9), affine=flipped)
    for seed in range(3):
        save(f"sub-{seed}_desc-preproc_bold.nii.gz", run_of(seed))
        confounds = "global_signal\ttrans_x\n" + "0.1\t0.2\n" * 60
        (tmp_path / f"sub-{seed}_desc-confounds_timeseries.tsv").write_text(confounds)
    run_script("fmri.txt")
    assert (tmp_path / "maps.nii.gz").exists()

"""New users with files as other software writes them: the commands of each persona, one script each, do as they say."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
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


def take(*names):
    """Copy files that lie here, byte by byte as another program wrote them, into the current folder."""
    for name in names:
        shutil.copy(SCRIPTS / "files" / name, name)


def test_data_manager(tmp_path, monkeypatch):
    """Excel in German and French: semicolons, decimal commas, thousands, CRLF, a code page, emptied rows at the end.

    Every row has a case number, a birthday and a postcode.
    """
    monkeypatch.chdir(tmp_path)
    take("nord.csv", "ouest.csv")
    german, french = (Path(name).read_bytes().decode("cp1252") for name in ("nord.csv", "ouest.csv"))
    names, noms = (text.split("\r\n", 1)[0].split(";") for text in (german, french))
    Path("noms.txt").write_text("\n".join(map(";".join, zip(noms[3:7], names[3:7], strict=True))), encoding="utf-8")
    head, *rows = german.split("\r\n")
    Path("ost.csv").write_bytes("\r\n".join([head, *rows[150:]]).encode("utf-8-sig"))  # Excel's "CSV UTF-8"
    Path("klein.csv").write_bytes(german.replace(";".join(names), ";".join(names).lower(), 1).encode("cp1252"))
    run_script("data_manager.txt")
    assert Path("quellen.csv").read_text().startswith("row,component_0")
    for name in ("nord", "ouest", "ost"):
        sent = Path(f"{name}.safetensors").read_bytes()
        assert b"Fallnummer" not in sent
        assert b"PLZ" not in sent
        assert b"postal" not in sent


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


def test_genomics(tmp_path, monkeypatch):
    """Patients' barcodes never become features, and do not leave. GEO compresses its files; some people unpack them."""
    monkeypatch.chdir(tmp_path)
    take(*(f"GSE{k}_series_matrix.txt" for k in (1, 2, 3)))
    packed = gzip.compress(Path("GSE1_series_matrix.txt").read_bytes())
    Path("GSE1_series_matrix.txt").unlink()
    Path("GSE1_series_matrix.txt.gz").write_bytes(packed)
    run_script("genomics.txt")
    assert not any(b"GSM" in path.read_bytes() for path in tmp_path.glob("*.safetensors"))


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
    confounds = "global_signal\tglobal_signal_derivative1\ttrans_x\n0.1\tn/a\t0.2\n" + "0.1\t0.0\t0.2\n" * 59
    for seed in range(3):
        folder = tmp_path / f"sub-{seed}" / "func"
        folder.mkdir(parents=True)
        name = folder / f"sub-{seed}_task-rest_space-MNI152NLin2009cAsym"
        save(f"{name}_desc-preproc_bold.nii.gz", run_of(seed))
        Path(f"{name}_desc-preproc_bold.json").write_text('{"RepetitionTime": 2.0, "SkullStripped": false}')
        save(f"{name}_boldref.nii.gz", run_of(seed)[..., 0])
        save(f"{name}_desc-brain_mask.nii.gz", MASK, dtype=np.uint8)
        (folder / f"sub-{seed}_task-rest_desc-confounds_timeseries.tsv").write_text(confounds)
    run_script("fmri.txt")
    for path in tmp_path.rglob("*_timeseries.tsv"):
        assert path.read_text() == confounds
    assert (tmp_path / "maps.nii.gz").exists()

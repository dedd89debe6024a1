"""How a client's file is read stands in its policy, by the names of ``fedica local``."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica.cli import app as program
from fedica.errors import FormatError
from fedica.flower.policy import Policy
from fedica.flower.settings import read_settings
from fedica.readers import ReadOptions

RULES = "max-components = 3\nmin-samples = 100\n"


def test_recordings_are_read_as_the_policy_says(federation, tmp_path):
    """The contribution is byte by byte that of ``fedica local`` with the same options."""
    mne = pytest.importorskip("mne")
    mixing = np.random.default_rng(0).standard_normal((6, 3))
    policy = RULES + '[reading]\nhighpass = 0.5\nreference = "keep"\n'
    for seed, name in enumerate("abc"):
        home = federation.home(federation.add(name, policy=policy, file="eeg_raw.fif"))
        sources = np.random.default_rng(seed).laplace(size=(3, 4000)) * 20e-6
        info = mne.create_info(["Fz", "Cz", "Pz", "Oz", "C3", "C4"], 100.0, "eeg")
        mne.io.RawArray(mixing @ sources, info, verbose="ERROR").save(home / "eeg_raw.fif", verbose="ERROR")
    folder = federation.run()
    data = str(federation.home(1001) / "eeg_raw.fif")
    options = ["--components", "3", "--highpass", "0.5", "--reference", "keep"]
    outcome = CliRunner().invoke(program, ["local", data, *options, "-o", str(tmp_path / "b.safetensors")])
    assert outcome.exit_code == 0, outcome.output
    assert (folder / "inbox" / "b.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert np.load(federation.home(1001) / "output" / "run-77" / "sources.npy").shape == (4000, 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[reading]\nhighpas = 1\n", "there is no setting 'highpas'; the settings are highpass"),
        ("reading = 3\n", r"'reading' must be a table of settings, \[reading\]; got 3"),
        ('[reading]\nreference = "Cz"\n', "reference must be one of 'average', 'keep'"),
    ],
)
def test_faults_of_the_table_are_named(tmp_path, text, sentence):
    """As any other setting."""
    (tmp_path / "policy.toml").write_text(RULES + text)
    with pytest.raises(FormatError, match=sentence):
        read_settings(tmp_path / "policy.toml", Policy)


def test_paths_are_relative_to_the_policy(tmp_path):
    """And zero means no filter."""
    (tmp_path / "policy.toml").write_text(RULES + '[reading]\nmask = "mask.nii.gz"\nhighpass = 0\n')
    wanted = ReadOptions(mask=tmp_path / "mask.nii.gz", highpass=0)
    assert read_settings(tmp_path / "policy.toml", Policy).reading == wanted

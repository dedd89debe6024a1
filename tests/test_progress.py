"""What commands tell while they work: what is done, how much of it, and the time left."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.io

import fedica.blocks.arrays
import fedica.progress
from fedica import Contribution, LocalICA, aggregate
from fedica.blocks import add, rows_of
from fedica.exchange import read_contributions, write_contribution
from fedica.progress import Progress, counting, told_to
from fedica.readers import read_data


def test_progress_is_the_share_done_and_the_time_left():
    """At most one message a second; nothing where nobody listens."""
    clock, said = iter([0.0, 0.0, 0.5, 2.0, 2.0, 2.5, 100.0, 100.0]), []
    with told_to(said.append, lambda: next(clock)):
        progress = Progress(1000, "reading a.csv")
        for n_bytes in (5, 20, 25, 500):
            progress.done(n_bytes)
    assert said == ["reading a.csv: 2%, 1 min 38 s left", "reading a.csv: 50%, 1 min 40 s left"]
    Progress(1000, "reading a.csv").done(500)
    assert len(said) == 2


def test_a_part_of_a_step_is_told_after_its_name():
    """A task that begins with a comma is part of the step; what has just begun has no share yet."""
    clock, said = itertools.count(0.0, 0.6).__next__, []
    with told_to(said.append, clock) as telling:
        telling.begin("aggregating 3 contributions")
        list(counting("abcdefgh", 8, ", pass 2"))
    assert said[:2] == ["aggregating 3 contributions", "aggregating 3 contributions, pass 2"]
    assert said[-1].startswith("aggregating 3 contributions, pass 2: ")
    assert said[-1].endswith(" s left")


@pytest.fixture
def everything(monkeypatch):
    """Tell of every block, however quick."""
    monkeypatch.setattr(fedica.progress, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(fedica.blocks.arrays, "TOLD_WORK", 0.0)


def test_a_pass_over_data_is_told_block_by_block(everything):
    """Shares rise to all of it."""
    said = []
    blocks = rows_of(np.ones((1000, 3)), 100)
    with told_to(said.append) as telling:
        telling.begin("fitting")
        blocks.total(lambda block: (block.sum(axis=0),), merge=add, work=1e6)
    assert said[0] == "fitting"
    shares = [int(text.split(": ")[1].split("%")[0]) for text in said[1:]]
    assert shares == list(range(10, 101, 10))
    assert said[1].startswith("fitting, pass 1 over 1,000 samples: 10%, ")


def test_newton_steps_on_hard_data_are_told(everything):
    """By the logarithm of the gradient: what is left of the way to the goal."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((30_000, 4)), rng.laplace(size=(30_000, 2))]) @ rng.standard_normal((6, 6))
    said = []
    with told_to(said.append) as telling:
        telling.begin("fitting")
        told = LocalICA(random_state=0).fit(X)
    assert any("Newton steps on" in text and "% " not in text for text in said)
    np.testing.assert_array_equal(told.mixing_, LocalICA(random_state=0).fit(X).mixing_)


@pytest.mark.parametrize("suffix", ["xlsx", "mat", "fif"])
def test_files_of_other_programs_are_told_while_they_are_read(everything, monkeypatch, tmp_path, suffix):
    """Rows of a sheet, bytes of a file, channels of a recording: shares rise to all of it."""
    X = np.random.default_rng(0).standard_normal((2000, 16))
    path = tmp_path / f"a_raw.{suffix}"
    if suffix == "xlsx":
        pytest.importorskip("pandas")
        pytest.importorskip("openpyxl")
        import pandas as pd

        pd.DataFrame(X[:200], columns=[f"f{k}" for k in range(16)]).to_excel(path, index=False)
    elif suffix == "mat":
        scipy.io.savemat(path, {"X": X}, do_compression=True)
    else:
        mne = pytest.importorskip("mne")
        monkeypatch.setattr("fedica.readers.recording.BATCH_BYTES", 8 * 2000 * 4)
        info = mne.create_info([f"EEG{k}" for k in range(16)], 250.0, "eeg")
        mne.io.RawArray(1e-5 * X.T, info, verbose="error").save(path, verbose="error")
    said = []
    with told_to(said.append):
        told = read_data(path)
    shares = [int(text.split(": ")[-1].split("%")[0]) for text in said if text.startswith(f"reading {path}: ")]
    assert len(shares) >= 2
    assert shares == sorted(shares)
    assert shares[-1] > 90
    np.testing.assert_array_equal(told.values, read_data(path).values)


def test_contributions_are_counted_while_they_are_read_and_aggregated(everything, tmp_path):
    """Files by their number, atoms by passes; the result does not depend on who listens."""
    rng = np.random.default_rng(0)
    for k in range(4):
        write_contribution(
            Contribution(f"c{k}", np.eye(3) + 0.01 * rng.standard_normal((3, 3)), 100), tmp_path / f"{k}.safetensors"
        )
    said = []
    with told_to(said.append) as telling:
        telling.begin("reading contributions")
        received = [item.contribution for item in read_contributions(tmp_path)]
        telling.begin("aggregating")
        result = aggregate(received, 3)
    assert [text.split(",")[0] for text in said[1:5]] == [
        f"reading contributions: {share}%" for share in (25, 50, 75, 100)
    ]
    assert any(text.startswith("aggregating, pass 1 over 12 atoms") for text in said)
    np.testing.assert_array_equal(result.mixing, aggregate(received, 3).mixing)

"""The paper's Figure 1, in small."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import OptionError
from fedica.evaluate import recovery_error
from fedica.simulate import federation, figure1
from fedica.simulate.grid import read_rows

METHOD_NAMES = {"srf-ica", "srf-ica-noalignment", "sf-ica", "naive-mean", "naive-median", "pooled"}


def without_times(rows):
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]


def a_job(**changes):
    return {**figure1.figure1_jobs("code", 1)[1], **changes}


@pytest.mark.parametrize(
    ("preset", "trials", "n_init", "samples", "ratio"), [("paper", 20, 10, 300, 0.1), ("code", 10, 20, 100, 0.3)]
)
def test_presets_are_twenty_settings_of_the_text_and_of_the_code(preset, trials, n_init, samples, ratio):
    """Three sweeps; what is not swept is what the text, or the code, says."""
    jobs = figure1.figure1_jobs(preset)
    assert len(jobs) == 20 * trials
    by_panel = {name: [job for job in jobs if job["panel"] == name] for name in figure1.PANELS}
    assert [j["n_clients"] for j in by_panel["clients"][::trials]] == [10, 30, 50, 70, 100]
    assert [j["corrupted_samples"] for j in by_panel["samples"][::trials]] == [50, 70, 100, 300, 500, 1000]
    assert [j["ratio"] for j in by_panel["ratio"][::trials]] == [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    for job in jobs:
        assert job["n_init"] == n_init
        assert job["panel"] == "clients" or job["n_clients"] == 30
        assert job["panel"] == "samples" or job["corrupted_samples"] == samples
        assert job["panel"] == "ratio" or job["ratio"] == ratio


@pytest.fixture(scope="module")
def corrupted_rows():
    """Three trials of K = 30 with 30% of clients at 100 samples."""
    return [row for seed in range(3) for row in figure1.figure1_trial(a_job(seed=seed))]


@pytest.fixture(scope="module")
def clean_rows():
    """Three trials of K = 30 without corrupted clients."""
    return [row for seed in range(3) for row in figure1.figure1_trial(a_job(seed=seed, ratio=0.0))]


def errors_of(rows, method):
    return np.array([row["error"] for row in rows if row["method"] == method])


def test_methods_come_in_the_papers_order(corrupted_rows):
    """Naive ones find nothing; the median beats the mean by far, alignment matters, and pooling is hardly better."""
    assert {row["status"] for row in corrupted_rows} == {"ok"}
    srf, sf, noalign, mean, median, pooled = (
        errors_of(corrupted_rows, name)
        for name in ("srf-ica", "sf-ica", "srf-ica-noalignment", "naive-mean", "naive-median", "pooled")
    )
    assert np.all((mean > 0.8) & (mean < 1.1))
    assert np.all((median > 0.8) & (median < 1.1))
    assert np.all(srf < 0.6 * sf)
    assert np.all(srf < noalign)
    assert np.median(srf) < 1.2 * np.median(pooled)
    assert np.median(srf) < 0.0075


def test_without_corrupted_clients_robustness_costs_little(clean_rows):
    """The median is as good as the mean, and both nearly as good as pooling."""
    srf, sf, pooled = (np.median(errors_of(clean_rows, name)) for name in ("srf-ica", "sf-ica", "pooled"))
    assert srf < 1.1 * sf
    assert srf < 1.1 * pooled


def test_both_errors_are_reported(corrupted_rows):
    """The Frobenius norm, and the same divided by sqrt(r)."""
    for row in corrupted_rows:
        assert row["frobenius"] == pytest.approx(row["error"] * np.sqrt(10))


def test_a_setting_gives_the_same_rows_in_every_panel():
    """The point that the three panels share is one point."""
    jobs = [j for j in figure1.figure1_jobs("code", 1) if (j["n_clients"], j["corrupted_samples"]) == (30, 100)]
    shared = [j for j in jobs if j["ratio"] == 0.3]
    assert [j["panel"] for j in shared] == ["clients", "samples", "ratio"]
    first, *others = (without_times(figure1.figure1_trial({**j, "n_clients": 5})) for j in shared)
    assert all(other == first for other in others)


def test_clients_atoms_are_scrambled_and_still_theirs():
    """No client sends its solver's own order and signs; the atoms are the same up to those."""
    drawn = federation(4, 10, n_samples=3000)
    for client, sent in zip(drawn.clients, figure1.fit_clients(drawn, 0), strict=True):
        own = figure1.fit_atoms(client.X, 0)
        assert np.any(sent.atoms != own)
        assert recovery_error(sent.atoms, own).frobenius < 1e-9
        assert sent.n_samples == 3000


@pytest.fixture
def small_figure(monkeypatch):
    """Three settings of few clients instead of twenty."""
    monkeypatch.setattr(figure1, "CLIENTS", (4,))
    monkeypatch.setattr(figure1, "SAMPLES", (100,))
    monkeypatch.setattr(figure1, "RATIOS", (0.0,))
    monkeypatch.setattr(figure1, "N_CLIENTS", 4)


@pytest.mark.usefixtures("small_figure")
def test_a_figure_goes_on_where_it_was_interrupted_and_ends_the_same(tmp_path, monkeypatch):
    """Two processes or one, in one go or in two: the same rows."""
    in_parallel = figure1.reproduce_figure1("code", folder=tmp_path / "a", trials=2, n_jobs=2)

    whole, count = figure1.figure1_trial, iter(range(100))

    def interrupted(job, methods):
        if next(count) == 4:
            raise KeyboardInterrupt
        return whole(job, methods)

    monkeypatch.setattr(figure1, "figure1_trial", interrupted)
    with pytest.raises(KeyboardInterrupt):
        figure1.reproduce_figure1("code", folder=tmp_path / "b", trials=2, n_jobs=1)
    kept = read_rows(tmp_path / "b" / "figure-1-code.csv")
    assert len(kept) == 4 * len(METHOD_NAMES)
    again = figure1.reproduce_figure1("code", folder=tmp_path / "b", trials=2, n_jobs=1)
    assert next(count) == 7  # four jobs, the interrupted one, and the two that were left
    assert again[: len(kept)] == kept  # seconds and all: these were not computed again
    assert without_times(again) == without_times(in_parallel)
    assert {row["method"] for row in again} == METHOD_NAMES


@pytest.mark.usefixtures("small_figure")
def test_figure_and_table_show_every_line(tmp_path):
    """Files are written, the page holds every method, the table every setting."""
    rows = figure1.reproduce_figure1("paper", folder=tmp_path, trials=1, n_jobs=1)
    files, missing = figure1.draw_figure1(rows, "paper", folder=tmp_path)
    assert [f.name for f in files] == ["figure-1-paper.png", "figure-1-paper.html"]
    assert missing == ""
    assert "SRF-ICA, no alignment" in files[1].read_text(encoding="utf-8")
    headings, lines = figure1.table_figure1(rows, "paper")
    assert headings == ["mean error", "srf-ica", "noalignment", "sf-ica", "naive-mean", "naive-median", "pooled"]
    assert [line[0] for line in lines] == ["clients 4", "samples 100", "ratio 0"]
    assert lines[0][1] == f"{rows[0]['error']:.4f}"


def test_a_method_that_fails_leaves_a_row_that_says_so(monkeypatch):
    """One failure does not lose the other lines."""

    def fails(*_, method, **__):
        raise OptionError(f"no {method} today")

    monkeypatch.setattr(figure1, "aggregate", fails)
    rows = figure1.figure1_trial(a_job(n_clients=2))
    assert rows[0]["status"] == "OptionError: no srf-ica today"
    assert np.isnan(rows[0]["error"])
    assert rows[-1]["status"] == "ok"


@pytest.mark.usefixtures("small_figure")
def test_another_method_can_be_measured_on_the_same_contributions(tmp_path):
    """One line more; the others stay what they were, for the same seed."""
    five = figure1.reproduce_figure1("code", folder=tmp_path / "a", trials=1, n_jobs=1)
    six = figure1.reproduce_figure1("code", folder=tmp_path / "b", also=["consensus"], trials=1, n_jobs=1)
    assert without_times(row for row in six if row["method"] != "consensus") == without_times(five)
    assert sum(row["method"] == "consensus" for row in six) == 3
    assert figure1.table_figure1(six, "code")[0][1] == "consensus"


def test_unknown_presets_and_methods_are_refused(tmp_path):
    """The sentence says which there are."""
    with pytest.raises(OptionError, match="'paper', 'code'; got 'text'"):
        figure1.figure1_jobs("text")
    with pytest.raises(OptionError, match="got 'magic'"):
        figure1.reproduce_figure1("code", folder=tmp_path, also=["magic"])

"""Studies of attacks."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import OptionError
from fedica.simulate.robustness import (
    COMPARED,
    Setting,
    draw_robustness,
    draw_setting,
    markdown,
    robustness_jobs,
    robustness_trial,
    run_robustness,
    table_robustness,
)

SMALL = Setting(n_clients=10, n_components=4)


def a_job(attack="rotation", share=0.3, seed=0, setting=SMALL):
    return next(
        job
        for job in robustness_jobs([setting], attacks=[attack], shares=[share], trials=seed + 1)
        if job["seed"] == seed
    )


def test_jobs_are_the_whole_grid_once():
    """Settings x attacks x shares x seeds; nobody attacks at share zero, so that is one share; doubles count once."""
    jobs = robustness_jobs(
        [SMALL, SMALL, Setting()], attacks=["none", "alie", "alie"], shares=[0.1, 0.3, 0.3], trials=4
    )
    assert len(jobs) == 2 * (1 + 2) * 4
    assert {job["share"] for job in jobs if job["attack"] == "none"} == {0.0}
    assert len({tuple(job.values()) for job in jobs}) == len(jobs)


def test_rows_hold_every_method_and_the_honest_line():
    """Without an attack SF-ICA is the honest mean, if every atom is in its group: the ratio is one."""
    rows = {row["method"]: row for row in robustness_trial(a_job("none"), ("sf-ica", "srf-ica"))}
    assert list(rows) == ["sf-ica", "srf-ica", "honest"]
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert rows["sf-ica"]["misclustered"] == 0
    assert rows["sf-ica"]["over_honest"] == pytest.approx(1)
    assert rows["honest"]["over_honest"] == 1
    assert rows["srf-ica"]["frobenius"] == pytest.approx(2 * rows["srf-ica"]["error"])


def test_a_search_is_against_the_method_that_faces_it():
    """Each method's worst angle does at least the harm to it that the other's does."""
    srf, sf, _ = robustness_trial(a_job("worst-angle", share=0.4), ("srf-ica", "sf-ica"))
    swapped = robustness_trial(a_job("worst-angle", share=0.4), ("sf-ica", "srf-ica"))
    assert swapped[0]["error"] == sf["error"]
    assert swapped[1]["error"] == srf["error"]
    assert min(srf["over_honest"], sf["over_honest"]) > 1.5


def test_fitted_federations_know_their_truth():
    """Every client fits its own data; the honest mean of the fits is near the mixing matrix."""
    setting = Setting(n_clients=6, n_components=4, n_features=6, components_per_client=3, condition=5, n_samples=2000)
    rows = {row["method"]: row for row in robustness_trial(a_job("none", setting=setting), COMPARED)}
    assert rows["honest"]["error"] < 0.1
    drawn = draw_setting(setting, 0)
    assert {c.n_atoms for c in drawn.contributions} == {3}
    assert {c.mixing for c in drawn.contributions} == {"general"}


def test_a_study_ends_in_a_table_and_a_figure(tmp_path):
    """Rows, the medians with their ratio to honest, and one panel an attack; a second run computes nothing anew."""
    study = {"path": tmp_path / "rows.csv", "attacks": ["none", "rotation:20"], "shares": [0.1, 0.4], "trials": 2}
    rows = run_robustness([SMALL], **study, methods=["sf-ica"], n_jobs=1)
    assert run_robustness([SMALL], **study, methods=["sf-ica"], n_jobs=1) == rows
    headings, lines = table_robustness(rows)
    assert headings == ["attack", "share", "honest", "sf-ica"]
    assert [line[:2] for line in lines] == [["none", "0"], ["rotation:20", "0.1"], ["rotation:20", "0.4"]]
    errors = [[r["error"] for r in rows if r["share"] == 0.4 and r["method"] == m] for m in ("sf-ica", "honest")]
    assert f"({np.median(errors[0]) / np.median(errors[1]):.2f})" in lines[2][3]
    assert markdown(headings, lines).splitlines()[1] == "| --- | --- | --- | --- |"
    files, _ = draw_robustness(rows, tmp_path / "figure")
    assert [f.suffix for f in files] == [".png", ".html"]
    assert "rotation:20" in files[1].read_text(encoding="utf-8")
    assert draw_robustness([row for row in rows if row["attack"] == "none"], tmp_path / "nothing") == ([], "")


def test_titles_say_what_differs_between_federations(tmp_path):
    """Two condition numbers: each line of the table names its own."""
    rows = run_robustness(
        [SMALL, Setting(n_clients=10, n_components=4, condition=30)],
        path=tmp_path / "rows.csv",
        attacks=["none"],
        methods=["sf-ica"],
        trials=1,
        n_jobs=1,
    )
    assert [line[0] for line in table_robustness(rows)[1]] == ["none, condition 1", "none, condition 30"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"attacks": ["wrong"]}, "got 'wrong'"),
        ({"methods": ["wrong"]}, "got 'wrong'"),
        ({"shares": [0.99]}, "leave an honest client"),
        ({"trials": 0}, "trials"),
    ],
)
def test_impossible_studies_are_refused_before_anything_runs(tmp_path, options, sentence):
    """Each with what is wrong."""
    with pytest.raises(OptionError, match=sentence):
        run_robustness([SMALL], path=tmp_path / "rows.csv", **{"attacks": ["alie"], **options})
    assert not (tmp_path / "rows.csv").exists()

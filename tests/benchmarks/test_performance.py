"""The page of speed and memory: what it says of each section, and solvers that are not there in their time."""

from __future__ import annotations

import everyday
import measuring
import numpy as np
import page
import pytest
import real_problems
import real_recordings
import real_solvers
from measuring import check

FACTS = {
    "processor": "a processor",
    "cores": 2,
    "memory_gb": 8.0,
    "blas": "openblas, 1 threads",
    "system": "Linux",
    "versions": "fedica 0.1.0, numpy 2.0",
    "load": 0.5,
    "date": "2026-01-02",
    "sources": "abc1234",
}


def section(*, rows=(), checks=(), unfinished=False, **facts):
    """A section as a run writes it."""
    return {
        "facts": {**FACTS, **facts},
        "quick": False,
        "unfinished": unfinished,
        "rows": list(rows),
        "checks": list(checks),
    }


def written(tmp_path, **sections):
    """Write the page of these sections; return its text."""
    page.write_page(sections, tmp_path / "page.md", tmp_path / "picture.png")
    return (tmp_path / "page.md").read_text(encoding="utf-8")


def test_each_section_says_when_it_was_measured_and_of_which_version(tmp_path):
    old = section(rows=[{"n_atoms": 1}], date="2025-01-01", sources="old0001", versions="fedica 0.0.9, numpy 1.0")
    text = written(tmp_path, medians=old, clients=section(rows=[{"way": "a", "task": "fit", "arguments": {}}]))
    medians, clients = text.split("\n## ")[2:4]
    assert "2025-01-01: fedica 0.0.9, commit old0001" in medians
    assert "2026-01-02: fedica 0.1.0, commit abc1234" in clients
    assert "arguments" not in clients


def test_each_verdict_says_of_which_version_it_is(tmp_path):
    checks = [check("a client's time", 1.0, 2.0, at_least=False, unit="s")]
    text = written(tmp_path, medians=section(checks=checks, sources="old0001"), clients=section(checks=checks))
    verdicts = [line for line in text.splitlines() if line.startswith("| a client's time")]
    assert [line.rsplit("|", 2)[1].strip() for line in verdicts] == ["old0001", "abc1234"]


def test_sections_that_were_not_measured_are_named(tmp_path):
    names = [name for name in page.TITLES if name not in ("medians", "clients")]
    assert f"not measured: {', '.join(names)}." in written(tmp_path, medians=section(), clients=section())


def test_an_interrupted_section_says_so(tmp_path):
    assert "interrupted" in written(tmp_path, medians=section(unfinished=True))
    assert "interrupted" not in written(tmp_path, medians=section())


def test_what_an_interrupted_run_measured_is_not_measured_again(monkeypatch):
    known = {"task": "fit", "arguments": {"r": 3}, "seconds": 1.0}
    monkeypatch.setattr(measuring, "DONE", [known])
    monkeypatch.setattr(measuring.subprocess, "run", lambda *_, **__: pytest.fail("it was measured again"))
    assert measuring.in_process("fit", r=3) is known
    with pytest.raises(pytest.fail.Exception, match="measured again"):
        measuring.in_process("fit", r=4)


def test_what_was_measured_on_a_file_of_its_run_is_measured_again(monkeypatch):
    """The file is gone; the row does not say where it was."""
    monkeypatch.setattr(
        measuring.subprocess,
        "run",
        lambda *_, **__: measuring.subprocess.CompletedProcess([], 0, stdout='{"task": "fit", "peak_mb": 5.0}\n'),
    )
    assert measuring.in_process("fit", path="/nowhere") == {"task": "fit", "peak_mb": 5.0}
    assert measuring.in_process("fit", r=3)["arguments"] == {"r": 3}


@pytest.fixture
def problem():
    """Eight mixed sources, which no solver separates in its first steps."""
    rng = np.random.default_rng(0)
    return real_problems.Problem(rng.laplace(size=(4000, 8)) @ rng.standard_normal((8, 8)))


@pytest.mark.parametrize("way", [real_solvers.PICARD, real_solvers.FASTICA])
def test_a_solver_without_time_returns_where_it_is_and_says_that_it_is_not_there(problem, way):
    fit = real_solvers.WAYS[way](problem, 8, 0.0)
    np.testing.assert_allclose(fit.rotation.T @ fit.rotation, np.eye(8), atol=1e-6)
    assert fit.stopped.startswith("not there after")
    assert problem.gradient(fit.rotation, 8) > real_solvers.GOAL


@pytest.mark.filterwarnings("ignore:FastICA did not converge")  # five steps at a time
@pytest.mark.parametrize("way", [real_solvers.OURS, real_solvers.PICARD, real_solvers.FASTICA])
def test_a_solver_with_time_reaches_the_goal(problem, way):
    fit = real_solvers.WAYS[way](problem, 8, 60.0)
    assert not fit.stopped
    assert problem.gradient(fit.rotation, 8) <= real_solvers.GOAL


def test_a_solver_that_was_not_there_gives_a_bound_and_no_split_half():
    common = {"data": "EEG", "r": 120, "gradient": 1e-4, "passes": 9, "stopped": ""}
    rows = [
        {**common, "way": real_solvers.OURS, "cpu_seconds": 10.0, "split_half": 0.7},
        {**common, "way": real_solvers.FASTICA, "cpu_seconds": 15.0, "split_half": 0.7},
        {**common, "way": real_solvers.PICARD, "cpu_seconds": 25.0, "stopped": "not there after 25 s"},
    ]
    lines = real_recordings.judge_real(rows)
    (picard,) = [line for line in lines if real_solvers.PICARD in line["check"]]
    assert "not there after 25 s: more than what is said" in picard["check"]
    assert (picard["value"], picard["verdict"]) == (2.5, "PASS")
    assert not any("split-half" in line["check"] for line in lines)
    assert check("a", 1.0, 2.0, at_least=True)["verdict"] == "short"


def test_a_case_is_judged_when_all_solvers_were_measured_that_it_is_judged_by():
    """What an interrupted run lacks is neither held against anybody nor in the way of the rest."""
    whole = [{"way": way, "data": "EEG", "r": 15, "cpu_seconds": 1.0, "gradient": 1e-4, "passes": 3, "stopped": ""}
             for way in (real_solvers.OURS, real_solvers.FASTICA, real_solvers.PICARD)]  # fmt: skip
    failed = {"task": "fit_real", "way": real_solvers.FASTICA, "r": 60, "error": "no message"}
    lines = real_recordings.judge_real([*whole, {**whole[0], "r": 60}, failed])
    assert {line["check"].split(":")[0] for line in lines} == {
        "EEG, r = 15",
        "share of the 2 recordings and sizes in which ours converged",
    }


@pytest.mark.parametrize(("seconds", "verdict"), [(20.0, "PASS"), (21.0, "short")])
def test_csv_files_are_judged_by_the_time_of_0_1_0_and_by_their_array(seconds, verdict):
    """At five million rows; smaller files are told of, not judged."""
    ways = everyday.CSV_PARSERS.values()

    def judged(n_rows):
        today = [{"way": way, "rows": n_rows, "cpu_seconds": seconds, "over_array": seconds / 17} for way in ways]
        return everyday.judge_csv([*today, {"way": "0.1.0", "rows": n_rows, "cpu_seconds": 60.0}])

    assert {line["verdict"] for line in judged(everyday.CSV_ROWS)} == {verdict}
    assert {line["verdict"] for line in judged(1000)} == {"-"}

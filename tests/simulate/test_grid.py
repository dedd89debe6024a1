"""Grids of jobs that survive an interruption."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import fedica
from fedica.errors import FormatError, OptionError
from fedica.simulate.grid import read_rows, run_grid

LINES = ("one", "two")


def some_jobs(n):
    return [{"setting": "a, b", "x": 0.1 * k, "seed": k} for k in range(n)]


class Worker:
    """Work that counts its calls and can be interrupted before a job."""

    def __init__(self, stop_at=None):
        self.seeds, self.stop_at = [], stop_at

    def __call__(self, job):
        """Return two rows that depend on the seed alone."""
        if job["seed"] == self.stop_at:
            raise KeyboardInterrupt
        self.seeds.append(job["seed"])
        rng = np.random.default_rng(job["seed"])
        return [{"method": line, "error": float(rng.random()), "status": 'said "no",\nthen yes'} for line in LINES]


def grid(path, n_jobs_total, worker):
    return run_grid(some_jobs(n_jobs_total), worker, path, lines=LINES, n_jobs=1)


def test_rows_carry_setting_method_result_and_versions(tmp_path):
    """A row describes itself, and comes back from the file exactly as it was, the floats to the last bit."""
    rows = grid(tmp_path / "new" / "rows.csv", 3, Worker())
    assert [(row["seed"], row["method"]) for row in rows] == [(s, m) for s in range(3) for m in LINES]
    assert rows == read_rows(tmp_path / "new" / "rows.csv")
    assert rows[2]["error"] == np.random.default_rng(1).random()
    assert rows[2]["x"] == 0.1
    assert rows[2]["setting"] == "a, b"
    assert rows[2]["fedica"] == fedica.__version__
    assert rows[2]["numpy"] == np.__version__
    assert rows[2]["status"] == 'said "no", then yes'


def test_a_grid_that_was_interrupted_goes_on_where_it_stopped(tmp_path):
    """Finished jobs are kept and not run again; the file ends as if nothing had happened."""
    grid(tmp_path / "whole.csv", 6, Worker())
    path = tmp_path / "rows.csv"
    with pytest.raises(KeyboardInterrupt):
        grid(path, 6, Worker(stop_at=3))
    assert {row["seed"] for row in read_rows(path)} == {0, 1, 2}
    again = Worker()
    grid(path, 6, again)
    assert again.seeds == [3, 4, 5]
    assert path.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_finished_grid_is_not_run_again(tmp_path):
    """The same rows come back without any work."""
    path = tmp_path / "rows.csv"
    first = grid(path, 4, Worker())
    before = path.read_bytes()
    idle = Worker()
    assert grid(path, 4, idle) == first
    assert idle.seeds == []
    assert path.read_bytes() == before


@pytest.mark.parametrize("lost", [1, 20, 60, 130])
def test_a_torn_end_of_the_file_is_computed_again(tmp_path, lost):
    """However many bytes the last write lost, the restarted grid ends with the same file."""
    path = tmp_path / "rows.csv"
    grid(path, 4, Worker())
    whole = path.read_bytes()
    path.write_bytes(whole[:-lost])
    again = Worker()
    grid(path, 4, again)
    assert again.seeds
    assert set(again.seeds) <= {2, 3}
    assert path.read_bytes() == whole


def test_fewer_jobs_keep_the_others_rows_and_more_jobs_reuse_them(tmp_path):
    """Asking for less deletes nothing; asking for more runs what is new."""
    path = tmp_path / "rows.csv"
    grid(path, 5, Worker())
    assert len(grid(path, 2, Worker())) == 2 * len(LINES)
    more = Worker()
    assert len(grid(path, 6, more)) == 6 * len(LINES)
    assert more.seeds == [5]


def test_rows_of_another_version_are_kept_but_not_trusted(tmp_path, monkeypatch):
    """A new version of fedica computes its own rows beside the old ones."""
    path = tmp_path / "rows.csv"
    grid(path, 2, Worker())
    path.write_text(path.read_text().replace(f",{fedica.__version__},", ",0.0.0.old,"))
    worker = Worker()
    rows = grid(path, 2, worker)
    assert worker.seeds == [0, 1]
    assert {row["fedica"] for row in rows} == {fedica.__version__}
    assert {row["fedica"] for row in read_rows(path)} == {fedica.__version__, "0.0.0.old"}


def test_a_line_more_runs_the_job_again(tmp_path):
    """A job is finished when every line is there."""
    path = tmp_path / "rows.csv"
    run_grid(some_jobs(2), Worker(), path, lines=("one",), n_jobs=1)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if ",two," not in line))
    worker = Worker()
    run_grid(some_jobs(2), worker, path, lines=LINES, n_jobs=1)
    assert worker.seeds == [0, 1]


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "setting,x,seed,method,fedica\na,0,0\n"])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path, content):
    """The sentence says what to do."""
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(FormatError, match="Move it away"):
        grid(path, 2, Worker())
    assert path.read_text() == content


def test_a_worker_has_one_thread(tmp_path):
    """BLAS and OpenMP do not fight with the other workers."""

    def threads(job):
        most = max((pool["num_threads"] for pool in threadpool_info()), default=1)
        return [{"method": "one", "error": most}]

    rows = run_grid(some_jobs(1), threads, tmp_path / "rows.csv", lines=("one",), n_jobs=1)
    assert rows[0]["error"] == 1


def test_no_jobs_give_no_rows_and_no_workers_are_refused(tmp_path):
    """The edges."""
    assert run_grid([], Worker(), tmp_path / "rows.csv", lines=LINES) == []
    with pytest.raises(OptionError, match="n_jobs"):
        run_grid(some_jobs(1), Worker(), tmp_path / "rows.csv", lines=LINES, n_jobs=0)

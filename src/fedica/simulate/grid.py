"""Run a grid of jobs in parallel and keep every finished one: flat rows in a CSV file that survives Ctrl-C.

A job is a mapping from names to values, its seed among them. It gives one row for each line of the figure (a method),
and its rows are written together. A grid that is restarted reads the file first and runs only what is missing.
"""

from __future__ import annotations

import csv
import io
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import joblib
from threadpoolctl import threadpool_limits

from fedica.arrays import check_int
from fedica.errors import FedicaError, FormatError
from fedica.exchange.files import read_bounded, write_atomic
from fedica.version import __version__

Value = str | int | float
Row = dict[str, Value]
Job = Mapping[str, Value]
_Result = TypeVar("_Result")

MAX_BYTES = 2**30
"""Largest file of rows that is read."""


def run_grid(
    jobs: Sequence[Job],
    work: Callable[[Job], list[Row]],
    path: Path,
    *,
    lines: Sequence[str],
    n_jobs: int | None = None,
    progress: bool = False,
) -> list[Row]:
    """Run the jobs that the file does not hold yet, append their rows to it, and return the rows of all jobs, in order.

    jobs : the settings of each job, with the same names in each; settings and version of fedica identify a row.
    work : takes a job and returns its rows, a dict with "method" and the results for each of ``lines``. It must be
    importable by another process, and depend on the job alone. path : the CSV file; rows of other jobs in it are kept.
    lines : the methods; a job is finished when the file holds a row for each. n_jobs : processes, by default one per
    core; 1: in this process. progress : whether to show a progress bar on stderr, if that is a terminal.
    """
    workers = joblib.cpu_count() if n_jobs is None else check_int(n_jobs, "n_jobs", minimum=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = _Table(path, tuple(jobs[0]) if jobs else (), tuple(lines))
    missing = [job for job in jobs if not table.holds(job)]
    if missing:
        run = joblib.Parallel(n_jobs=min(workers, len(missing)), return_as="generator_unordered", batch_size=1)
        finished = run(joblib.delayed(_with_one_thread)(work, job) for job in missing)
        with _bar(progress, done=len(jobs) - len(missing), total=len(jobs)) as advance:
            for job, rows in finished:
                assert all(job.keys().isdisjoint(row) for row in rows), "a result has the name of a setting"
                table.append([{**job, **row, **versions()} for row in rows])
                advance()
    table.tidy(jobs)
    return [row for job in jobs for row in table.rows(job)]


def read_rows(path: Path) -> list[Row]:
    """Read a file of rows, numbers as numbers; an incomplete last line is left out."""
    text = read_bounded(path, limit=MAX_BYTES, what="a file of rows").decode("utf-8", "replace")
    return _parse(text[: text.rfind("\n") + 1])


def attempt(work: Callable[[], _Result]) -> tuple[_Result | None, str, float]:
    """Run work; return its result (None if fedica raises an error), "ok" or the error, and the seconds it took."""
    start = time.perf_counter()
    try:
        result, status = work(), "ok"
    except FedicaError as failure:
        result, status = None, f"{type(failure).__name__}: {failure}"
    return result, status, round(time.perf_counter() - start, 6)


@lru_cache(maxsize=1)
def versions() -> Mapping[str, str]:
    """Return the versions of fedica and of its numerical dependencies, which are written into every row."""
    return {
        "fedica": __version__,
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "scikit-learn": version("scikit-learn"),
        "python": platform.python_version(),
    }


class _Table:
    """The rows of a CSV file by the job they belong to."""

    def __init__(self, path: Path, names: tuple[str, ...], lines: tuple[str, ...]) -> None:
        self._path, self._lines = path, lines
        self._names = (*names, "fedica")
        self._columns: list[str] = []
        self._jobs: dict[tuple[str, ...], dict[str, Row]] = {}
        if path.exists():
            self._take(read_rows(path))
            self._write()  # without an incomplete last line

    def holds(self, job: Job) -> bool:
        """Whether all lines of the job are there."""
        return set(self._lines) <= set(self._jobs.get(self._key(job), {}))

    def rows(self, job: Job) -> list[Row]:
        """Return the rows of a job, in the order of the lines."""
        found = self._jobs[self._key(job)]
        return [found[line] for line in self._lines]

    def append(self, rows: list[Row]) -> None:
        """Append the rows of one finished job to the file, in one write that is flushed to disk."""
        # Through text and back, so that a new row equals one read from the file.
        columns = self._columns or list(rows[0])
        text = _csv(rows, columns, header=False)
        rows = _parse(text, columns)
        if not self._path.exists() or not self._columns:
            self._take(rows)
            self._write()
            return
        if {*rows[0]} != {*self._columns}:
            raise self._other_columns()
        self._take(rows)
        with open(self._path, "ab", buffering=0) as stream:
            stream.write(text.encode())
            os.fsync(stream.fileno())

    def tidy(self, jobs: Sequence[Job]) -> None:
        """Rewrite the file in the order of the jobs, not of their completion; other rows follow."""
        order = {self._key(job): None for job in jobs}
        self._jobs = {key: self._jobs[key] for key in [*order, *(k for k in self._jobs if k not in order)]}
        if self._columns:
            self._write()

    def _take(self, rows: list[Row]) -> None:
        for row in rows:
            self._columns = self._columns or list(row)
            if not {*self._names, "method"} <= {*row} or None in row.values():
                raise self._other_columns()
            key = tuple(str(row[name]) for name in self._names)
            self._jobs.setdefault(key, {})[str(row["method"])] = row

    def _write(self) -> None:
        rows = [row for job in self._jobs.values() for row in job.values()]
        write_atomic(self._path, [_csv(rows, self._columns, header=True).encode()])

    def _key(self, job: Job) -> tuple[str, ...]:
        return tuple(str(_number(str({**job, "fedica": __version__}[name]))) for name in self._names)

    def _other_columns(self) -> FormatError:
        return FormatError(
            f"{self._path}: its columns are not those of this run, so it cannot be continued. "
            "Move it away, or give another folder."
        )


def _with_one_thread(work: Callable[[Job], list[Row]], job: Job) -> tuple[Job, list[Row]]:
    """Run one job in one thread: the jobs themselves occupy the cores."""
    with threadpool_limits(1):
        return job, work(job)


@contextmanager
def _bar(show: bool, *, done: int, total: int) -> Iterator[Callable[[], Any]]:
    if not (show and sys.stderr.isatty()):
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415 - only for a terminal
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("jobs", total=total, completed=done)
        yield lambda: bar.advance(task)


def _csv(rows: Iterable[Row], columns: Sequence[str], *, header: bool) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="raise")
    if header:
        writer.writeheader()
    writer.writerows({k: " ".join(v.split()) if isinstance(v, str) else v for k, v in row.items()} for row in rows)
    return text.getvalue()


def _parse(text: str, columns: Sequence[str] | None = None) -> list[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), columns)
    return [{name: _number(value) for name, value in row.items() if name is not None} for row in reader]


def _number(value: str) -> Value:
    for kind in (int, float):
        try:
            return kind(value)
        except (TypeError, ValueError):
            continue
    return value

"""Run a function over seeds in processes of one thread each, with progress; and write tables."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits


def parallel(function: Callable[..., Any], jobs: Sequence[Any], n_jobs: int, what: str = "") -> list[Any]:
    """Return what a function gives for each job; shows how many are done."""
    found = []
    finished = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_quietly)(function, job) for job in jobs)
    for number, result in enumerate(finished, 1):
        found.append(result)
        if what and sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{what}: {number} of {len(jobs)}")
            sys.stderr.flush()
    if what:
        print(f"\r{what}: {len(jobs)} done", file=sys.stderr, flush=True)
    return found


def _quietly(function: Callable[..., Any], job: Any) -> Any:
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return function(job)


def table(headings: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Return a table as Markdown, with a line break after it."""
    rows = [headings, ["---"] * len(headings), *lines]
    return "".join("| " + " | ".join(map(str, cells)) + " |\n" for cells in rows)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(values))))


def percent(values: Sequence[float]) -> str:
    """Return the mean of shares in percent."""
    return f"{100 * np.mean(values):.1f}%"

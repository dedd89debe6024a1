"""Run a function over seeds in processes of one thread each, with progress; and write tables."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

import fedica


def parallel(
    function: Callable[..., Any], jobs: Sequence[Any], n_jobs: int, what: str = "", kept: Path | None = None
) -> list[Any]:
    """Return what a function gives for each job; shows how many are done.

    With ``kept``, a folder, results (numbers, in lists or dictionaries) are written there as they come, and a job that
    was finished by the same code is not repeated.
    """
    known, path = {}, None
    if kept is not None:
        path = kept / f"{function.__name__}-{code_digest()}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        known = {row["job"]: row["result"] for row in map(json.loads, lines)}
    missing = [job for job in jobs if repr(job) not in known]
    finished = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_quietly)(function, job) for job in missing)
    for number, (job, result) in enumerate(zip(missing, finished, strict=True), len(jobs) - len(missing) + 1):
        known[repr(job)] = result
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"job": repr(job), "result": result}, default=float) + "\n")
        if what and sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{what}: {number} of {len(jobs)}")
            sys.stderr.flush()
    if what:
        print(f"\r{what}: {len(jobs)} done", file=sys.stderr, flush=True)
    return [known[repr(job)] for job in jobs]


def code_digest() -> str:
    """Return a digest of the sources of fedica and of these benchmarks: numbers of other code are not mixed in."""
    digest = hashlib.sha256()
    for folder in (Path(fedica.__file__).parent, Path(__file__).parent):
        for source in sorted(folder.rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


def _quietly(function: Callable[..., Any], job: Any) -> Any:
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return function(job)


def table(headings: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Return a table as Markdown, with a line break after it."""
    rows = [headings, ["---"] * len(headings), *lines]
    return "".join("| " + " | ".join(map(str, cells)) + " |\n" for cells in rows)


def geometric_mean(values: ArrayLike) -> float:
    """Return the geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(values))))


def percent(values: Sequence[float]) -> str:
    """Return the mean of shares in percent."""
    return f"{100 * np.mean(values):.1f}%"

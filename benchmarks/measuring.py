"""Time, peak memory and the machine's facts: what every section of the benchmark measures with.

A task is a function that returns a flat dict. `measure` runs it here; `in_process` runs it in a fresh process, which
is the only way to know its peak memory.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

Row = dict[str, Any]
TASKS: dict[str, Callable[..., Row]] = {}
DONE: list[Row] = []
"""Rows of a run that was interrupted, which are not measured again."""


def task(function: Callable[..., Row]) -> Callable[..., Row]:
    """Register a function that `in_process` can run by its name."""
    TASKS[function.__name__] = function
    return function


def timed(function: Callable[[], Any], repeats: int, *, enough: float = np.inf) -> tuple[float, Any]:
    """Median of the seconds that a call takes, and what the last call returned; no more calls after enough seconds."""
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < enough:
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), result


def peak_mb(who: int = resource.RUSAGE_SELF) -> float:
    """Most memory that this process ever had, or its children, in MB."""
    return resource.getrusage(who).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def in_process(name: str, **arguments: Any) -> Row:
    """Run a task in a fresh process; adds its peak memory. A task that fails gives a row with ``error``."""
    script = Path(__file__).with_name("run.py")
    for row in DONE:
        if row["task"] == name and row.get("arguments") == arguments:
            return row
    print(f"  {name} {arguments} ... ", end="", flush=True)
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, str(script), "--task", name, "--arguments", json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{'failed' if run.returncode else 'done'} after {time.perf_counter() - start:.0f} s", flush=True)
    if run.returncode:
        return {"task": name, **arguments, "error": (run.stderr.strip().splitlines() or ["no message"])[-1]}
    row = dict(json.loads(run.stdout.splitlines()[-1]))
    return row if "path" in arguments else {**row, "arguments": arguments}  # a file is there in this run alone


def run_task(name: str, arguments: str) -> None:
    """Run one task and print its row: what `in_process` starts."""
    row = TASKS[name](**json.loads(arguments))
    print(json.dumps({"task": name, **row, "peak_mb": row.get("peak_mb", peak_mb())}))


def facts(*sources: str) -> Row:
    """Describe the machine and the versions that the numbers belong to. sources : the part of the package they are of.

    Without any, all of it.
    """
    blas = [f"{x['internal_api']} {x['version']}, {x['num_threads']} threads" for x in threadpool_info()
            if x["user_api"] == "blas"]  # fmt: skip
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "blas": "; ".join(sorted(set(blas))),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{p} {version(p)}" for p in ("fedica", "numpy", "scipy", "scikit-learn")),
        "load": round(os.getloadavg()[0], 1),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "sources": _sources(sources or (".",)),
    }


def _sources(parts: tuple[str, ...]) -> str:
    """Return the last commit that changed parts of the package, and whether they changed since; empty without git."""
    package = Path(__file__).parents[1] / "src" / "fedica"

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments, "--", *parts]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    return git("log", "-1", "--format=%h") + (" and changes" if git("status", "--porcelain") else "")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def exponent(small: tuple[float, float], large: tuple[float, float]) -> float:
    """Growth exponent between two (size, seconds)."""
    return float(np.log(large[1] / small[1]) / np.log(large[0] / small[0]))


def check(name: str, value: float | None, wanted: float, *, at_least: bool, unit: str = "x", asked: bool = True) -> Row:
    """One line of what must hold: its number, and whether it does; sizes that nobody asked for are not judged."""
    holds = value is not None and (value >= wanted if at_least else value <= wanted)
    return {
        "check": name,
        "value": value,
        "wanted": f"{'at least' if at_least else 'at most'} {wanted:g} {unit}",
        "unit": unit,
        "verdict": ("PASS" if holds else "short") if asked else "-",
    }


def ratio(slow: Row, fast: Row) -> float | None:
    """Seconds of one row over those of another; None if one of them failed."""
    return slow["seconds"] / fast["seconds"] if "seconds" in slow and "seconds" in fast else None

"""What people wait for every day: importing, the demo, a simulated federation, tables, the report and its page."""

from __future__ import annotations

import importlib.util
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Row, check, in_process, peak_mb, task, timed

CHROMIUM = Path(__file__).parents[1] / "tests" / "report" / "chromium.py"
LIMITS = {
    "import, over that of scikit-learn alone": (1.3, "x"),
    "the demo": (30.0, "s"),
    "100 simulated clients of 5,000 samples": (3.0, "s"),
    "30,000 of 60,000 voxels by name": (5.0, "s"),
    "report of 300 clients and 20 components": (5.0, "s"),
    "its page, until a browser has drawn it": (2.0, "s"),
}
"""The most that each may take."""
FASTER = 3.0
"""CSV files are read in so many times less CPU time than by 0.1.0, at least."""
BEFORE = "edf5f43"
"""The commit of 0.1.0, whose reader is timed beside today's."""
CSV_PARSERS = {"pyarrow": "today, with pyarrow", "numpy": "today, without pyarrow"}
CSV_COLUMNS, CSV_ROWS, CSV_MEMORY = 20, 5_000_000, 1.2
"""Columns and rows of the file, and the most memory that reading may take, over that of the array."""
_IMPORTS = """
import time
clock = [time.process_time()]
import sklearn; clock.append(time.process_time())
from fedica import *; clock.append(time.process_time())
print((clock[2] - clock[0]) / (clock[1] - clock[0]))
"""


@task
def everyday_import() -> Row:
    """Processor time of importing every public name, over that of scikit-learn alone; the median of fresh processes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _IMPORTS]
    printed = [subprocess.run(command, capture_output=True, check=True, env=environment).stdout for _ in range(6)]
    return {"what": "import, over that of scikit-learn alone", "value": float(np.median(np.array(printed[1:], float)))}


@task
def everyday_demo() -> Row:
    """Run the demo as everybody runs it, the picture included."""
    from fedica.simulate.demo import run_demo  # noqa: PLC0415 - imported in its own process

    with tempfile.TemporaryDirectory() as folder:
        return {"what": "the demo", "value": run_demo(Path(folder)).seconds}


@task
def everyday_federation() -> Row:
    """Draw the paper's largest federation."""
    from fedica.simulate import federation  # noqa: PLC0415

    seconds, _ = timed(lambda: federation(100).X, 3)
    return {"what": "100 simulated clients of 5,000 samples", "value": seconds}


@task
def everyday_voxels() -> Row:
    """Voxels of a whole brain, chosen by name, in another order."""
    from fedica.readers import read_data  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        path, names = Path(folder) / "run.csv", [f"{k},0,0" for k in range(60_000)]
        quoted = ",".join(f'"{name}"' for name in names)
        path.write_text(
            quoted + "\n" + "\n".join(",".join(["1.5"] * 60_000) for _ in range(3)) + "\n", encoding="utf-8"
        )
        seconds, _ = timed(lambda: read_data(path, columns=names[::-2]), 3)
    return {"what": "30,000 of 60,000 voxels by name", "value": seconds}


def _write_csv(path: Path, n_rows: int) -> None:
    """Write a CSV file of normal numbers to six digits, with names of columns; every 20,000 rows are the same."""
    text = io.StringIO()
    rows = np.random.default_rng(0).standard_normal((min(n_rows, 20_000), CSV_COLUMNS))
    np.savetxt(text, rows, fmt="%.6f", delimiter=",")
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(f"channel {k}" for k in range(CSV_COLUMNS)) + "\n")
        file.writelines(text.getvalue() for _ in range(n_rows // len(rows)))


@task
def everyday_csv(path: str, parser: str) -> Row:
    """Read a CSV file once: CPU seconds, and memory over that of the array."""
    from fedica.readers import number_blocks, read_data  # noqa: PLC0415

    if parser == "numpy":
        number_blocks._parser = lambda: number_blocks.parse_with_numpy
    before, start = peak_mb(), time.process_time()
    table = read_data(Path(path))
    seconds = time.process_time() - start
    taken = (peak_mb() - before) * 2**20 / table.values.nbytes
    return {"rows": len(table.values), "cpu_seconds": seconds, "over_array": taken}


_READ_BEFORE = """
import sys, time
from pathlib import Path
from fedica.readers import read_data
start = time.process_time()
table = read_data(Path(sys.argv[1]))
print(time.process_time() - start, len(table.values))
"""


@task
def everyday_csv_before(path: str) -> Row:
    """Read the same file by the sources of 0.1.0, which are taken from the history."""
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", str(root), "archive", BEFORE, "src"], capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources:
            sources.extractall(folder, filter="data")
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src"}
        command = [sys.executable, "-c", _READ_BEFORE, path]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    seconds, n_rows = printed.split()
    peak = peak_mb(resource.RUSAGE_CHILDREN)
    return {"way": "0.1.0", "rows": int(n_rows), "cpu_seconds": float(seconds), "peak_mb": peak}


def run_csv(quick: bool) -> Iterator[Row]:
    """Read one CSV file by 0.1.0 and by every parser of today, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        _write_csv(path, 200_000 if quick else CSV_ROWS)
        for parser, way in CSV_PARSERS.items():
            yield {"way": way, **in_process("everyday_csv", path=str(path), parser=parser)}
        yield in_process("everyday_csv_before", path=str(path))


def judge_csv(rows: list[Row]) -> list[Row]:
    """Say how much less CPU time files take than by 0.1.0, and whether memory stays near that of the array."""
    measured = {row.get("way", ""): row for row in rows}
    before, lines = measured["0.1.0"], []
    for way in CSV_PARSERS.values():
        row, asked = measured[way], measured[way]["rows"] == CSV_ROWS
        where = f"CSV file of {row['rows']:,} x {CSV_COLUMNS}, {way}"
        times = before["cpu_seconds"] / row["cpu_seconds"]
        lines.append(check(f"{where}: less CPU time than 0.1.0", times, FASTER, at_least=True, asked=asked))
        lines.append(
            check(f"{where}: memory over its array", row["over_array"], CSV_MEMORY, at_least=False, asked=asked)
        )
    return lines


@task
def everyday_report(path: str) -> Row:
    """Write the report of a large federation into a folder."""
    from fedica import aggregate  # noqa: PLC0415
    from fedica.exchange import write_folder  # noqa: PLC0415
    from fedica.report import write_report  # noqa: PLC0415
    from fedica.simulate.atoms import atoms_federation  # noqa: PLC0415

    result = aggregate(atoms_federation(300, 20, n_features=64).contributions, 20)
    write_folder(result, Path(path))
    seconds, _ = timed(lambda: write_report(Path(path)), 3)
    return {"what": "report of 300 clients and 20 components", "value": seconds}


@task
def everyday_page(path: str) -> Row:
    """Open the report in Chromium, where there is one."""
    what = "its page, until a browser has drawn it"
    chromium = _chromium()
    if lacking := chromium.missing():
        return {"what": what, "error": lacking}
    with chromium.browser() as chrome:
        return {"what": what, "value": float(np.median([chrome.open(Path(path)) for _ in range(5)])) / 1000}


def _chromium() -> Any:
    spec = importlib.util.spec_from_file_location("chromium", CHROMIUM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_everyday(quick: bool) -> Iterator[Row]:
    """Measure each in a process of its own; the quick version is the same."""
    del quick
    for name in ("import", "demo", "federation", "voxels"):
        yield in_process(f"everyday_{name}")
    with tempfile.TemporaryDirectory() as folder:
        yield in_process("everyday_report", path=f"{folder}/result")
        yield in_process("everyday_page", path=f"{folder}/result/report.html")


def judge_everyday(rows: list[Row]) -> list[Row]:
    """Compare each with its limit; what a machine lacks is not judged."""
    measured = {row["what"]: row["value"] for row in rows if "value" in row}
    return [
        check(what, measured[what], limit, at_least=False, unit=unit)
        for what, (limit, unit) in LIMITS.items()
        if what in measured
    ]

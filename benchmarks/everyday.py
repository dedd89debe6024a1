"""What people wait for every day: importing, the demo, a simulated federation, tables, the report and its page."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import tempfile
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
    "memory that a CSV file takes beyond the libraries, over its array": (1.2, "x"),
    "report of 300 clients and 20 components": (5.0, "s"),
    "its page, until a browser has drawn it": (2.0, "s"),
}
"""The most that each may take."""
FASTER = 3.0
"""CSV files are read at least so many times as fast as cell by cell, which 0.1.0 did."""
CSV_PARSERS = {"pyarrow": "CSV file, faster than cell by cell", "numpy": "the same without pyarrow"}
CSV_COLUMNS = 20
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
def everyday_csv_speed(parser: str, n_rows: int) -> Row:
    """Read a CSV file by compiled code, and cell by cell as 0.1.0 did."""
    from fedica.readers import delimited, number_blocks, read_data  # noqa: PLC0415

    if parser == "numpy":
        number_blocks._parser = lambda: number_blocks.parse_with_numpy
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        _write_csv(path, n_rows)
        quick, _ = timed(lambda: read_data(path), 3)
        delimited.parse_numbers = lambda *_: None
        slow, _ = timed(lambda: read_data(path), 1)
    return {"what": CSV_PARSERS[parser], "value": slow / quick, "rows": n_rows, "seconds": quick}


@task
def everyday_csv_memory(n_rows: int) -> Row:
    """Read a large CSV file once."""
    from fedica.readers import read_data  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        _write_csv(path, n_rows)
        before = peak_mb()
        seconds, table = timed(lambda: read_data(path), 1)
    taken = (peak_mb() - before) * 2**20 / table.values.nbytes
    what = "memory that a CSV file takes beyond the libraries, over its array"
    return {"what": what, "value": taken, "rows": n_rows, "seconds": seconds}


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


def run_everyday(quick: bool) -> list[Row]:
    """Measure each in a process of its own."""
    rows = [in_process(f"everyday_{name}") for name in ("import", "demo", "federation", "voxels")]
    rows += [in_process("everyday_csv_speed", parser=parser, n_rows=200_000) for parser in CSV_PARSERS]
    rows.append(in_process("everyday_csv_memory", n_rows=500_000 if quick else 5_000_000))
    with tempfile.TemporaryDirectory() as folder:
        rows.append(in_process("everyday_report", path=f"{folder}/result"))
        rows.append(in_process("everyday_page", path=f"{folder}/result/report.html"))
    return rows


def judge_everyday(rows: list[Row]) -> list[Row]:
    """Compare each with its limit; what a machine lacks is not judged."""
    measured = {row["what"]: row["value"] for row in rows if "value" in row}
    limits = [
        check(what, measured[what], limit, at_least=False, unit=unit)
        for what, (limit, unit) in LIMITS.items()
        if what in measured
    ]
    speeds = [check(what, measured[what], FASTER, at_least=True) for what in CSV_PARSERS.values() if what in measured]
    return limits + speeds

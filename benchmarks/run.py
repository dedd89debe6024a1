"""Measure fedica beside what people would do instead, in one run, and write docs/performance.md.

Run it as ``make bench`` (about two hours, most of them for other solvers on real recordings). ``make bench
BENCH=--quick`` takes some minutes and shows smaller sizes; ``BENCH='--only groups,clients'`` runs some sections and
keeps what is known of the others, in benchmarks/results. What is measured is written after every row: with ``--resume``
an interrupted section goes on where it stopped, if what it measures has not changed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import agreement
import client_side
import everyday
import measuring
import real_recordings
import server_side
from measuring import Row, check, facts, run_task
from page import HIDDEN, checks_of, write_page

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results")
SECTIONS = {
    "groups": (server_side.run_groups, server_side.judge_groups),
    "scale": (server_side.run_scale, server_side.judge_scale),
    "memory": (server_side.run_out_of_core, server_side.judge_out_of_core),
    "medians": (server_side.run_medians, lambda rows: []),
    "clients": (client_side.run_clients, client_side.judge_clients),
    "recording": (client_side.run_recording, client_side.judge_recording),
    "real": (real_recordings.run_real, real_recordings.judge_real),
    "other": (real_recordings.run_other, real_recordings.judge_other),
    "agreement": (agreement.run_agreement, agreement.judge_agreement),
    "csv": (everyday.run_csv, everyday.judge_csv),
    "everyday": (everyday.run_everyday, everyday.judge_everyday),
}
CLIENT = ("arrays.py", "blocks", "ica", "local", "threads.py")
SOURCES = {
    **dict.fromkeys(("clients", "recording", "real"), CLIENT),
    "medians": ("arrays.py", "blocks", "server"),
    "csv": ("formats.py", "readers"),
}
"""The part of the package that a section measures; of the others, all of it."""
NOT_QUICK = ("recording",)
"""Sections that the quick version leaves out unless they are named."""


def main() -> None:
    """Run the sections that are asked for, then write the page from all that are known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, some minutes")
    parser.add_argument("--only", default="", help=f"sections, separated by commas: {', '.join(SECTIONS)}")
    parser.add_argument("--resume", action="store_true", help="do not measure again what an interrupted run has")
    parser.add_argument("--known", action="store_true", help="measure nothing; write the page from what is known")
    parser.add_argument("--page", type=Path, help="where to write; docs/performance.md, or out/bench-quick for --quick")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--arguments", default="{}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run_task(options.task, options.arguments)
        return

    kept = ROOT / "out" / "bench-quick" if options.quick else RESULTS
    kept.mkdir(parents=True, exist_ok=True)
    named = [name for name in options.only.split(",") if name]
    if unknown := sorted(set(named) - set(SECTIONS)):
        parser.error(f"no section is called {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    every = [] if options.known else [s for s in SECTIONS if not (options.quick and s in NOT_QUICK)]
    for name in named or every:
        start = time.perf_counter()
        section = _run(name, options.quick, kept / f"{name}.json", resume=options.resume)
        print(f"\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
        for row in section["rows"]:
            print("  ", {key: _short(value) for key, value in row.items() if key not in HIDDEN})
        for line in section["checks"]:
            print("  ", _sentence(line), flush=True)

    known = {n: _judged(n, kept / f"{n}.json") for n in SECTIONS if (kept / f"{n}.json").exists()}
    page = options.page or (kept if options.quick else ROOT / "docs") / "performance.md"
    write_page(known, page, page.parent / "images" / "performance.png")
    print("\nWhat must hold")
    for line in checks_of(known):
        print("  ", _sentence(line))
    print(f"written: {page}")


def _run(name: str, quick: bool, file: Path, *, resume: bool) -> Row:
    """Measure a section, and write it to its file after every row."""
    run, _ = SECTIONS[name]
    section: Row = {"facts": facts(*SOURCES.get(name, ())), "quick": quick, "unfinished": True, "rows": []}
    before = json.loads(file.read_text()) if resume and file.exists() else section
    measuring.DONE[:] = before["rows"] if before["facts"]["sources"] == section["facts"]["sources"] else []
    for row in run(quick):
        section["rows"].append(row)
        file.write_text(json.dumps(section, indent=1) + "\n", encoding="utf-8")
    section["unfinished"] = False
    file.write_text(json.dumps(section, indent=1) + "\n", encoding="utf-8")
    return _judged(name, file)


def _judged(name: str, file: Path) -> Row:
    """Return a section with its verdicts, by what is wanted today."""
    section: Row = json.loads(file.read_text(encoding="utf-8"))
    try:
        checks = SECTIONS[name][1](section["rows"])
    except (KeyError, ValueError, IndexError) as error:  # a task failed: its row says why
        checks = [check(f"{name} could be judged ({error!r})", None, 1, at_least=True, unit="")]
    return {**section, "checks": checks}


def _short(value: object) -> object:
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _sentence(line: Row) -> str:
    value = "failed" if line["value"] is None else f"{line['value']:.3g}"
    return f"{line['verdict']:5s} {line['check']}: {value} {line['unit']} (wanted: {line['wanted']})"


if __name__ == "__main__":
    main()

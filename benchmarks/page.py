"""docs/performance.md and its picture from the rows of all sections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measuring import Row

MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
HIDDEN = {"task", "path", "arguments"}
"""What a row has for the program alone."""
HEAD = """# Performance

Made by `make bench`. Every ratio compares times of one run of its section; each section says when it was measured, and
of which version. Times are medians of repeats, the first call excluded; memory is the peak of a fresh process, the
interpreter and all libraries (about 230 MB) included. On real data, seconds are those of the processor on one thread,
passes are steps of solvers that hold all data, the gradient is the largest entry of the slope of the logcosh contrast
over rotations, and split half is the mean absolute cosine of matched atoms of the two halves of the data, from as many
starts of either half as the table says. A solver that is not there after a stated time is stopped: the ratio to it is
then a bound, and it has no split half. On a busy machine CPU time is longer too, most of all where all data is held.
`make bench BENCH=--quick` is a smaller version, and `make bench BENCH='--only clients'` measures one section anew.
"""


TITLES = {
    "groups": "The server against what people would do instead (20 components)",
    "scale": "The server at scale (20 components, 20 atoms a client)",
    "memory": "Out of core: atoms in a memory-mapped file",
    "medians": "Geometric medians of 20 groups against geom-median",
    "clients": "Clients against other solvers (Bernoulli-Gaussian: Bernoulli(0.1) x N(0, 1), as in the paper)",
    "recording": "A client's recording larger than memory",
    "real": "Clients on real recordings: EEG of 128 channels, CPU time on one thread until the gradient is 1e-3",
    "other": "The same on segments of recordings as clients, other kinds of real data and simulated laws",
    "csv": "Reading text tables: a CSV file of 20 columns, CPU time",
    "everyday": "What people wait for every day",
    "agreement": "The same result wherever the atoms lie: largest difference from the list of contributions",
}
"""The sections of the page, in its order."""


def write_page(sections: dict[str, Row], page: Path, picture: Path) -> None:
    """Write the page; sections that were not run are left out."""
    parts = [HEAD, _facts(sections), _checks(sections)]
    if "groups" in sections or "scale" in sections:
        _plot(sections, picture)
        parts.append(f"![Time of the server against the number of atoms](images/{picture.name})\n")
    for name, title in TITLES.items():
        if name in sections:
            parts.append(f"## {title}\n\n{_measured(sections[name])}\n\n{_table(sections[name]['rows'])}")
    parts.append(USE)
    page.write_text("\n".join(parts), encoding="utf-8")


USE = """## How to use it

- `aggregate` takes any iterable of contributions; beyond 256 MB their atoms go to a temporary file, so an iterable that
  reads files one by one never fills the memory. With `Received` and `read_contributions` of `fedica.exchange`, a folder
  is `aggregate((x.contribution for x in read_contributions("folder") if isinstance(x, Received)), r)`.
- Atoms that are already in one file: `aggregate(AtomArray(np.load("atoms.npy", mmap_mode="r").T, client_of_atom), r)`.
  The file is read some thirty times, by blocks; besides those, memory holds about 160 bytes an atom.
- Atoms on a cluster: the same with a Dask array (`pip install 'fedica[dask]'`) and a running `distributed.Client`. A
  worker that dies costs time, nothing else.
- `affinity="squared"` is exact up to 64 directions, where the Gram matrix of its features is reduced; beyond, a Krylov
  method stops at a residual of 1e-4, and `result.options["affinity_residual"]` says what it was.
- BLAS runs on one thread while fedica spreads blocks over as many threads as BLAS was allowed (`OMP_NUM_THREADS`); the
  result does not depend on their number.
"""


def checks_of(sections: dict[str, Row]) -> list[Row]:
    """All that must hold, in the order of the sections."""
    return [line for section in sections.values() for line in section["checks"]]


def _facts(sections: dict[str, Row]) -> str:
    """Name the machines and the versions of other packages, those of all sections that share them in one line."""
    shared: dict[str, list[str]] = {}
    for name, section in sections.items():
        facts = section["facts"]
        others = facts["versions"].partition(", ")[2]  # that of fedica itself stands at every section
        cores = f"{facts['cores']} core" + "s" * (facts["cores"] > 1)
        line = f"{facts['processor']}, {cores}, {facts['memory_gb']:g} GB; {facts['system']}; {others}"
        shared.setdefault(line, []).append(name)
    version = (
        "the quick version, with smaller sizes"
        if any(s["quick"] for s in sections.values())
        else "the version with full sizes"
    )
    lines = [line if len(shared) == 1 else f"{line}: {', '.join(names)}" for line, names in shared.items()]
    missing = [name for name in TITLES if name not in sections]
    left_out = f" Sections that were not measured: {', '.join(missing)}." if missing else ""
    return "".join(f"- {line}\n" for line in [*lines, f"This is {version}.{left_out}"])


def _measured(section: Row) -> str:
    """Say when a section was measured, of which version, and how busy the machine was."""
    facts = section["facts"]
    commit = f", commit {facts['sources']}" if facts["sources"] else ""
    ended = " The run was interrupted: there should be more rows." if section.get("unfinished") else ""
    return (
        f"*Measured on {facts['date']}: {facts['versions'].partition(',')[0]}{commit}; {facts['blas']}; load average "
        f"before {facts['load']:g} (0: an idle machine).{ended}*"
    )


def _checks(sections: dict[str, Row]) -> str:
    lines = ["## What must hold\n", "| what | measured | wanted | | of |", "| --- | ---: | --- | --- | --- |"]
    for section in sections.values():
        of = section["facts"]["sources"] or section["facts"]["versions"].partition(",")[0]
        lines += [f"| {c['check']} | {_number(c['value'])} {c['unit']} | {c['wanted']} | {c['verdict']} | {of} |"
                  for c in section["checks"]]  # fmt: skip
    return "\n".join(lines) + "\n"


def _table(rows: list[Row]) -> str:
    columns = [c for c in dict.fromkeys(key for row in rows for key in row) if c not in HIDDEN]
    columns.sort(key=lambda column: column == "peak_mb")  # it comes last
    lines = ["| " + " | ".join(c.replace("_", " ") for c in columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_number(row.get(c, "")) for c in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _number(value: Any) -> str:
    if value is None:
        return "failed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def _plot(sections: dict[str, Row], picture: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    lines: dict[str, list[tuple[int, float]]] = {}
    for name in ("groups", "scale", "memory"):
        for row in sections.get(name, {"rows": []})["rows"]:
            if "seconds" in row and "way" in row and (name == "groups" or row.get("given") != "contributions"):
                lines.setdefault(row["way"], []).append((row["n_atoms"], row["seconds"]))
    figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
    for mark, (way, points) in zip(MARKS, sorted(lines.items()), strict=False):
        best = {n: min(s for m, s in points if m == n) for n, _ in points}
        ours = way.startswith("fedica")
        axes.loglog(list(best), list(best.values()), marker=mark, label=way, lw=2.2 if ours else 1.2,
                    ls="-" if ours else "--")  # fmt: skip
    axes.set(xlabel="atoms", ylabel="seconds")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=130)
    plt.close(figure)

"""Do the same task in fedica, CanICA, Icasso, MNE's corrmap and by a naive mean, and write docs/peers.md.

Run it as ``make peers`` (about three minutes). Every number of the page is measured in that run, and the code that it
shows is the code that ran.
"""

from __future__ import annotations

import argparse
import inspect
import io
import tokenize
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import peer_ways
from measuring import facts
from peer_tasks import CONDITIONS, N_BAD, N_MAPS, N_NETWORKS, N_PEOPLE, N_SCANS, Way, run_brains, run_eeg

ROOT = Path(__file__).parents[1]
BRAINS: dict[str, Way] = {
    "fedica": peer_ways.brains_fedica,
    "fedica, group": peer_ways.brains_group,
    "fedica, maps turned together": peer_ways.brains_turned,
    "CanICA": peer_ways.brains_canica,
    "Icasso": peer_ways.brains_icasso,
    "naive mean": peer_ways.brains_naive,
}
EEG: dict[str, Way] = {
    "fedica": peer_ways.eeg_fedica,
    "corrmap": peer_ways.eeg_corrmap,
    "Icasso": peer_ways.eeg_icasso,
    "naive mean": peer_ways.eeg_naive,
}
HOLDS = 0.95
"""A way survives a fault if it keeps this share of its likeness."""
POOLED = {"CanICA", "Icasso"}
"""Ways that need everybody's data in one place."""

HEAD = """# Beside other tools

The same task done by fedica, by nilearn's [CanICA](https://nilearn.github.io), by Icasso (as
[stabilized-ica](https://pypi.org/project/stabilized-ica/) has it), by MNE's
[corrmap](https://mne.tools/stable/generated/mne.preprocessing.corrmap.html), and by averaging columns by their number.
`make peers` made this page in one run: every number was measured, and the code shown is the code that ran. Lines are
counted without blank lines and docstrings, imports included. The best number of a column is **bold**. The code stands
at the end.
"""
CANNOT = """## What each cannot do, and where it is better

- **fedica** matches what clients found by themselves, so each client must be able to find it. Where one person's data
  is too noisy for that ("twice the noise" above), a tool that sees all data at once can be better. *Group* mends it: it
  pools the spans of what clients sent and keeps the verdict on each of them. Clients then send more maps, and their
  strengths: second-order information. (Turning unit maps together by one more ICA needs no strengths, and gives up
  verdicts and some resistance.) On gene expression the difference is larger still:
  {doc}`the example of E. coli <gallery/plot_ecoli>` shows it. fedica fits thirty times where others fit once; in a
  federation these fits run side by side.
- **CanICA** wants images, all of them in one place and on one grid, and nobody is named who does not fit. It is the
  shortest to write, the fastest after Icasso, and at home among maskers and atlases.
- **Icasso** answers another question: do *runs* on the same data agree? It does not see that people differ, and a few
  loud people take it over. On good data in one place it is as good as group ICA, with twice the noise a little better,
  and its maps repeat themselves best.
- **corrmap** wants a template that you choose, a threshold, and the same electrodes for everybody; it marks components,
  and the averaging above is ours. It is better when you look for one known thing, and can mark two components of one
  person, which fedica never does.
- **A naive mean** assumes that component 3 is component 3 for everybody. It is not, and signs cancel besides.
"""
NOTES = """Seconds are wall clock, all fits included. stabilized-ica 2.0.0 hands scikit-learn an argument that was
renamed (`affinity`, now `metric`), and stops with scikit-learn 1.4 and later; here it is passed on under its new
name."""


def main() -> None:
    """Measure everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "peers.md", help="where to write")
    page = parser.parse_args().page
    mend_stabilized_ica()
    before = facts()
    page.write_text(page_of(before, run_brains(BRAINS), run_eeg(EEG)), encoding="utf-8")
    print(f"written: {page}")


def mend_stabilized_ica() -> None:
    """Let stabilized-ica 2.0.0 run with a scikit-learn that calls ``affinity`` ``metric``."""
    import sica.base  # noqa: PLC0415 - an extra
    from sklearn.cluster import AgglomerativeClustering  # noqa: PLC0415

    def renamed(*, affinity: str, **options: Any) -> AgglomerativeClustering:
        return AgglomerativeClustering(metric=affinity, **options)

    sica.base.AgglomerativeClustering = renamed


def page_of(
    before: Mapping[str, Any], brains: Mapping[str, Mapping[str, float]], eeg: Mapping[str, Mapping[str, float | str]]
) -> str:
    """Return the page from what was measured."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("nilearn", "mne", "stabilized-ica"))
    machine = (
        f"{before['processor']}, {before['cores']} cores; {before['versions']}, {versions}. "
        f"Load average at the start: {before['load']:g}."
    )
    refused = "\n".join(f"- {name}: {row['refusal']}" for name, row in eeg.items() if "refusal" in row)
    return "\n".join(
        [
            HEAD,
            f"{machine}\n\n{NOTES}\n",
            f"## Networks of {N_PEOPLE} brains, with a known truth\n",
            f"{N_PEOPLE} simulated people, {N_SCANS} scans each, {N_NETWORKS} networks. Everybody has own time courses "
            "and noise. Likeness is the mean absolute correlation of the maps with the true networks, matched one to "
            f"one; 1 is perfect. In the second column {N_BAD} people are flipped, left for right; in the third "
            f"{N_BAD} moved in a tenth of their scans; in the fourth everybody has twice the noise. Means over three "
            "draws.\n",
            _table(brains, [c.name for c in CONDITIONS], BRAINS),
            f"Survives: keeps {HOLDS:.0%} of its likeness with {N_BAD} people flipped, and with {N_BAD} who moved.\n",
            "## Components of five people's EEG\n",
            f"Real recordings, eight electrodes, {N_MAPS} components, forty trials of each person. Nobody knows the "
            "truth, so: *split halves*, the likeness of the maps from one half of the trials to those from the other; "
            "*unseen trials*, their mean likeness to each person's own maps on trials that were not used; *electrodes "
            "missing*, the same when three of the five people lack one electrode each. CanICA is for images and does "
            "not take part.\n",
            _table(eeg, ["split halves", "unseen trials", "electrodes missing"], EEG),
            f"What was said to missing electrodes:\n\n{refused}\n",
            CANNOT,
            "## The code of the first task\n",
            _codes(BRAINS),
            "## The code of the second task\n",
            _codes(EEG).rstrip("\n") + "\n",
        ]
    )


def _table(rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str], ways: Mapping[str, Way]) -> str:
    faults = [c.name for c in CONDITIONS if c.fault and c.name in columns]
    best = {c: max((row[c] for row in rows.values() if isinstance(row[c], float)), default=0.0) for c in columns}
    head = ["", "lines", *columns, "seconds", "pooled data", *(["survives"] if faults else [])]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(columns) + 2) + " --- |" * (1 + bool(faults))]
    for name, row in rows.items():
        cells = [name, str(count_lines(ways[name])) if name in ways else ""]
        cells += [_bold(row[c], best[c]) for c in columns]
        cells.append(f"{row['seconds']:.1f}" if "seconds" in row else "")
        cells.append(("needed" if name in POOLED else "no") if name in ways else "")
        if faults:
            cells.append(_survives(row, columns[0], faults) if name in ways else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _bold(value: float | str, best: float) -> str:
    if isinstance(value, str):
        return value
    return f"**{value:.3f}**" if round(value, 3) == round(best, 3) else f"{value:.3f}"


def _survives(row: Mapping[str, Any], good: str, faults: Sequence[str]) -> str:
    lost = [fault for fault in faults if row[fault] < HOLDS * row[good]]
    return "yes" if not lost else "not " + ", ".join(lost)


def _codes(ways: Mapping[str, Way]) -> str:
    return "\n".join(f"### {name}\n\n```python\n{inspect.getsource(way)}```\n" for name, way in ways.items())


def count_lines(way: Way) -> int:
    """Count the lines of a function that hold code: without its first line, its docstring, comments and blanks."""
    source = inspect.getsource(way)
    documented = len((way.__doc__ or "").splitlines())
    silent = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    spanned = {line for t in tokens if t.type not in silent for line in range(t.start[0], t.end[0] + 1)}
    return len(spanned) - 1 - documented


if __name__ == "__main__":
    main()

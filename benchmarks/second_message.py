"""Measure what a second message brings: error beside pooled FastICA and consensus, under attack, and its cost.

Run it as ``make second``, which writes docs/second.md and the summary in docs/choosing.md; ``--quick`` for a look at
small federations, which writes nothing. It can be interrupted: first answers and attacked federations that are finished
are kept in out/second and not repeated.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from second_first import R, draw, first_and_pooled
from second_large import large
from seeds import table

from fedica import refine, score
from fedica.evaluate import recovery_error
from fedica.simulate.grid import Job, Row, run_grid
from fedica.simulate.robustness import HONEST, Setting
from fedica.simulate.second_study import run_second

LAWS = ("laplace", "uniform", "bernoulli-gaussian")
SIZES = ((30, 2000), (100, 200), (200, 100), (500, 50))
"""Clients, and samples of each."""
CONDITIONS = (1.0, 5.0, 30.0)
SHARES = (0.1, 0.2, 0.3, 0.4)
ATTACKED = ((30, 2000), (100, 200))
ATTACKS = (*(f"{name}:{angle}" for name in ("turned-data", "turned-scores") for angle in (5, 10, 20)), "turned-plane",
           "foreign-data", "foreign-scores", "inflated-turn", "extreme-scores", "turned-answer:5",
           "fitting-answer:3", "fitting-answer:5")  # fmt: skip
MAX_WORSE = 1.02
"""A run counts as worse with two messages if its error is more than this times that of one."""
ONE, TWO = "one message", "2 messages"
LINES = (ONE, TWO, "3 messages", "pooled")


def main() -> None:
    """Print the tables and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="federations of each cell without an attack")
    parser.add_argument(
        "--largest-seeds", type=int, help="the same of 500 clients, which take longest; by default as many"
    )
    parser.add_argument("--attacked-seeds", type=int, default=5, help="federations of each cell with one")
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one seed, the smaller federations")
    parser.add_argument("--output", type=Path, default=Path("docs/second.md"), help="the page with the tables")
    parser.add_argument("--summary", type=Path, default=Path("docs/choosing.md"), help="the page with the summary")
    options = parser.parse_args()
    if options.quick:
        options.seeds = options.attacked_seeds = 1
    numbers = (options.seeds, options.largest_seeds or options.seeds, options.attacked_seeds)
    usual, fewer, attacked = (range(options.first_seed, options.first_seed + n) for n in numbers)
    sizes_used = SIZES[:2] if options.quick else SIZES
    seeds = {size: fewer if size == SIZES[-1] else usual for size in sizes_used}
    cells = measure(seeds, options.jobs)
    settings = [Setting(k, R, condition=5.0, n_samples=n, law="laplace") for k, n in ATTACKED]
    path = Path("out/second/attacks.csv")
    rows = run_second(
        settings, path=path, attacks=ATTACKS, shares=SHARES, seeds=attacked, n_jobs=options.jobs, progress=True
    )
    sizes = {f"{k} x {n}": [row for row in rows if row["n_clients"] == k] for k, n in ATTACKED}
    parts = [accuracy(cells, seeds), attacks(sizes, attacked), large()]
    summary = short_accuracy(cells, seeds) + "\n" + short_attacks(sizes, attacked)
    print(*parts, summary, sep="\n")
    if not options.quick:
        options.output.write_text("\n".join([INTRODUCTION, *parts]), encoding="utf-8")
        write_section(options.summary, "second", summary)


INTRODUCTION = """# A second message, measured

*Made by `make second`; do not edit.* What a [second message](method.md#a-second-message-score-and-refine) changes:
without an attack, under attack, and what it costs. [When it pays](choosing.md#one-message-or-two).
"""


def write_section(page: Path, name: str, text: str) -> None:
    """Put a text between the marks of this section of a page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name}: make second -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    if not end:
        raise SystemExit(f"{page}: it has no marks of the section {name!r}.")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


Cell = tuple[tuple[int, int], str, float]
"""Size, law and condition."""


Seeds = dict[tuple[int, int], range]
"""The seeds of each size."""


def measure(seeds: Seeds, jobs: int) -> dict[Cell, np.ndarray]:
    """Return of each cell and seed the errors of `LINES`, and whether the second message was used: (seeds, 5)."""
    cells = list(product(seeds, LAWS, CONDITIONS))
    grid: list[Job] = [
        {"n_clients": size[0], "n_samples": size[1], "law": law, "condition": condition, "seed": seed}
        for size, law, condition in cells
        for seed in seeds[size]
    ]
    rows = run_grid(grid, _errors, Path("out/second/accuracy.csv"), lines=LINES, n_jobs=jobs, progress=True)
    found: dict[Cell, list[list[float]]] = {cell: [] for cell in cells}
    for own in np.array_split(np.array(rows), len(grid)):
        size = int(own[0]["n_clients"]), int(own[0]["n_samples"])
        errors = [float(row["error"]) for row in own]
        found[size, own[0]["law"], float(own[0]["condition"])].append([*errors, float(own[1]["taken"])])
    return {cell: np.array(errors) for cell, errors in found.items()}


def _errors(job: Job) -> list[Row]:
    """Error of consensus, after a second and a third message, and of pooled FastICA; and whether steps were taken."""
    law, condition, seed = str(job["law"]), float(job["condition"]), int(job["seed"])
    size = int(job["n_clients"]), int(job["n_samples"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, pooled = first_and_pooled(law, size, condition, seed)
    fed = draw(law, size, condition, seed)
    second = refine(first, [score(c.X, first, client=c.name) for c in fed.clients])
    third = refine(second, [score(c.X, second, client=c.name) for c in fed.clients])
    assert second.refinement is not None
    assert third.refinement is not None
    taken = (0, int(second.refinement.taken), int(third.refinement.taken), 0)
    found = (first.mixing, second.mixing, third.mixing, pooled)
    return [
        {"method": line, "error": recovery_error(mixing, fed.mixing).relative, "taken": step}
        for line, mixing, step in zip(LINES, found, taken, strict=True)
    ]


def _ratios(errors: np.ndarray) -> list[float]:
    """Medians of paired ratios: two and three messages over pooled data, and over one message. errors : (seeds, 5)."""
    first, second, third, pooled, _ = errors.T
    return [float(np.median(x)) for x in (second / pooled, third / pooled, second / first, third / first)]


def _taken(cells: dict[Cell, np.ndarray]) -> str:
    useful = [bool(one[4]) for errors in cells.values() for one in errors if one[3] < 0.9 * one[0]]
    return f"{sum(useful)} of the {len(useful)} federations in which pooling has an error more than 10% smaller"


def accuracy(cells: dict[Cell, np.ndarray], seeds: Seeds) -> str:
    """Every cell without an attack."""
    lines = []
    for (size, law, condition), errors in cells.items():
        medians = [f"{np.median(errors[:, k]):.4f}" for k in (0, 3)]
        lines.append([_named(size), law, f"{condition:g}", *medians, *(f"{x:.2f}" for x in _ratios(errors))])
    heads = ("consensus", "pooled", "two / pooled", "three / pooled", "two / consensus", "three / consensus")
    text = (
        f"## Without an attack\n\nError / sqrt(r) of consensus and of pooled FastICA, r = {R}; medians over "
        f"{_of_sizes(seeds)} of ratios within one federation, after two and after three messages. "
        f"The step was taken in {_taken(cells)}."
    )
    return f"{text}\n\n{table(('clients x samples', 'sources', 'condition', *heads), lines)}"


def short_accuracy(cells: dict[Cell, np.ndarray], seeds: Seeds) -> str:
    """Return the worst condition of each size and law."""
    lines = []
    for size, law in dict.fromkeys((size, law) for size, law, _ in cells):
        own = [errors for (one, other, _), errors in cells.items() if (one, other) == (size, law)]
        worst = np.max([_ratios(errors) for errors in own], axis=0)
        medians = [f"{np.median([errors[:, k] for errors in own]):.4f}" for k in (0, 3)]
        lines.append([_named(size), law, *medians, *(f"{x:.2f}" for x in worst[:3])])
    heads = ("consensus", "pooled", "two / pooled", "three / pooled", "two / consensus")
    text = (
        f"Error / sqrt(r) of consensus and of pooled FastICA, r = {R}, over {_of_sizes(seeds)} and three condition "
        "numbers (1, 5, 30); then the largest, over these conditions, of the medians of the ratios within one "
        f"federation. The step was taken in {_taken(cells)}. [All cells](second.md)."
    )
    return f"{text}\n\n{table(('clients x samples', 'sources', *heads), lines)}"


def attacks(sizes: dict[str, list[Row]], seeds: range) -> str:
    """Every attack, share and size: medians and worst of ratios to honest clients alone and to one message."""
    lines = []
    for size, name, share in product(sizes, ATTACKS, SHARES):
        ratios = _attacked(sizes[size], name, share)
        cells = [f"{np.median(x):.2f} ({np.max(x):.2f})" for x in (ratios["honest"], ratios["consensus"])]
        lines.append([size, name, f"{share:.0%}", f"{np.median(ratios['error']):.4f}", *cells])
    text = (
        f"## Under attack\n\nLaplace sources, condition 5: medians, and in brackets the worst, over {_of(seeds)} of "
        "the error after two messages over that of honest clients alone, and over that of one message. What each "
        f"attack does: `fedica simulate --list`. {_single_runs(sizes)}"
    )
    heads = ("clients x samples", "attack", "share", "consensus", "two / honest alone", "two / consensus")
    return f"{text}\n\n{table(heads, lines)}"


def _single_runs(sizes: dict[str, list[Row]]) -> str:
    """Say of all runs of a size how two messages compare with one."""
    told = []
    for size, rows in sizes.items():
        ratios = np.concatenate([_attacked(rows, *job)["consensus"] for job in product(ATTACKS, SHARES)])
        worse = int(np.sum(ratios > MAX_WORSE))
        told.append(
            f"{size}: {np.mean(ratios):.2f} of the error of one message on average over all runs, above {MAX_WORSE} "
            f"times it in {worse} of {ratios.size}."
        )
    return " ".join(told)


def short_attacks(sizes: dict[str, list[Row]], seeds: range) -> str:
    """Return the worst median over shares, of each attack and size."""
    lines = []
    for name in ATTACKS:
        cells = []
        for rows, over in product(sizes.values(), ("honest", "consensus")):
            cells.append(max((float(np.median(_attacked(rows, name, share)[over])), -share) for share in SHARES))
        lines.append([name, *(f"{worst:.2f} ({-share:.0%})" for worst, share in cells)])
    pairs = product(sizes, ("two / honest alone", "two / consensus"))
    heads = ("attack", *(f"{size}: {ratio}" for size, ratio in pairs))
    text = (
        f"Under attack in both messages, or in the second alone (`-scores`, `-answer`), Laplace sources, condition 5: "
        f"the largest of the medians over {_of(seeds)} for 10, 20, 30 and 40% of the clients, and in brackets the "
        "share that has it, of the error after two messages over that of honest clients alone, and over that of one "
        "message."
    )
    return f"{text}\n\n{table(heads, lines)}"


def _attacked(rows: Sequence[Row], attack: str, share: float) -> dict[str, np.ndarray]:
    """Return the errors of one message, and ratios of two to honest clients alone and to one message: (seeds,) each."""
    own = [row for row in rows if row["attack"] == attack and row["share"] == share]
    error = {line: np.array([float(r["error"]) for r in own if r["method"] == line]) for line in (ONE, TWO, HONEST)}
    return {"error": error[ONE], "honest": error[TWO] / error[HONEST], "consensus": error[TWO] / error[ONE]}


def _named(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def _of_sizes(seeds: Seeds) -> str:
    """Say how many seeds, and which; of the largest size too if these are others."""
    usual, largest = seeds[SIZES[0]], seeds.get(SIZES[-1])
    return _of(usual) if largest in (None, usual) else f"{_of(usual)}, of {_named(SIZES[-1])} {_of(largest)},"


def _of(seeds: range) -> str:
    return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else f"seed {seeds[0]}"


if __name__ == "__main__":
    main()

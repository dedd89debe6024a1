"""Measure what consensus does where nobody attacks: simulated people, real recordings; write docs/people.md.

Run it as ``make people``; ``--quick`` for a look at all of it in a minute or two, with numbers that mean little, and
``--section`` for a part of it. It can be interrupted: what is finished is kept in out/people and not repeated by the
same code.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from component_curves import ALIKE, N_SPLITS, component_curves, replicating
from false_discovery import false_discovery
from real_sets import (
    SHUFFLED,
    ecoli_laboratories,
    ecoli_projects,
    eeg_people,
    eeg_segments,
    fit,
    fmri_runs,
    modules,
    rows_of,
    shuffled,
)
from sections import Page
from seeds import geometric_mean, parallel, percent, table

from fedica import Aggregate, Contribution, LocalICA, aggregate
from fedica.evaluate import recovery_error
from fedica.matching import match
from fedica.simulate import ERROR_LAWS, atoms_federation, error_levels, find_attack, people

CLIENTS, COMPONENTS, CONDITIONS = (5, 10, 20, 50), (5, 10, 20), (1.0, 10.0)
PEOPLE = (("fmri", 10, 40), ("fmri", 20, 40), ("eeg", 6, 20), ("eeg", 12, 20), ("eeg", 20, 30))
"""Kind of recording, components, people."""
WRECKS = ("flipped-maps", "permuted-channels", "shifted-features", "noise-alone")
COMPARED = ("consensus", "srf-ica")
DEALT_SPLITS = 8
"""Ways in which the clients of a deal are halved to count what replicates: a few clients are halved differently."""
WITHIN = 2
"""Numbers of components may differ by so much."""
KEPT = Path("out/people")

INTRODUCTION = """# Where nobody attacks

*Made by `make people`; do not edit.* What consensus costs or gains beside Algorithm 1 of the paper (*srf-ica*) and its
variant with means (*sf-ica*) where all clients are honest: errors of different sizes, people who differ, and real
recordings. Error is error / sqrt(r) to the true components; likeness is the mean absolute cosine of matched components.
"""


def main() -> None:
    """Run all sections and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="federations of people of each kind")
    parser.add_argument("--grid", type=int, default=20, help="federations of each cell of the grid of errors")
    parser.add_argument("--deals", type=int, default=20, help="deals of each data set to clients")
    parser.add_argument("--splits", type=int, default=8, help="splits of each real federation into halves")
    parser.add_argument("--discoveries", type=int, default=200, help="runs of each kind of the test of replication")
    parser.add_argument("--quick", action="store_true", help="one federation of each kind, two splits")
    PAGE.add_options(parser, "docs/people.md")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.grid, options.deals, options.splits, options.discoveries = 1, 1, 2, 2, 2
    PAGE.write(options)


def likeness(one: np.ndarray, other: np.ndarray) -> float:
    """Return the mean absolute cosine of matched columns."""
    return float(match(one, other).cosines.mean())


def outlying(result: Aggregate) -> np.ndarray:
    """Return whether each client is outlying."""
    return np.array(result.trust.verdict) == "outlying"


def halves(contributions: list[Contribution], n_components: int, method: str, seed: int) -> np.ndarray:
    """Return the cosines of the components from one half of the clients to those from the other."""
    order = np.random.default_rng(seed).permutation(len(contributions))
    one, other = (
        aggregate([contributions[k] for k in half], n_components, method=method).mixing
        for half in np.array_split(order, 2)
    )
    return match(one, other).cosines


def efficiency(options: argparse.Namespace) -> str:
    """Errors of equal and of different sizes, against the better of the paper's two methods."""
    cells = list(product(ERROR_LAWS, CLIENTS, COMPONENTS, CONDITIONS))
    jobs = [(cell, seed) for cell in cells for seed in range(options.grid)]
    errors = np.reshape(parallel(_errors, jobs, options.jobs, "efficiency", KEPT), (len(cells), options.grid, 4))
    means = np.exp(np.log(errors).mean(axis=1))
    ratio = dict(zip(cells, means[:, 0] / means[:, 1:3].min(axis=1), strict=True))
    over_oracle = dict(zip(cells, means[:, 0] / means[:, 3], strict=True))
    lines = [
        [
            law,
            *(f"{geometric_mean([ratio[law, k, r, c] for r in COMPONENTS for c in CONDITIONS]):.3f}" for k in CLIENTS),
            f"{geometric_mean([over_oracle[cell] for cell in cells if cell[0] == law]):.3f}",
        ]
        for law in ERROR_LAWS
    ]
    worst = max(ratio, key=lambda cell: ratio[cell])
    unequal = [value for (law, *_), value in ratio.items() if law in {"clients", "both"}]
    law, k, r, condition = worst
    claims = [
        ["geometric mean over the grid: at most 0.98", f"{geometric_mean(list(ratio.values())):.3f}", ""],
        ["each cell: at most 1.05", f"{ratio[worst]:.3f}", f"{law}, K = {k}, r = {r}, condition {condition:g}"],
        ["where errors differ between clients: below 0.90", f"{geometric_mean(unequal):.3f}", "clients, both"],
    ]
    return "\n".join(
        [
            "Error of consensus over that of the better of srf-ica and sf-ica; geometric means over r = 5, 10, 20 "
            f"and condition 1, 10, each with {options.grid} federations; error 0.05, and no client declares what "
            "the mixing is. Errors are equal; log-normal (0.6) over clients, over components, over both; or "
            "heavy-tailed (Student's t, 3 degrees of freedom). *Over the oracle* is the error of consensus over that "
            "of the mean with the true labels, weighed by the true inverse variances: what it costs not to know them "
            "(with heavy tails all variances are one, and such a mean is not the best).\n",
            table(["errors", *(f"K = {k}" for k in CLIENTS), "over the oracle"], lines),
            table(["claim", "measured", "where"], claims),
        ]
    )


def _errors(job: tuple[tuple[str, int, int, float], int]) -> list[float]:
    (law, k, r, condition), seed = job
    drawn = atoms_federation(
        k, r, error=0.05, error_law=law, condition=condition, declare_mixing=False, random_state=seed
    )
    answers = [aggregate(drawn.contributions, r, method=method).mixing for method in (*COMPARED, "sf-ica")]
    levels = [error_levels(law, number, own, r, seed=seed) for number, own in enumerate(drawn.labels)]
    answers.append(drawn.honest_mean([level**-2 for level in levels]))
    return [recovery_error(answer, drawn.mixing).relative for answer in answers]


def simulated_people(options: argparse.Namespace) -> str:
    """People with a known truth: accuracy, replication, verdicts, and the cost of wrecked people."""
    jobs = [(kind, seed) for kind in PEOPLE for seed in range(options.seeds)]
    found = parallel(_person_numbers, jobs, options.jobs, "simulated people", KEPT)
    accuracy, wrecked = [], []
    for number, (kind, r, n_people) in enumerate(PEOPLE):
        own = found[number * options.seeds : (number + 1) * options.seeds]
        mean = {name: float(np.mean([row[name] for row in own])) for name in own[0]}
        title = [kind, r, n_people]
        accuracy.append(
            [
                *title,
                *(f"{mean[f'error {m}']:.3f}" for m in COMPARED),
                f"{mean['error consensus'] / mean['error srf-ica']:.2f}",
                *(f"{mean[f'halves {m}']:.3f}" for m in COMPARED),
                percent([mean["outlying"]]),
                f"{mean['count']:.1f}",
            ]
        )
        wrecked.append([*title, *(f"{percent([mean[w]])} ({mean[f'cost {w}']:+.1%})" for w in WRECKS)])
    return "\n".join(
        [
            "`fedica.simulate.people`: personal deviations, components that some people lack, components of one's "
            "own, noise by the number of samples, smooth maps; calibrated to forty people's fMRI at rest, and to "
            "EEG. Asked for: error at most 0.9 x that of srf-ica, split-half likeness at least 0.02 above it, at "
            f"most 5% of honest people outlying. Means over {options.seeds} federations, each halved in {N_SPLITS} "
            "ways.\n",
            table(
                [
                    *("kind", "r", "people", "error, consensus", "srf-ica", "ratio", "halves, consensus", "srf-ica"),
                    *("honest people outlying", "n_components=None"),
                ],
                accuracy,
            ),
            "20% of the people wrecked: share of them that is outlying or matches nothing (asked for: 95%), and in "
            "brackets how the likeness to the truth changes (asked for: at most 3% less).\n",
            table(["kind", "r", "people", *WRECKS], wrecked),
        ]
    )


def _person_numbers(job: tuple[tuple[str, int, int], int]) -> dict[str, float]:
    (kind, r, n_people), seed = job
    drawn = people(n_people, r, kind=kind, random_state=seed)
    contributions = list(drawn.contributions)
    results = {method: aggregate(contributions, r, method=method) for method in COMPARED}
    numbers = {f"error {m}": recovery_error(result.mixing, drawn.mixing).relative for m, result in results.items()}
    splits = range(seed * N_SPLITS, (seed + 1) * N_SPLITS)
    numbers |= {f"halves {m}": np.mean([halves(contributions, r, m, split) for split in splits]) for m in COMPARED}
    numbers["outlying"] = outlying(results["consensus"]).mean()
    numbers["count"] = aggregate(contributions).n_components
    usual = likeness(results["consensus"].mixing, drawn.mixing)
    for name in WRECKS:
        faced = find_attack(name)(drawn, 0.2, random_state=seed)
        result = aggregate(faced.contributions, r)
        nothing = np.array([not has.any() for has in result.trust.has])
        numbers[name] = (outlying(result) | nothing)[~faced.honest].mean()
        numbers[f"cost {name}"] = likeness(result.mixing, drawn.mixing) / usual - 1
    return numbers


def shuffled_splits(options: argparse.Namespace) -> str:
    """Rows of one data set dealt at random: at most one client in twenty may be outlying."""
    jobs = [(name, seed) for name in SHUFFLED for seed in range(options.deals)]
    found = parallel(_shuffled_numbers, jobs, options.jobs, "shuffled splits", KEPT)
    lines = []
    for number, (name, (k, r, _)) in enumerate(SHUFFLED.items()):
        own = np.array(found[number * options.deals : (number + 1) * options.deals])
        count, replicate, errors = own[:, 1], own[:, 2], own[:, 3:]
        lines.append(
            [
                *(name, k, r, percent(own[:, 0])),
                *(f"{count.mean():.1f} ({count.min():.0f} to {count.max():.0f})", f"{replicate.mean():.1f}"),
                percent(np.abs(count - replicate) <= WITHIN),
                *(f"{error:.4f}" for error in np.median(errors, axis=0)),
                f"{geometric_mean(errors[:, 0] / errors[:, 2]):.3f}",
            ]
        )
    return "\n".join(
        [
            f"Nobody can be bad: at most 5% of the clients may be outlying. {options.deals} deals each. Error is to "
            "one ICA of all rows, medians; *consensus over sf-ica* is the geometric mean of the ratio in each deal; "
            "asked for on the spatial digits: at most 1.03. *Count* is `n_components=None`, with its range; "
            "*replicate* is an independent count, of components of srf-ica that two halves share to "
            f"{ALIKE:g}, the mean over {DEALT_SPLITS} ways to halve the clients of a deal; *within two* is the share "
            "of the deals where the two differ by no more than that.\n",
            table(
                [
                    *("data", "clients", "r", "outlying", "count", "replicate", "within two"),
                    *("error, consensus", "srf-ica", "sf-ica", "consensus over sf-ica"),
                ],
                lines,
            ),
        ]
    )


def _shuffled_numbers(job: tuple[str, int]) -> list[float]:
    name, seed = job
    _, r, independence = SHUFFLED[name]
    contributions = shuffled(name, seed)
    truth = LocalICA(r, independence=independence, random_state=0).fit(rows_of(name)).atoms_
    results = [aggregate(contributions, r, method=method) for method in (*COMPARED, "sf-ica")]
    errors = [recovery_error(result.mixing, truth).relative for result in results]
    splits = range(seed * DEALT_SPLITS, (seed + 1) * DEALT_SPLITS)
    return [outlying(results[0]).mean(), *_counts(contributions, r, splits), *errors]


def _counts(contributions: list[Contribution], n_components: int, seeds: Any) -> tuple[float, float]:
    """Return ``n_components=None``, and the mean number of components that replicate in halves."""
    replicate = [replicating(contributions, n_components, seed) for seed in seeds]
    return aggregate(contributions).n_components, float(np.mean(replicate))


def real_halves(options: argparse.Namespace) -> str:
    """How alike the components of two halves of the clients are, in real federations."""
    jobs = [(name, options.splits) for name in REAL]
    found = parallel(_half_numbers, jobs, options.jobs, "real federations", KEPT)
    means = [np.mean([row[i] for row in found]) for i in (2, 3)]
    lines = [
        [name, k, r, f"{ours:.3f}", f"{srf:.3f}", percent([share]), count, f"{replicate:.1f}"]
        for (name, _), (k, r, ours, srf, share, count, replicate) in zip(jobs, found, strict=True)
    ]
    lines.append(["mean", "", "", *(f"{mean:.3f}" for mean in means), "", "", ""])
    return "\n".join(
        [
            "Likeness of the components of one half of the clients to those of the other, means over "
            f"{options.splits} splits. Asked for: at least that of srf-ica less 0.01 in each, and above it on "
            "average. The runs are of one person's fMRI slice, the segments of 128-channel EEG of one person, the "
            "projects those of E. coli.\n",
            table(
                ["federation", "clients", "r", "consensus", "srf-ica", "outlying", "n_components=None", "replicate"],
                lines,
            ),
        ]
    )


REAL = {
    "fMRI runs, r = 10": (fmri_runs, (10,)),
    "fMRI runs, r = 20": (fmri_runs, (20,)),
    "EEG segments, person 1, r = 10": (eeg_segments, (0, 10)),
    "EEG segments, person 1, r = 20": (eeg_segments, (0, 20)),
    "EEG segments, person 2, r = 10": (eeg_segments, (1, 10)),
    "EEG segments, person 2, r = 20": (eeg_segments, (1, 20)),
    "E. coli projects, r = 8": (lambda: fit(list(ecoli_projects().values()), 8, "features"), ()),
}


def _half_numbers(job: tuple[str, int]) -> tuple[float, ...]:
    name, n_splits = job
    make, arguments = REAL[name]
    contributions = make(*arguments)
    r, seeds = max(c.n_atoms for c in contributions), range(n_splits)
    ours, srf = (np.mean([halves(contributions, r, m, seed).mean() for seed in seeds]) for m in COMPARED)
    share = outlying(aggregate(contributions, r)).mean()
    return len(contributions), r, ours, srf, share, *_counts(contributions, r, seeds)


def left_out(options: argparse.Namespace) -> str:
    """How alike a person's components are to those of the others, in five people's EEG."""
    jobs = [(r, third) for r in (4, 5, 6) for third in range(3)]
    found = parallel(_left_out_numbers, jobs, options.jobs, "people left out", KEPT)
    lines = [
        [r, *(f"{mean:.3f}" for mean in np.mean([row for job, row in zip(jobs, found, strict=True) if job[0] == r], 0))]
        for r in (4, 5, 6)
    ]
    return "\n".join(
        [
            "EEG of five people at eight electrodes: likeness of the components of four people, from a third of their "
            "recordings, to those of the fifth, from the whole recording. Means over the person that is left out and "
            "the three thirds.\n",
            table(["r", "consensus", "srf-ica", "sf-ica"], lines),
        ]
    )


def _left_out_numbers(job: tuple[int, int]) -> list[float]:
    r, third = job
    recordings = eeg_people()
    whole = fit(recordings, r, "samples")
    parts = fit([np.array_split(data, 3)[third] for data in recordings], r, "samples")
    return [
        float(
            np.mean(
                [
                    likeness(aggregate([*parts[:k], *parts[k + 1 :]], r, method=method).mixing, person.atoms)
                    for k, person in enumerate(whole)
                ]
            )
        )
        for method in (*COMPARED, "sf-ica")
    ]


def laboratories(options: argparse.Namespace) -> str:
    """E. coli by five laboratories and by twenty projects."""
    jobs = ["five laboratories", "twenty projects"]
    found = parallel(_laboratory_numbers, jobs, options.jobs, "E. coli", KEPT)
    lines = [
        [name, smallest, largest, percent([share]), shared, f"{support:.0f}", count]
        for name, (smallest, largest, share, shared, support, count) in zip(jobs, found, strict=True)
    ]
    return "\n".join(
        [
            "E. coli, every client with as many components as explain 95% of its variance, 92 asked for. Asked for: "
            "fewer than 10% of the laboratories outlying.\n",
            table(
                [
                    *("clients", "fewest components", "most", "outlying", "components in two clients or more"),
                    *("most clients of one", "n_components=None"),
                ],
                lines,
            ),
        ]
    )


def _laboratory_numbers(name: str) -> tuple[float, ...]:
    contributions = modules(ecoli_laboratories() if name == "five laboratories" else ecoli_projects())
    sizes = [c.n_atoms for c in contributions]
    result = aggregate(contributions, 92)
    shared = int(np.sum(result.support >= 2))
    n_found = aggregate(contributions).n_components
    return min(sizes), max(sizes), outlying(result).mean(), shared, result.support.max(), n_found


PAGE = Page(
    INTRODUCTION,
    {
        "efficiency": ("Efficiency", efficiency),
        "people": ("Simulated people", simulated_people),
        "dealt": ("One data set, dealt to clients at random", shuffled_splits),
        "halves": ("Real federations, split in halves", real_halves),
        "left-out": ("Five people, one left out", left_out),
        "laboratories": ("Laboratories", laboratories),
        "counts": ("How many components, against how many are sent", partial(component_curves, kept=KEPT)),
        "replication": ("Components that replicate", partial(false_discovery, kept=KEPT)),
    },
    of=("server", "simulate"),
)


if __name__ == "__main__":
    main()

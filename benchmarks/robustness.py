"""Measure every attack, and everything else that consensus claims; write docs/robustness.md.

Run it as ``make robustness``; ``--quick`` for a look at all of it in a few minutes, with numbers that mean little, and
``--section`` for a part of it. It can be interrupted: what is finished is kept in out/robustness and not repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import numpy as np
from defence_cost import defence_cost
from known_code import KEPT, attacked_counts, known_code, searched_leans
from sections import Page
from seeds import parallel

from fedica import LocalICA, aggregate
from fedica.evaluate import misclustering, recovery_error
from fedica.simulate import atoms_federation, federation
from fedica.simulate.atoms import with_truth
from fedica.simulate.attacks import ATTACKS, find_attack
from fedica.simulate.grid import Row
from fedica.simulate.robustness import SHARES, Setting, run_robustness

METHODS = ("consensus", "srf-ica", "sf-ica")
CONDITIONS = (1.0, 30.0)
MOVED = ("random-bases", "common-basis", "rotation:15", "rotation", "phantom", "flood-false", "flood-true", "bridges",
         "permuted-channels", "rescaled-channels", "flipped-maps", "shifted-features", "noise-alone")  # fmt: skip
KNOW_THE_CODE = ("outside-span", "tight-basis", "bent-atoms", "lean", "lean-one", "added-phantoms", "merged-components",
                 "claims-orthogonal")  # fmt: skip
"""Measured in tables of their own, on the federations that they aim at."""
HIDDEN = ("alie", "alie-optimised", "mimicry", "worst-angle")


def main() -> None:
    """Run all sections and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10, help="seeds of each row")
    parser.add_argument("--evaluations", type=int, default=200, help="leans that the optimiser tries in each cell")
    parser.add_argument("--fresh", type=int, default=20, help="federations on which the lean that it found is reported")
    parser.add_argument("--quick", action="store_true", help="one seed, five evaluations, three fresh federations")
    PAGE.add_options(parser, "docs/robustness.md")
    options = parser.parse_args()
    if options.quick:
        options.trials, options.evaluations, options.fresh = 1, 5, 3
    PAGE.write(options)


def every_attack(options: argparse.Namespace) -> str:
    """Return the section with all attacks that do not know the code, and what holds of them."""
    attacks = (*(name for name in ATTACKS if name not in KNOW_THE_CODE), "rotation:15")
    rows = run_robustness(
        [Setting(condition=c) for c in CONDITIONS],
        path=KEPT / "attacks.csv",
        attacks=attacks,
        methods=METHODS,
        trials=options.trials,
        n_jobs=options.jobs,
        progress=True,
    )
    return f"Medians over {options.trials} seeds.\n\n{attack_table(rows, attacks)}\n{verdicts(rows)}"


INTRODUCTION = """# Robustness

*Made by `make robustness`; do not edit.* What a share of bad clients costs. r = 10 components, K = 30 clients, atoms
`A (I + 0.03 E)` with unit columns. *honest* is the error / sqrt(r) of the mean of the honest
clients' atoms with the true labels; the other columns are multiples of it, for an orthonormal A (condition 1, declared
orthogonal: consensus then ends with an orthonormal matrix, which is why it can be below 1) and for a general one
(condition 30).
What each attack does: `fedica simulate --list`.
"""


def pick(rows: Sequence[Row], column: str, **wanted: object) -> np.ndarray:
    """Return one column of the rows that have these values."""
    return np.array([float(row[column]) for row in rows if all(row[k] == v for k, v in wanted.items())])


def attack_table(rows: Sequence[Row], attacks: Sequence[str]) -> str:
    """Every attack and share; condition 1 and 30 side by side."""
    lines = [
        "| attack | share | " + " | ".join(f"honest ({c:g}) | consensus | SRF-ICA | SF-ICA" for c in CONDITIONS) + " |"
    ]
    lines.append("| --- " * (2 + 4 * len(CONDITIONS)) + "|")
    for attack in attacks:
        for share in (0.0,) if attack == "none" else SHARES:
            cells = []
            for condition in CONDITIONS:
                where = {"attack": attack, "share": share, "condition": condition}
                honest = np.median(pick(rows, "error", method="honest", **where))
                cells.append(f"{honest:.4f}")
                cells += [f"{np.median(pick(rows, 'error', method=m, **where)) / honest:.2f}" for m in METHODS]
            lines.append(f"| {attack} | {share:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def verdicts(rows: Sequence[Row]) -> str:
    """Set beside what is claimed the worst number that was measured."""

    def worst(attacks: Sequence[str], shares: Sequence[float], over: str) -> tuple[float, str]:
        found = []
        for attack in attacks:
            for share in shares:
                for condition in CONDITIONS:
                    where = {"attack": attack, "share": share, "condition": condition}
                    ours, theirs = (np.median(pick(rows, "error", method=m, **where)) for m in ("consensus", over))
                    found.append((float(ours / theirs), f"{attack}, share {share:g}, condition {condition:g}"))
        return max(found)

    moved = [row for row in rows if row["attack"] in MOVED and row["method"] == "consensus"]
    attackers = np.array([float(row["recall"]) for row in moved])
    wrong = np.array([float(row["recall"]) for row in moved if row["attack"] != "phantom"])
    false = np.array([float(row["false_alarms"]) for row in moved])
    clean = {
        c: [pick(rows, "error", method=m, attack="none", condition=c) for m in ("consensus", "sf-ica")]
        for c in CONDITIONS
    }
    cost, where = max((float(np.median(ours) / np.median(sf)), f"condition {c:g}") for c, (ours, sf) in clean.items())
    lines = [
        "### What holds\n",
        "| claim | worst measured | where |",
        "| --- | --- | --- |",
        "| attacks beyond the spread, share up to 0.4: at most 1.15 x honest | {:.3f} | {} |".format(
            *worst(MOVED, SHARES[:-1], "honest")
        ),
        "| the same at 0.45: at most 1.5 x honest | {:.3f} | {} |".format(*worst(MOVED, SHARES[-1:], "honest")),
        "| attacks inside the spread: at most 1.02 x SRF-ICA | {:.3f} | {} |".format(*worst(HIDDEN, SHARES, "srf-ica")),
        f"| no attack: at most 1.02 x SF-ICA | {cost:.3f} | {where} |",
        f"| attackers called outlying: at least 95% | {100 * attackers.mean():.1f}% | attacks beyond the spread |",
        f"| the same without `phantom`, nine of whose ten atoms are right | {100 * wrong.mean():.1f}% | |",
        f"| honest clients called outlying: at most 2% | {100 * false.mean():.2f}% | the same |",
    ]
    few = pick(rows, "recall", method="consensus", attack="few-samples")
    lines.append(f"| few-sample clients that declare it are weak, not outlying | {100 * few.mean():.1f}% outlying | |")
    return "\n".join(lines) + "\n"


def coverage_table(options: argparse.Namespace) -> str:
    """Every client sees four of ten components, the commonest ten times as often as the rarest."""
    lines = [
        "r = 10, K = 30, r_k = 4, coverage skewed tenfold (three clients see the rarest component); error / sqrt(r).\n",
        "| condition | consensus, median | consensus, worst | SRF-ICA, median |",
        "| --- | --- | --- | --- |",
    ]
    for condition in (1.0, 3.0, 10.0):
        errors: dict[str, list[float]] = {"consensus": [], "srf-ica": []}
        for seed in range(options.trials):
            drawn = atoms_federation(
                30, 10, components_per_client=4, coverage_skew=10, condition=condition, random_state=seed
            )
            for method, own in errors.items():
                own.append(
                    recovery_error(aggregate(drawn.contributions, 10, method=method).mixing, drawn.mixing).relative
                )
        ours = errors["consensus"]
        lines.append(
            f"| {condition:g} | {np.median(ours):.4f} | {max(ours):.4f} | {np.median(errors['srf-ica']):.4f} |"
        )
    return "\n".join(lines) + "\n"


def real_fits(options: argparse.Namespace) -> str:
    """LocalICA on data: a badly conditioned mixing matrix, three clients in ten with 300 samples."""
    found = parallel(_real_fit, range(min(options.trials, 6)), options.jobs)
    lines = [
        "LocalICA on data: general mixing of condition 30, r = 20, 5000 samples, 30% of clients at 300; "
        f"{len(found)} federations. Misclustered: share of the good clients' atoms in a wrong group, or in none.\n",
        "| method | misclustered | error / sqrt(r) | good clients outlying | 300-sample clients outlying |",
        "| --- | --- | --- | --- | --- |",
    ]
    for method in ("consensus", "srf-ica"):
        own = np.array([trial[method] for trial in found])
        lines.append(
            f"| {method} | {100 * own[:, 0].mean():.3f}% | {np.median(own[:, 1]):.4f} | "
            f"{100 * own[:, 2].mean():.1f}% | {100 * own[:, 3].mean():.1f}% |"
        )
    return "\n".join(lines) + "\n"


def _real_fit(seed: int) -> dict[str, tuple[float, ...]]:
    drawn = federation(30, 20, condition=30.0, corrupted_share=0.3, corrupted_samples=300, random_state=seed)
    fits = [LocalICA(20, random_state=seed).fit(c.X).contribution(c.name) for c in drawn.clients]
    known = with_truth(fits, drawn.mixing, [c.components for c in drawn.clients])
    good = np.array([not c.corrupted for c in drawn.clients])
    answer = {}
    for method in ("consensus", "srf-ica"):
        result = aggregate(fits, 20, method=method)
        own = good[result.client_of_atom]
        wrong = misclustering(result.labels[own], np.concatenate(known.labels)[own], 20).overall
        outlying = np.array([v == "outlying" for v in result.trust.verdict])
        error = recovery_error(result.mixing, drawn.mixing).relative
        answer[method] = (wrong, error, outlying[good].mean(), outlying[~good].mean())
    return answer


def component_counts(options: argparse.Namespace) -> str:
    """``n_components=None``: how often the number is found."""
    n_runs = 10 * options.trials
    lines = [
        f"`n_components=None`, K = 30, 30% of clients corrupted; how often r is found in {n_runs} runs. In the last "
        "column every client sees 60% of the components, orthonormal A (runs where each is seen by at least 8 good "
        "clients).\n",
        "| r | d | corrupted by | condition 1 | condition 10 | 60% coverage |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for r in (2, 5, 10, 20):
        for d in (r, 2 * r):
            for attack in ("few-samples", "random-bases"):
                cells = []
                for condition, per_client in ((1.0, r), (10.0, r), (1.0, max(2, round(0.6 * r)))):
                    jobs = [(r, d, attack, condition, per_client, seed) for seed in range(n_runs)]
                    counts = [c for c in parallel(_count, jobs, options.jobs) if c >= 0]
                    cells.append(f"{100 * np.mean(np.array(counts) == r):.0f}%" if counts else "-")
                lines.append(f"| {r} | {d} | {attack} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _count(job: tuple[int, int, str, float, int, int]) -> int:
    r, d, attack, condition, per_client, seed = job
    drawn = atoms_federation(
        30, r, n_features=d, condition=condition, components_per_client=per_client, random_state=seed
    )
    faced = find_attack(attack)(drawn, 0.3, random_state=seed)
    seen = np.bincount(np.concatenate([drawn.labels[k] for k in np.flatnonzero(faced.honest)]), minlength=r)
    if seen.min() < 8:
        return -1
    return aggregate(faced.contributions, n_init=3).n_components


PAGE = Page(
    INTRODUCTION,
    {
        "attacks": ("Every attack", every_attack),
        "known-code": ("Attackers that know the code", known_code),
        "leans": ("A lean whose shape is searched", searched_leans),
        "defence": ("What the defence costs where nobody attacks", partial(defence_cost, kept=KEPT)),
        "rare": ("Rare components", coverage_table),
        "fits": ("Real fits", real_fits),
        "counts": ("How many components", component_counts),
        "attacked-counts": ("Attacks on the number of components", attacked_counts),
    },
    of=("server", "simulate"),
)


if __name__ == "__main__":
    main()

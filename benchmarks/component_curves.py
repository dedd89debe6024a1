"""How many components are found, against how many the clients send: people, runs, segments, projects."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from real_sets import ecoli_projects, eeg_people, eeg_segments, fit, fmri_runs
from seeds import parallel, table

from fedica import Contribution, aggregate
from fedica.matching import match
from fedica.simulate import people

ALIKE = 0.7
"""A component replicates, for the independent count, where two halves agree at least so much."""
N_SPLITS = 4
"""Ways in which the clients are halved for it."""
SETS: dict[str, tuple[Callable[[int], list[Contribution]], tuple[int, ...]]] = {
    "simulated people, fMRI": (lambda r: list(people(40, r, kind="fmri", random_state=0).contributions), (5, 10, 20)),
    "simulated people, EEG": (lambda r: list(people(20, r, kind="eeg", random_state=0).contributions), (6, 12, 20)),
    "fMRI runs": (fmri_runs, (5, 10, 15, 20)),
    "EEG segments, person 1": (lambda r: eeg_segments(0, r), (5, 10, 15, 20)),
    "EEG segments, person 2": (lambda r: eeg_segments(1, r), (5, 10, 15, 20)),
    "EEG of five people": (lambda r: fit(eeg_people(), r), (4, 5, 6, 7)),
    "E. coli projects": (lambda r: fit(list(ecoli_projects().values()), r, "features"), (4, 6, 8)),
}
"""Federations by the number of components that each client sends, and the numbers."""


def component_curves(options: argparse.Namespace, kept: Path | None = None) -> str:
    """Return the section on the number that is found, for every number that clients send."""
    jobs = [(name, r) for name, (_, numbers) in SETS.items() for r in numbers]
    found = dict(zip(jobs, parallel(counted, jobs, options.jobs, "numbers of components", kept), strict=True))
    lines = [
        [name, r, found[name, r][0], f"{found[name, r][1]:.1f}"] for name, (_, numbers) in SETS.items() for r in numbers
    ]
    return "\n".join(
        [
            "`n_components=None` where every client sends a given number of components, and the independent count: "
            f"components of srf-ica that two halves of the clients share to {ALIKE:g}, means over {N_SPLITS} splits. "
            "Asked for: within two of that count.\n",
            table(["federation", "each client sends", "`n_components=None`", "replicate"], lines),
        ]
    )


def counted(job: tuple[str, int]) -> tuple[int, float]:
    """Return the number that is chosen, and the mean number of components that replicate in halves."""
    name, r = job
    contributions = SETS[name][0](r)
    n_sent = max(c.n_atoms for c in contributions)
    replicate = [replicating(contributions, n_sent, seed) for seed in range(N_SPLITS)]
    return aggregate(contributions).n_components, float(np.mean(replicate))


def replicating(contributions: Sequence[Contribution], n_components: int, seed: int) -> int:
    """Count the components of srf-ica that two halves of the clients share."""
    order = np.random.default_rng(seed).permutation(len(contributions))
    one, other = (
        aggregate([contributions[k] for k in half], n_components, method="srf-ica").mixing
        for half in np.array_split(order, 2)
    )
    return int(np.sum(match(one, other).cosines > ALIKE))

"""How often `replication=True` names components that nobody shares, and how many of the shared ones it finds."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from seeds import parallel, percent, table

from fedica import Contribution, aggregate
from fedica.arrays import Array, polar, unit

K, R, D, COSINE = 20, 10, 2_000, 0.5
"""Clients, components, features, and the cosine of an atom to what its client has."""
SHARED = {"nothing": 0, "half of the components": R // 2}
FOUND = 0.7
"""A component is one of the shared ones if its absolute cosine to it is at least this."""


def false_discovery(options: argparse.Namespace, kept: Path | None = None) -> str:
    """Return the section on components that replicate: false discoveries, and what is found of the shared ones."""
    jobs = [(n_shared, seed) for n_shared in SHARED.values() for seed in range(options.discoveries)]
    found = np.reshape(parallel(replicated, jobs, options.jobs, "false discovery", kept), (len(SHARED), -1, 2))
    lines = []
    for (name, n_shared), runs in zip(SHARED.items(), found, strict=True):
        true, false = runs.sum(axis=0)
        of_shared = (
            [percent([false / (true + false)]), percent([true / (n_shared * len(runs))])] if n_shared else ["", ""]
        )
        lines.append([name, len(runs), percent(runs[:, 1] > 0), *of_shared])
    return "\n".join(
        [
            f"`replication=True`, at a nominal 5%; {K} clients, {R} components, {D:,} features, atoms at a cosine of "
            f"{COSINE:g} to what their client has. All clients span the same directions, up to that noise; the maps "
            "that clients share are the same, the others are turned at random within the rest of that span, by every "
            "client in its own way. Asked for: where nothing is shared, at most 8% of the runs report a "
            "component that replicates; where half is shared, at most 5% of those reported are false, and at least "
            f"90% of the shared ones are found (at a cosine of {FOUND:g} or more).\n",
            table(
                ["shared", "runs", "runs with a false one", "false of those reported", "found of those shared"],
                lines,
            ),
        ]
    )


def replicated(job: tuple[int, int]) -> tuple[int, int]:
    """Return how many shared components replicate by the test, and how many others."""
    sent, shared = clients_that_share(*job)
    result = aggregate(sent, R, replication=True)
    assert result.replicates is not None  # twenty clients are enough for the test
    reported = result.mixing[:, result.replicates]
    true = int(np.sum(np.abs(shared.T @ reported).max(axis=1, initial=0.0) >= FOUND))
    return true, reported.shape[1] - true


def clients_that_share(n_shared: int, seed: int) -> tuple[list[Contribution], Array]:
    """Draw clients whose maps span the same directions up to noise, and the maps that all of them have, (d, n)."""
    rng = np.random.default_rng(seed)
    truth = polar(rng.standard_normal((D, R)))
    shared, rest = truth[:, :n_shared], truth[:, n_shared:]
    sent = []
    for k in range(K):
        own = rest @ polar(rng.standard_normal((R - n_shared, R - n_shared)))
        noise = unit(rng.standard_normal((D, R)))
        maps = COSINE * np.hstack([shared, own]) + np.sqrt(1 - COSINE**2) * noise
        sent.append(Contribution(f"client-{k:02d}", maps[:, rng.permutation(R)], 1000))
    return sent, shared

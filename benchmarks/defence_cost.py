"""What the defence of consensus costs on real fits, whose errors are not alike in all directions, where nobody attacks.

Each part of the defence is switched off in turn, and the error is compared with that of consensus as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from real_sets import N_SEGMENTS, SHUFFLED, eeg_recording, fit, rows_of, shuffled
from seeds import geometric_mean, parallel, table

from fedica import Contribution, LocalICA, aggregate
from fedica.arrays import Array
from fedica.evaluate import recovery_error
from fedica.simulate import federation
from fedica.simulate.photographs import differences, load_photographs, photograph_federation

FIND = "fedica.server.consensus.find."


def _all_independent(*arguments: Any) -> Array:
    """Return what (C4) does if no error is shared: everybody counts. The fifth argument has one value per client."""
    return np.ones(arguments[4].size, dtype=np.bool_)


def _all_atoms_independent(*arguments: Any) -> Array:
    """Return the same for (C4) of single components. The second argument has one value per atom."""
    return np.ones(arguments[1].size, dtype=np.bool_)


PARTS: dict[str, dict[str, Callable[..., Any]]] = {
    "shared errors (C4)": {"independent_clients": _all_independent, "independent_atoms": _all_atoms_independent},
    "those of one component": {"independent_atoms": _all_atoms_independent},
    "test of Hausman's kind (C5)": {"_explained": lambda *_: True},
}
"""The parts of the defence, and what each function is replaced by where the part is switched off."""

Federation = tuple[list[Contribution], Array]
"""Contributions, and the components that they estimate, (d, r)."""


def _simulated(seed: int) -> Federation:
    drawn = federation(30, 10, condition=10.0, n_samples=2_000, random_state=seed)
    return [LocalICA(10, random_state=0).fit(c.X).contribution(c.name) for c in drawn.clients], drawn.mixing


def _shuffled(name: str) -> Callable[[int], Federation]:
    _, r, independence = SHUFFLED[name]

    def make(seed: int) -> Federation:
        return shuffled(name, seed), LocalICA(r, independence=independence, random_state=0).fit(rows_of(name)).atoms_

    return make


def _photographs(seed: int) -> Federation:
    drawn = photograph_federation(load_photographs(), random_state=seed)
    honest = [client for client in drawn.clients if client.fault == "none"]
    fits = [LocalICA(6, random_state=0).fit(differences(c.pixels)).contribution(c.name) for c in honest]
    return fits, drawn.mixing


def _segments(person: int) -> Callable[[int], Federation]:
    def make(seed: int) -> Federation:
        """Cut a recording into segments that begin elsewhere for every seed."""
        data = np.roll(eeg_recording(person), seed * 1_000, axis=0)
        return fit(np.array_split(data, N_SEGMENTS), 10), LocalICA(10, random_state=0).fit(data).atoms_

    return make


FEDERATIONS: dict[str, Callable[[int], Federation]] = {
    "LocalICA on simulated data": _simulated,
    "digits, spatial": _shuffled("digits, spatial"),
    "digits, temporal": _shuffled("digits, temporal"),
    "photographs": _photographs,
    "one person's EEG": _shuffled("one person's EEG"),
    "EEG segments, person 1": _segments(0),
    "EEG segments, person 2": _segments(1),
}


def defence_cost(options: argparse.Namespace, kept: Path | None = None) -> str:
    """Return the section on what each part of the defence costs."""
    jobs = [(name, seed) for name in FEDERATIONS for seed in range(options.trials)]
    found = np.reshape(
        parallel(errors_without, jobs, options.jobs, "defence", kept), (len(FEDERATIONS), -1, 1 + len(PARTS))
    )
    lines = [
        [name, len(errors), f"{np.median(errors[:, 0]):.4f}", *map(_over(errors[:, 0]), errors[:, 1:].T)]
        for name, errors in zip(FEDERATIONS, found, strict=True)
    ]
    return "\n".join(
        [
            "Fits of real and simulated data, whose errors are not alike in all directions: error of consensus to the "
            "true components, or to one ICA of all rows, and the geometric mean of its ratio to the error of consensus "
            "without a part of the defence. Asked for: at most 1.02.\n",
            table(["data", "federations", "error, median", *(f"over that without {part}" for part in PARTS)], lines),
        ]
    )


def _over(ours: Array) -> Callable[[Array], str]:
    return lambda without: f"{geometric_mean(ours / without):.3f}"


def errors_without(job: tuple[str, int]) -> list[float]:
    """Return the error of consensus, and that without each part of the defence."""
    name, seed = job
    contributions, truth = FEDERATIONS[name](seed)
    r = truth.shape[1]

    def error() -> float:
        return float(recovery_error(aggregate(contributions, r, method="consensus").mixing, truth).relative)

    errors = [error()]
    for functions in PARTS.values():
        with _switched_off(functions):
            errors.append(error())
    return errors


@contextmanager
def _switched_off(functions: dict[str, Callable[..., Any]]) -> Iterator[None]:
    patches = [patch(FIND + name, function) for name, function in functions.items()]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()

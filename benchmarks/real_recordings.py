"""Clients on real data against other solvers: EEG of two people, whole and in segments, fMRI, E. coli, photographs.

FastICA and picard go on until the gradient is what everybody must reach; MNE's infomax stops by its own rule, because
it minimises something else.
"""

from __future__ import annotations

import warnings

import numpy as np
from measuring import Row, check, in_process, task
from real_problems import PROBLEMS, Problem
from real_sets import N_SEGMENTS, eeg_recording
from real_solvers import FASTICA, GOAL, INFOMAX, MAX_INFOMAX, OURS, PICARD, WAYS, Fit
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from fedica import Contribution, aggregate

PEOPLE = (1, 2)
SIZES = (15, 30, 60, 120)
SEGMENT_SIZES = (15, 30)
FEW_PASSES = (15, 60)
"""At most so many passes, up to so many components."""
MIN_CONVERGED = 7 / 8
"""Share of the cases in which ours must converge; it says why it stopped in the others."""


@task
def fit_real(way: str, person: int, r: int) -> Row:
    """Fit one person's whole recording, and its halves."""
    problem = Problem(eeg_recording(person - 1), halved_in_time=True)
    return {"way": way, "data": f"EEG of person {person}", **_row(way, problem, r)}


@task
def fit_other(way: str, data: str, r: int) -> Row:
    """Fit a data set of another kind, and its halves."""
    return {"way": way, "data": data, **_row(way, PROBLEMS[data](r), r)}


@task
def fit_segments(way: str, person: int, r: int) -> Row:
    """Fit the segments of a recording, each a client: the likeness is that of what the server makes of either half."""
    warnings.simplefilter("ignore")
    parts = [Problem(part, halved_in_time=True) for part in np.array_split(eeg_recording(person - 1), N_SEGMENTS)]
    with threadpool_limits(1):
        fits = [WAYS[way](part, r) for part in parts]
        gradients = [part.gradient(fit.rotation, r) for part, fit in zip(parts, fits, strict=True)]
        sent = [Contribution(f"segment-{k:02d}", part.atoms(fit.rotation, r), len(part.X))
                for k, (part, fit) in enumerate(zip(parts, fits, strict=True))]  # fmt: skip
        halves = [aggregate(half, r).mixing for half in (sent[: N_SEGMENTS // 2], sent[N_SEGMENTS // 2 :])]
    return {
        "way": way,
        "data": f"EEG of person {person}, {N_SEGMENTS} segments",
        "r": r,
        "cpu_seconds": sum(fit.seconds for fit in fits),
        "passes": max(fit.passes for fit in fits),
        "gradient": max(gradients),
        "split_half": likeness(*halves),
        "stopped": next((fit.stopped for fit in fits if fit.stopped), ""),
    }


def _row(way: str, problem: Problem, r: int) -> Row:
    """CPU seconds on one thread, passes or steps, the gradient, and how alike the atoms of the two halves are."""
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        fit: Fit = WAYS[way](problem, r)
        gradient = problem.gradient(fit.rotation, r)
        halves = [half.atoms(WAYS[way](half, r).rotation, r) for half in problem.halves()]
    return {
        "r": r,
        "cpu_seconds": fit.seconds,
        "passes": fit.passes,
        "gradient": gradient,
        "split_half": likeness(*halves),
        "stopped": fit.stopped,
    }


def likeness(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean absolute cosine of matched atoms. first, second : (d, r), unit columns."""
    cosines = np.abs(first.T @ second)
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def run_real(quick: bool) -> list[Row]:
    """Every way on both people at every size; the quick version has one person and the smallest size."""
    return [
        in_process("fit_real", way=way, person=person, r=r)
        for person in (PEOPLE[:1] if quick else PEOPLE)
        for r in (SIZES[:1] if quick else SIZES)
        for way in _ways(r)
    ]


def run_other(quick: bool) -> list[Row]:
    """Every way on segments of recordings, and on other kinds of data; of the quick version see `PROBLEMS`."""
    segments = [] if quick else [
        in_process("fit_segments", way=way, person=person, r=r)
        for person in PEOPLE
        for r in SEGMENT_SIZES
        for way in _ways(r)
    ]  # fmt: skip
    return segments + [
        in_process("fit_other", way=way, data=data, r=r)
        for data, problem in PROBLEMS.items()
        for r in problem.sizes[: 1 if quick else None]
        if problem.quick or not quick
        for way in _ways(r)
    ]


def _ways(r: int) -> list[str]:
    """Return the solvers that are measured at this size: infomax takes too long for large ones."""
    return [way for way in WAYS if way != INFOMAX or r <= MAX_INFOMAX]


def judge_real(rows: list[Row]) -> list[Row]:
    """Half of picard's time, no more than FastICA's, fifteen passes, and halves no less alike than picard's."""
    checks = []
    for data, r in _cases(rows):
        ours, fastica, picard = (_find(rows, way, data, r) for way in (OURS, FASTICA, PICARD))
        where = f"{data}, r = {r}"
        for other, wanted in ((picard, 2.0), (fastica, 1.0)):
            name = f"{where}: less CPU time than {other['way']} until the gradient is {GOAL:g}"
            checks.append(check(name, other["cpu_seconds"] / ours["cpu_seconds"], wanted, at_least=True))
        checks.append(check(f"{where}: gradient", ours["gradient"], GOAL, at_least=False, unit=""))
        most, up_to = FEW_PASSES
        checks.append(check(f"{where}: passes", ours["passes"], most, at_least=False, unit="", asked=r <= up_to))
        alike = ours["split_half"] - picard["split_half"]
        checks.append(check(f"{where}: split-half likeness above picard's by", alike, -0.005, at_least=True, unit=""))
    own = [row for row in rows if row["way"] == OURS]
    share = sum(not row["stopped"] for row in own) / len(own)
    name = f"share of the {len(own)} recordings and sizes in which ours converged"
    return [*checks, check(name, share, MIN_CONVERGED, at_least=True, unit="")]


def judge_other(rows: list[Row]) -> list[Row]:
    """Tell the same of other kinds of data, for which nothing is asked."""
    checks = []
    for data, r in _cases(rows):
        ours, picard = (_find(rows, way, data, r) for way in (OURS, PICARD))
        name = f"{data}, r = {r}: less CPU time than {picard['way']} until the gradient is {GOAL:g}"
        ratio = picard["cpu_seconds"] / ours["cpu_seconds"]
        checks.append(check(name, ratio, 1.0, at_least=True, asked=False))
    return checks


def _cases(rows: list[Row]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((row["data"], row["r"]) for row in rows if "data" in row))


def _find(rows: list[Row], way: str, data: str, r: int) -> Row:
    return next(row for row in rows if (row["way"], row.get("data"), row["r"]) == (way, data, r))

"""Clients on real data against other solvers: EEG of two people, whole and in segments, fMRI, E. coli, photographs.

FastICA and picard go on until the gradient is what everybody must reach, or until they have had several times as long
as ours took; MNE's infomax stops by its own rule, because it minimises something else.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measuring import Row, check, in_process, task
from real_problems import PROBLEMS, Problem
from real_sets import N_SEGMENTS, eeg_recording
from real_solvers import FASTICA, GOAL, INFOMAX, MAX_INFOMAX, OURS, PICARD, WAYS, Fit
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from fedica import Contribution, aggregate
from fedica.arrays import Array

PREPARED = Path(__file__).parents[1] / "out" / "bench"
"""Where recordings are kept as arrays: reading and filtering takes longer than most fits."""
PEOPLE = (1, 2)
SIZES = (15, 30, 60, 120)
SEGMENT_SIZES = (15, 30)
FEW_PASSES = (15, 60)
"""At most so many passes, up to so many components."""
MIN_CONVERGED = 7 / 8
"""Share of the cases in which ours must converge; it says why it stopped in the others."""
FACTORS, LIMIT = {PICARD: 2.2, FASTICA: 1.2}, 60.0
"""CPU seconds that others have for a fit: so many times those of ours, a little more than what they are judged by; and
with few components at least so many seconds."""
STARTS, FEW_COMPONENTS = 10, 30
"""Halves are fitted up to so many components; ours and picard from so many starts, because by chance the optima of two
halves are more alike or less: at 30 components of person 1 by a standard deviation of 0.01 (ours) and 0.02 (picard)
over starts of the first half, so that of three starts the mean has an error above what is judged."""


def _recording(person: int) -> Array:
    """Return one person's recording, (n_samples, 128); prepared once."""
    file = PREPARED / f"eeg-{person}.npy"
    if not file.exists():
        PREPARED.mkdir(parents=True, exist_ok=True)
        np.save(file, eeg_recording(person - 1))
    return np.asarray(np.load(file))


@task
def fit_real(way: str, person: int, r: int, limit: float) -> Row:
    """Fit one person's whole recording, and its halves."""
    problem = Problem(_recording(person), halved_in_time=True)
    return {"way": way, "data": f"EEG of person {person}", **_row(way, problem, r, limit, halved=r <= FEW_COMPONENTS)}


@task
def fit_other(way: str, data: str, r: int, limit: float) -> Row:
    """Fit a data set of another kind, and its halves."""
    return {"way": way, "data": data, **_row(way, PROBLEMS[data](r), r, limit, halved=True)}


@task
def fit_segments(way: str, person: int, r: int, limit: float) -> Row:
    """Fit the segments of a recording, each a client: the likeness is that of what the server makes of either half."""
    warnings.simplefilter("ignore")
    parts = [Problem(part, halved_in_time=True) for part in np.array_split(_recording(person), N_SEGMENTS)]
    with threadpool_limits(1):
        fits = [WAYS[way](part, r, limit) for part in parts]
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


def _row(way: str, problem: Problem, r: int, limit: float, *, halved: bool) -> Row:
    """CPU seconds on one thread, passes or steps, the gradient, and how alike the atoms of the two halves are."""
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        fit: Fit = WAYS[way](problem, r, limit)
        gradient = problem.gradient(fit.rotation, r)
        row: Row = {"r": r, "cpu_seconds": fit.seconds, "passes": fit.passes, "gradient": gradient}
        if not fit.stopped and halved:
            starts = STARTS if way in (OURS, PICARD) else 1
            first, second = ([half.atoms(WAYS[way](half, r, limit, seed).rotation, r) for seed in range(starts)]
                             for half in problem.halves())  # fmt: skip
            row["split_half"] = float(np.mean([likeness(one, other) for one in first for other in second]))
            row["starts"] = starts
    return {**row, "stopped": fit.stopped}


def likeness(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean absolute cosine of matched atoms. first, second : (d, r), unit columns."""
    cosines = np.abs(first.T @ second)
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def run_real(quick: bool) -> Iterator[Row]:
    """Every way on both people at every size; the quick version has one person and the smallest size."""
    cases = [(r, person) for r in (SIZES[:1] if quick else SIZES) for person in (PEOPLE[:1] if quick else PEOPLE)]
    for r, person in cases:
        yield from _compared("fit_real", r, person=person)
    for r, person in cases:
        yield from _infomax("fit_real", r, person=person)


def run_other(quick: bool) -> Iterator[Row]:
    """Every way on segments of recordings, and on other kinds of data; of the quick version see `PROBLEMS`."""
    if not quick:
        for person in PEOPLE:
            for r in SEGMENT_SIZES:
                yield from _compared("fit_segments", r, person=person)
                yield from _infomax("fit_segments", r, person=person)
    for data, problem in PROBLEMS.items():
        if problem.quick or not quick:
            for r in problem.sizes[: 1 if quick else None]:
                yield from _compared("fit_other", r, data=data)
                yield from _infomax("fit_other", r, data=data)


def _compared(task_name: str, r: int, **arguments: object) -> Iterator[Row]:
    """Run ours, then the others, who have so much time as ours allows."""
    ours = in_process(task_name, way=OURS, r=r, limit=LIMIT, **arguments)
    yield ours
    for way, factor in FACTORS.items():
        limit = max(LIMIT if r <= FEW_COMPONENTS else 0.0, np.ceil(factor * ours.get("cpu_seconds", 0.0)))
        yield in_process(task_name, way=way, r=r, limit=float(limit), **arguments)


def _infomax(task_name: str, r: int, **arguments: object) -> Iterator[Row]:
    """Run infomax, by which nothing is judged, unless that takes too long."""
    if r <= MAX_INFOMAX:
        yield in_process(task_name, way=INFOMAX, r=r, limit=LIMIT, **arguments)


def judge_real(rows: list[Row]) -> list[Row]:
    """Half of picard's time, no more than FastICA's, fifteen passes, and halves no less alike than picard's."""
    checks = []
    for data, r in _cases(rows):
        ours, fastica, picard = (_find(rows, way, data, r) for way in (OURS, FASTICA, PICARD))
        where = f"{data}, r = {r}"
        checks += [_less_time(where, ours, picard, 2.0), _less_time(where, ours, fastica, 1.0)]
        checks.append(check(f"{where}: gradient", ours["gradient"], GOAL, at_least=False, unit=""))
        most, up_to = FEW_PASSES
        checks.append(check(f"{where}: passes", ours["passes"], most, at_least=False, unit="", asked=r <= up_to))
        if "split_half" in ours and "split_half" in picard:
            alike = ours["split_half"] - picard["split_half"]
            name = f"{where}: split-half likeness above picard's by"
            checks.append(check(name, alike, -0.005, at_least=True, unit=""))
    own = [row for row in rows if row["way"] == OURS]
    share = sum(row.get("stopped") == "" for row in own) / max(1, len(own))
    name = f"share of the {len(own)} recordings and sizes in which ours converged"
    return [*checks, check(name, share, MIN_CONVERGED, at_least=True, unit="")]


def _less_time(where: str, ours: Row, other: Row, wanted: float, *, asked: bool = True) -> Row:
    """How many times less CPU time ours takes; a bound where the other was not there in its time."""
    late = f" ({other['stopped']}: more than what is said)" if other["stopped"] else ""
    name = f"{where}: less CPU time than {other['way']}{late} until the gradient is {GOAL:g}"
    return check(name, other["cpu_seconds"] / ours["cpu_seconds"], wanted, at_least=True, asked=asked)


def judge_other(rows: list[Row]) -> list[Row]:
    """Tell the same of other kinds of data, for which nothing is asked."""
    checks = []
    for data, r in _cases(rows):
        ours, picard = (_find(rows, way, data, r) for way in (OURS, PICARD))
        checks.append(_less_time(f"{data}, r = {r}", ours, picard, 1.0, asked=False))
    return checks


def _cases(rows: list[Row]) -> list[tuple[str, int]]:
    """Return the data and sizes at which every solver that is judged was measured."""
    measured = {(row["way"], row["data"], row["r"]) for row in rows if "data" in row and "cpu_seconds" in row}
    cases = sorted({(data, r) for _, data, r in measured}, key=lambda case: (case[1], case[0]))
    return [case for case in cases if all((way, *case) in measured for way in (OURS, PICARD, FASTICA))]


def _find(rows: list[Row], way: str, data: str, r: int) -> Row:
    return next(row for row in rows if (row["way"], row.get("data"), row["r"]) == (way, data, r))

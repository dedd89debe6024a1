"""Clients against scikit-learn's FastICA and picard at equal error, and on a recording larger than memory."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Row, check, in_process, task, timed
from sklearn.decomposition import FastICA

from fedica import LocalICA
from fedica.evaluate import recovery_error

SIZES = ((10, 5_000), (20, 100_000), (32, 100_000), (64, 100_000))
"""Components and samples."""
SAME = 1.01


LAWS = {
    "Bernoulli-Gaussian": lambda rng, shape: (rng.random(shape) < 0.1) * rng.standard_normal(shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
    "uniform": lambda rng, shape: rng.uniform(-1.0, 1.0, shape),
}
PAPER = "Bernoulli-Gaussian"
"""The paper's sources, on which every way is measured; on the others ours and the fastest of the rest."""
WANTED = {PAPER: (1.2, 3.5, 5.0, 7.0), "Laplace": (1.2, 3.6, 4.8, 8.5), "uniform": (1.2, 3.7, 4.5, 7.0)}
"""How many times faster than the fastest other of the same error, for each of `SIZES`."""


def draw(n_samples: int, r: int, seed: int, law: str = PAPER) -> tuple[np.ndarray, np.ndarray]:
    """Draw sources of a law and mix them orthonormally: data and mixing matrix."""
    rng = np.random.default_rng(seed)
    sources = LAWS[law](rng, (n_samples, r))
    mixing = np.linalg.qr(rng.standard_normal((r, r)))[0]
    return sources @ mixing.T, mixing


def _fastica(X: np.ndarray, r: int, **options: Any) -> np.ndarray:
    return np.asarray(FastICA(r, whiten="unit-variance", max_iter=1000, random_state=0, **options).fit(X).mixing_)


def _picard(X: np.ndarray, r: int, **options: Any) -> np.ndarray:
    from picard import Picard  # noqa: PLC0415 - an extra

    return np.asarray(Picard(n_components=r, random_state=0, max_iter=1000, **options).fit(X).mixing_)


WAYS = {
    "fedica LocalICA": lambda X, r: LocalICA(r, random_state=0).fit(X).atoms_,
    "FastICA logcosh": _fastica,
    "FastICA logcosh, eigh": lambda X, r: _fastica(X, r, whiten_solver="eigh"),
    "FastICA cube": lambda X, r: _fastica(X, r, fun="cube"),
    "FastICA cube, eigh": lambda X, r: _fastica(X, r, fun="cube", whiten_solver="eigh"),
    "picard, orthogonal": lambda X, r: _picard(X, r, ortho=True),
    "picard": lambda X, r: _picard(X, r, ortho=False),
}


@task
def fit(way: str, law: str, r: int, n_samples: int, data_sets: int) -> Row:
    """Median time and error over data sets; a small fit first loads what is loaded once."""
    warnings.simplefilter("ignore")  # a solver that does not converge shows in its error
    WAYS[way](draw(1000, 4, 99, law)[0], 4)
    seconds, errors = [], []
    for seed in range(data_sets):
        X, mixing = draw(n_samples, r, seed, law)
        second, found = timed(lambda X=X: WAYS[way](X, r), 7, enough=1.0)  # type: ignore[misc]
        seconds.append(second)
        errors.append(recovery_error(found, mixing).relative)
    return {
        "way": way,
        "sources": law,
        "r": r,
        "n_samples": n_samples,
        "seconds": float(np.median(seconds)),
        "error": float(np.median(errors)),
    }


@task
def write_recording(path: str, gigabytes: float, r: int) -> Row:
    """Write float64 samples of r channels: independent sources, drawn block by block from a pool, mixed."""
    rng = np.random.default_rng(0)
    pool = ((rng.random((r, 200_000)) < 0.1) * rng.standard_normal((r, 200_000))).copy()
    mixing = np.linalg.qr(rng.standard_normal((r, r)))[0]
    n_samples = int(gigabytes * 1e9 / (8 * r))
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_samples, r))
    for start in range(0, n_samples, 200_000):
        n = min(200_000, n_samples - start)
        shifted = np.stack(
            [np.roll(row, shift) for row, shift in zip(pool, rng.integers(200_000, size=r), strict=True)]
        )
        file[start : start + n] = (shifted[:, :n].T * rng.choice([-1.0, 1.0], (n, 1))) @ mixing.T
    file.flush()
    return {}


@task
def fit_recording(path: str, gigabytes: float, r: int) -> Row:
    """Fit a memory-mapped recording."""
    X = np.load(path, mmap_mode="r")
    seconds, local = timed(lambda: LocalICA(r, random_state=0).fit(X), 1)
    rng = np.random.default_rng(0)
    rng.random((r, 200_000)), rng.standard_normal((r, 200_000))
    mixing = np.linalg.qr(rng.standard_normal((r, r)))[0]
    return {"gigabytes": gigabytes, "seconds": seconds, "error": recovery_error(local.atoms_, mixing).relative}


def run_clients(quick: bool) -> list[Row]:
    """Every way on the paper's sources, ours and the fastest of the rest on others, at every size."""
    sizes = [(10, 5_000), (20, 20_000)] if quick else SIZES
    others = ("fedica LocalICA", "FastICA logcosh, eigh")
    return [
        in_process("fit", way=way, law=law, r=r, n_samples=n, data_sets=7 if n <= 5_000 else 3)
        for law in LAWS
        for r, n in sizes
        for way in (WAYS if law == PAPER else others)
    ]


def judge_clients(rows: list[Row]) -> list[Row]:
    """Ours against the fastest other whose error is no more than 1% larger."""
    checks = []
    for law, r, n in dict.fromkeys((row["sources"], row["r"], row["n_samples"]) for row in rows if "sources" in row):
        here = [row for row in rows if (row.get("sources"), row["r"], row["n_samples"]) == (law, r, n)]
        mine = next((row for row in here if row["way"].startswith("fedica")), None)
        others = [row for row in here if mine and row is not mine and row["error"] <= SAME * mine["error"]]
        best = min(others, key=lambda row: row["seconds"], default=None)
        value = best["seconds"] / mine["seconds"] if best and mine else None
        whose = "" if law == PAPER else f", {law} sources"
        name = (
            f"client r = {r}, {n:,} samples{whose}: faster than {best['way'] if best else 'any other'} at equal error"
        )
        wanted = dict(zip(SIZES, WANTED[law], strict=True)).get((r, n))
        checks.append(check(name, value, wanted or 1.0, at_least=True, asked=wanted is not None))
    return checks


def run_recording(quick: bool) -> list[Row]:
    """Fit a recording of 20 GB (4 GB in the quick version), if the disk has room for it."""
    gigabytes, r = (4.0 if quick else 20.0), 32
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 1.1e9 * gigabytes:
            return [{"task": "fit_recording", "gigabytes": gigabytes, "error": "not enough room on the disk"}]
        path = str(Path(folder) / "recording.npy")
        written = in_process("write_recording", path=path, gigabytes=gigabytes, r=r)
        if "error" in written:
            return [{**written, "gigabytes": gigabytes}]
        return [in_process("fit_recording", path=path, gigabytes=gigabytes, r=r)]


def judge_recording(rows: list[Row]) -> list[Row]:
    """Say whether memory is bounded."""
    row = rows[0]
    name = f"a client's mapped recording of {row['gigabytes']:g} GB, memory"
    return [check(name, row.get("peak_mb"), 2048, at_least=False, unit="MB", asked=row["gigabytes"] == 20)]

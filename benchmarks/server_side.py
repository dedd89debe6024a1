"""The server against what people would do instead, and against its own floor, from hundreds to ten million atoms."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Row, check, exponent, in_process, ratio, task, timed
from sklearn.cluster import AgglomerativeClustering, KMeans, SpectralClustering
from threadpoolctl import threadpool_limits

from fedica import AtomArray, Contribution, aggregate
from fedica.arrays import unit
from fedica.blocks import columns_of
from fedica.server.centres import geometric_medians
from fedica.threads import in_order, threads_for_blocks

R_COMPONENTS, ERROR = 20, 0.03
POWER = {"absolute": 1, "squared": 2}


def draw_atoms(n_atoms: int, rng: np.random.Generator, mixing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Atoms (d, R) of clients with 20 atoms each, in random order and signs, and their true labels."""
    r = mixing.shape[1]
    truth = np.argsort(rng.random((n_atoms // r, r)), axis=1).ravel()
    atoms = mixing[:, truth] * rng.choice([-1.0, 1.0], truth.size)
    return unit(atoms + ERROR * rng.standard_normal(atoms.shape)), truth


def draw_mixing(rng: np.random.Generator) -> np.ndarray:
    """Draw an orthonormal mixing matrix."""
    return np.linalg.qr(rng.standard_normal((R_COMPONENTS, R_COMPONENTS)))[0]


def federation(n_atoms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms (d, R), owner of each, true labels."""
    rng = np.random.default_rng(0)
    atoms, truth = draw_atoms(n_atoms, rng, draw_mixing(rng))
    return atoms, np.repeat(np.arange(n_atoms // R_COMPONENTS), R_COMPONENTS), truth


def contributions_of(atoms: np.ndarray) -> list[Contribution]:
    """Cut the atoms into contributions, as they would arrive."""
    blocks = np.split(atoms, atoms.shape[1] // R_COMPONENTS, axis=1)
    return [Contribution(f"client-{k:07d}", block, 5000) for k, block in enumerate(blocks)]


def same_grouping(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two labellings are equal up to the numbering."""
    pairs = np.unique(np.stack([one, other]), axis=1).shape[1]
    return pairs == np.unique(one).size == np.unique(other).size


@task
def ours(n_atoms: int, method: str, affinity: str, given: str, repeats: int) -> Row:
    """Time `aggregate` end to end, on contributions or on an array; a small run first loads what is loaded once."""
    small, small_owner, _ = federation(2000)
    aggregate(AtomArray(small, small_owner), R_COMPONENTS, method=method, affinity=affinity)
    atoms, owner, truth = federation(n_atoms)
    what: Any = contributions_of(atoms) if given == "contributions" else AtomArray(atoms, owner)
    if given == "contributions":
        del atoms
    seconds, result = timed(lambda: aggregate(what, R_COMPONENTS, method=method, affinity=affinity), repeats)
    return {
        "way": f"fedica {method}, {affinity}",
        "given": given,
        "n_atoms": n_atoms,
        "seconds": seconds,
        "right": same_grouping(truth, result.labels),
    }


@task
def dense(n_atoms: int, affinity: str) -> Row:
    """Reduce all of M to all of its eigenvectors (a), then k-means with ten starts; check that our labels are these."""
    atoms, owner, _ = federation(n_atoms)

    def run() -> np.ndarray:
        M = np.sqrt(R_COMPONENTS / n_atoms) * np.abs(atoms.T @ atoms) ** POWER[affinity]
        values, vectors = np.linalg.eigh(M)
        Q = vectors[:, ::-1][:, :R_COMPONENTS] * values[::-1][:R_COMPONENTS]
        return np.asarray(KMeans(R_COMPONENTS, n_init=10, random_state=0).fit(Q).labels_)

    seconds, labels = timed(run, 1)
    found = aggregate(AtomArray(atoms, owner), R_COMPONENTS, method="srf-ica", affinity=affinity).labels
    return {
        "way": f"full eigendecomposition, {affinity}",
        "n_atoms": n_atoms,
        "seconds": seconds,
        "our_labels_equal": same_grouping(labels, found),
    }


@task
def spectral(n_atoms: int, affinity: str) -> Row:
    """Run scikit-learn's SpectralClustering on the same affinity (b)."""
    atoms, _, _ = federation(n_atoms)
    model = SpectralClustering(R_COMPONENTS, affinity="precomputed", n_init=10, random_state=0)
    seconds, _ = timed(lambda: model.fit(np.abs(atoms.T @ atoms) ** POWER[affinity]), 1)
    return {"way": f"SpectralClustering, {affinity}", "n_atoms": n_atoms, "seconds": seconds}


@task
def linkage(n_atoms: int) -> Row:
    """Run Icasso's average linkage on 1 - |cos| (c), called as stabilized-ica calls it."""
    atoms, _, _ = federation(n_atoms)
    model = AgglomerativeClustering(n_clusters=R_COMPONENTS, metric="precomputed", linkage="average")
    seconds, _ = timed(lambda: model.fit(1 - np.abs(atoms.T @ atoms)), 1)
    return {"way": "average linkage (Icasso)", "n_atoms": n_atoms, "seconds": seconds}


@task
def gram_floor(n_atoms: int, repeats: int) -> Row:
    """Time the floor of the squared affinity, the matrix product F F' of its 210 features: the quickest of three ways.

    One call with all BLAS threads; one call with one thread; and blocks of F on as many threads of our own.
    """
    n_features = R_COMPONENTS * (R_COMPONENTS + 1) // 2
    F = np.random.default_rng(0).random((n_features, n_atoms))
    one_call, _ = timed(lambda: F @ F.T, repeats)
    with threadpool_limits(1, user_api="blas"):
        one_thread, _ = timed(lambda: F @ F.T, repeats)
    starts = range(0, n_atoms, 16_384)
    with threads_for_blocks():
        own_threads, _ = timed(
            lambda: sum(in_order(lambda s: F[:, s : s + 16_384] @ F[:, s : s + 16_384].T, starts, work=1e12)), repeats
        )
    return {
        "way": "the Gram product alone",
        "n_atoms": n_atoms,
        "seconds": min(one_call, one_thread, own_threads),
        "all_blas_threads": one_call,
        "one_thread": one_thread,
        "own_threads": own_threads,
    }


@task
def write_atoms(path: str, n_atoms: int) -> Row:
    """Write a file of atoms, one a row."""
    rng = np.random.default_rng(0)
    mixing = draw_mixing(rng)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_atoms, R_COMPONENTS))
    for start in range(0, n_atoms, 200_000):
        block = draw_atoms(min(200_000, n_atoms - start), rng, mixing)[0]
        file[start : start + block.shape[1]] = block.T
    file.flush()
    return {}


@task
def out_of_core(path: str, n_atoms: int) -> Row:
    """Aggregate a memory-mapped file."""
    mapped = np.load(path, mmap_mode="r").T
    owner = np.repeat(np.arange(n_atoms // R_COMPONENTS), R_COMPONENTS)
    seconds, result = timed(lambda: aggregate(AtomArray(mapped, owner), R_COMPONENTS), 1)
    mixing = draw_mixing(np.random.default_rng(0))
    return {
        "way": "fedica consensus, squared",
        "given": "mapped file",
        "n_atoms": n_atoms,
        "seconds": seconds,
        "right": bool(np.abs(mixing.T @ result.mixing).max(axis=0).min() > 0.999),
    }


@task
def medians(n_atoms: int, repeats: int) -> Row:
    """Geometric medians of 20 groups against geom-median, and how far each is above the least sum of distances."""
    from geom_median.numpy import compute_geometric_median  # noqa: PLC0415 - an extra

    atoms, _, truth = federation(n_atoms)
    signed = atoms * np.sign(np.einsum("dR,dR->R", atoms, draw_mixing(np.random.default_rng(0))[:, truth]))
    seconds, found = timed(lambda: geometric_medians(columns_of(signed), truth, R_COMPONENTS), repeats)
    groups = [list(signed[:, truth == a].T) for a in range(R_COMPONENTS)]
    theirs, them = timed(lambda: [compute_geometric_median(g, ftol=1e-10).median for g in groups], repeats)

    def sums(centres: np.ndarray) -> np.ndarray:
        return np.bincount(truth, weights=np.linalg.norm(signed - centres[:, truth], axis=0))

    excess = float((sums(np.stack(them, axis=1)) / sums(found.centres) - 1).max())
    return {"n_atoms": n_atoms, "seconds": seconds, "theirs": theirs, "gap": float(found.gap.max()), "excess": excess}


def run_groups(quick: bool) -> list[Row]:
    """Our server and the three others side by side, in a range of sizes."""
    rows: list[Row] = []
    for n_atoms in (600, 2000) if quick else (600, 2000, 6000):
        for affinity in POWER:
            repeats = 3 if quick else 5
            rows += [
                in_process("ours", n_atoms=n_atoms, method="srf-ica", affinity=affinity, given="contributions",
                           repeats=repeats),
                in_process("dense", n_atoms=n_atoms, affinity=affinity),
                in_process("spectral", n_atoms=n_atoms, affinity=affinity),
            ]  # fmt: skip
        rows.append(in_process("linkage", n_atoms=n_atoms))
    return rows


def judge_groups(rows: list[Row]) -> list[Row]:
    """Say whether the ratios hold at the largest size; they are asked for at 6,000."""
    n = max(row["n_atoms"] for row in rows)
    by_way = {row.get("way", row["task"]): row for row in rows if row["n_atoms"] == n}
    squared, absolute = by_way["fedica srf-ica, squared"], by_way["fedica srf-ica, absolute"]

    def faster(name: str, other: str, than: Row, wanted: float) -> Row:
        return check(f"R = {n:,}: {name}", ratio(by_way[other], than), wanted, at_least=True, asked=n == 6000)

    equal = all(row.get("our_labels_equal", False) for row in rows if row["task"] == "dense")
    return [
        faster("squared, faster than a full eigendecomposition", "full eigendecomposition, squared", squared, 60),
        faster("squared, faster than SpectralClustering", "SpectralClustering, squared", squared, 20),
        faster("squared, faster than average linkage", "average linkage (Icasso)", squared, 10),
        faster("absolute, faster than SpectralClustering", "SpectralClustering, absolute", absolute, 5),
        check("labels equal to those of the dense computation (1: all)", float(equal), 1, at_least=True, unit=""),
    ]


def run_scale(quick: bool) -> list[Row]:
    """Aggregate a hundred thousand and a million atoms in memory."""
    large = 200_000 if quick else 1_000_000
    runs = product((large // 10, large), ("srf-ica", "consensus"), ("array", "contributions"))
    return [
        in_process("gram_floor", n_atoms=large, repeats=3),
        *(in_process("ours", n_atoms=n, method=m, affinity="squared", given=g, repeats=3) for n, m, g in runs),
        in_process("gram_floor", n_atoms=large, repeats=3),
        in_process("ours", n_atoms=large // 10, method="srf-ica", affinity="absolute", given="array", repeats=1),
    ]


def judge_scale(rows: list[Row]) -> list[Row]:
    """Growth, memory, and the distance from the floor."""
    large = max(row["n_atoms"] for row in rows)
    small = large // 10
    found = {(row.get("way"), row.get("given"), row["n_atoms"]): row for row in rows if "seconds" in row}
    floor = min(row["seconds"] for row in rows if row["task"] == "gram_floor" and "seconds" in row)
    consensus = [found.get(("fedica consensus, squared", "contributions", n), {}) for n in (small, large)]
    srf = [found.get(("fedica srf-ica, squared", "array", n), {}) for n in (small, large)]
    absolute = found.get(("fedica srf-ica, absolute", "array", small), {})
    grown = None
    if all("seconds" in c for c in consensus):
        grown = exponent((small, consensus[0]["seconds"]), (large, consensus[1]["seconds"]))
    asked = large == 1_000_000
    lines = [
        check(f"R = {small:,}: absolute, memory", absolute.get("peak_mb"), 2048, at_least=False, unit="MB"),
        check(f"R = {small:,}: squared, faster than absolute", ratio(absolute, srf[0]), 30, at_least=True),
        check(f"R = {large:,}: consensus, time", consensus[1].get("seconds"), 20, at_least=False, unit="s"),
        check(f"R = {large:,}: consensus, memory", consensus[1].get("peak_mb"), 2048, at_least=False, unit="MB"),
        check(f"growth of consensus from {small:,} to {large:,}", grown, 1.1, at_least=False, unit="(exponent)"),
        check(
            f"R = {large:,}: squared srf-ica, over its Gram product ({floor:.2f} s)",
            srf[1]["seconds"] / floor if "seconds" in srf[1] else None,
            8,
            at_least=False,
        ),
    ]
    return lines if asked else [{**line, "verdict": "-"} for line in lines]


def run_out_of_core(quick: bool) -> list[Row]:
    """Ten million atoms in a file of 1.6 GB."""
    n_atoms = 1_000_000 if quick else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "atoms.npy")
        written = in_process("write_atoms", path=path, n_atoms=n_atoms)
        return [written if "error" in written else in_process("out_of_core", path=path, n_atoms=n_atoms)]


def judge_out_of_core(rows: list[Row]) -> list[Row]:
    """Say whether memory is bounded."""
    row = rows[0]
    name = f"R = {row['n_atoms']:,} out of core, memory"
    return [check(name, row.get("peak_mb"), 2048, at_least=False, unit="MB", asked=row["n_atoms"] == 10_000_000)]


def run_medians(quick: bool) -> list[Row]:
    """Geometric medians side by side."""
    sizes = (2000, 6000) if quick else (2000, 6000, 20_000)
    return [in_process("medians", n_atoms=n, repeats=3) for n in sizes]

"""The same federation in memory, in a mapped file, from an iterable and on a Dask cluster of two processes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from measuring import Row, check, in_process, task
from server_side import R_COMPONENTS, contributions_of, federation

from fedica import AtomArray, aggregate


@task
def places(n_atoms: int) -> Row:
    """Largest difference of the mixing matrix from that of a list of contributions, and whether labels are equal."""
    import dask.array as da  # noqa: PLC0415 - an extra
    from distributed import Client, LocalCluster  # noqa: PLC0415

    atoms, owner, _ = federation(n_atoms)
    contributions = contributions_of(atoms)
    reference = aggregate(contributions, R_COMPONENTS)
    row: Row = {"n_atoms": n_atoms}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "atoms.npy"
        np.save(path, atoms.T)
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
            Client(cluster),
        ):
            given = {
                "array": AtomArray(atoms, owner),
                "mapped file": AtomArray(np.load(path, mmap_mode="r").T, owner),
                "iterable": iter(contributions),
                "Dask cluster": AtomArray(da.from_array(atoms, chunks=(R_COMPONENTS, n_atoms // 7)), owner),
            }
            for name, what in given.items():
                result = aggregate(what, R_COMPONENTS)
                row[name] = float(np.abs(result.mixing - reference.mixing).max())
                row["labels_equal"] = row.get("labels_equal", True) and bool((result.labels == reference.labels).all())
    return row


def run_agreement(quick: bool) -> list[Row]:
    """Small enough for memory, large enough for blocks, a panel and a sample."""
    return [in_process("places", n_atoms=60_000)]


def judge_agreement(rows: list[Row]) -> list[Row]:
    """Say whether all places agree."""
    names = ("array", "mapped file", "iterable", "Dask cluster")
    worst = max((rows[0][n] for n in names), default=None) if "error" not in rows[0] else None
    return [check("largest difference between the places where atoms may lie", worst, 1e-8, at_least=False, unit="")]

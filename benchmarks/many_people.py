"""Group ICA of more maps than fit in memory: a mapped file of single precision; time, memory, passes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedica import AtomArray, aggregate
from fedica.arrays import Array
from fedica.blocks.arrays import ArrayBlocks
from fedica.matching import match

N_LARGE, N_LARGE_MAPS, N_LARGE_VOXELS = 20, 100, 60_000
"""Components; maps of each person, and their voxels."""
FLOOR = 1.0
"""Noise variance along a principal direction, where that of a component is 20."""


def large_rows(people: list[int], folder: Path, max_mb: int | None = None) -> list[dict[str, Any]]:
    """Return what each number of people takes, each in a process of its own; the file is deleted afterwards.

    With ``max_mb`` the process gets no more memory of its own; pages of the mapped file are not its own.
    """
    rows = []
    for n_people in people:
        command = [sys.executable, __file__, str(n_people), str(folder)]
        command = command if max_mb is None else ["prlimit", f"--data={max_mb * 1_000_000}", *command]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(run.stdout.splitlines()[-1]))
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def truth() -> Array:
    """Return sparse components: (d, r), orthonormal."""
    rng = np.random.default_rng(0)
    shape = (N_LARGE_VOXELS, N_LARGE)
    return np.linalg.qr(rng.standard_normal(shape) * (0.01 + (rng.random(shape) < 0.05)))[0]


def write_maps(path: Path, n_people: int, components: Array) -> tuple[list[Array], list[float]]:
    """Write everybody's maps, one per row, and return the strengths; one person at a time is in memory."""
    variances = np.where(np.arange(N_LARGE_MAPS) < N_LARGE, 20.0, np.linspace(3.0, 1.1, N_LARGE_MAPS)) * FLOOR
    header = {"descr": "<f4", "fortran_order": False, "shape": (n_people * N_LARGE_MAPS, N_LARGE_VOXELS)}
    grams = []
    with path.open("wb") as file:  # not mapped: its pages would count as memory of this process
        np.lib.format.write_array_header_2_0(file, header)
        for k in range(n_people):
            rng = np.random.default_rng((1, k))
            own = rng.standard_normal((N_LARGE_MAPS, N_LARGE_VOXELS), dtype=np.float32)
            own /= np.float32(np.sqrt(N_LARGE_VOXELS))
            own[:N_LARGE] += components.T.astype(np.float32)  # as far from the truth as noise of the same length
            turn = np.linalg.qr(rng.standard_normal((N_LARGE_MAPS, N_LARGE_MAPS)))[0].astype(np.float32)
            own = turn @ own  # any rotation will do
            norms = np.linalg.norm(own, axis=1)
            (own / norms[:, None]).tofile(file)
            gram = (turn * variances) @ turn.T * np.outer(norms, norms)
            grams.append((gram + gram.T).astype(np.float64) / 2)
    return grams, [FLOOR] * n_people


def measure(n_people: int, folder: Path) -> dict[str, Any]:
    """Make the file, aggregate it, and return time, memory and passes."""
    path, components = folder / f"maps-{n_people}.npy", truth()
    try:
        start = time.perf_counter()
        grams, floors = write_maps(path, n_people, components)
        written = time.perf_counter() - start
        blocks_read = _count_passes()
        array = AtomArray(
            np.load(path, mmap_mode="r").T,
            np.repeat(np.arange(n_people), N_LARGE_MAPS),
            independence="features",
            grams=grams,
            noise_floors=floors,
        )
        start, at_work = time.perf_counter(), time.process_time()
        result = aggregate(array, N_LARGE, method="group")
        seconds, at_work, size = time.perf_counter() - start, time.process_time() - at_work, path.stat().st_size
    finally:
        path.unlink(missing_ok=True)
    return {
        "people": n_people,
        "bytes": size,
        "seconds_to_write": written,
        "seconds": seconds,
        "core_seconds": at_work,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "passes": len(blocks_read),
        "likeness": float(match(result.mixing, components).cosines.mean()),
    }


def _count_passes() -> list[tuple[int, int]]:
    """Return a list to which every pass over an array of all voxels adds its shape."""
    passes: list[tuple[int, int]] = []
    plain = ArrayBlocks.parts

    def counting(self: ArrayBlocks, *arguments: Any, **options: Any) -> Any:
        if self.shape[0] == N_LARGE_VOXELS and self.axis == 1:
            passes.append(self.shape)
        return plain(self, *arguments, **options)

    ArrayBlocks.parts = counting  # type: ignore[method-assign]
    return passes


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), Path(sys.argv[2]))))

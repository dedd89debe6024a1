"""Group ICA of more maps than fit in memory, in one mapped file or in everybody's own: time, memory, disk, passes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica import AtomArray, Contribution, aggregate, write_contribution
from fedica.arrays import Array
from fedica.blocks import spool
from fedica.blocks.arrays import ArrayBlocks
from fedica.matching import match
from fedica.workflow.combine import combine

N_LARGE, N_LARGE_MAPS, N_LARGE_VOXELS = 20, 100, 60_000
"""Components; maps of each person, and their voxels."""
FLOOR = 1.0
"""Noise variance along a principal direction, where that of a component is 20."""


def large_rows(
    people: list[int], folder: Path, max_mb: int | None = None, *, by_command: bool = False
) -> list[dict[str, Any]]:
    """Return what each number of people takes, each in a process of its own; the files are deleted afterwards.

    With ``max_mb`` the process gets no more memory of its own; pages of a mapped file are not its own. by_command : the
    maps come as contributions, which are combined as ``fedica aggregate`` does.
    """
    rows = []
    for n_people in people:
        with TemporaryDirectory(dir=folder) as own:
            if by_command:
                write_inbox(Path(own) / "inbox", n_people, truth())
            command = [sys.executable, __file__, "command" if by_command else "array", str(n_people), own]
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


def person(k: int, components: Array) -> tuple[NDArray[np.float32], Array]:
    """Return a person's maps, one per row, and their strengths."""
    variances = np.where(np.arange(N_LARGE_MAPS) < N_LARGE, 20.0, np.linspace(3.0, 1.1, N_LARGE_MAPS)) * FLOOR
    rng = np.random.default_rng((1, k))
    own = rng.standard_normal((N_LARGE_MAPS, N_LARGE_VOXELS), dtype=np.float32)
    own /= np.float32(np.sqrt(N_LARGE_VOXELS))
    own[:N_LARGE] += components.T.astype(np.float32)  # as far from the truth as noise of the same length
    turn = np.linalg.qr(rng.standard_normal((N_LARGE_MAPS, N_LARGE_MAPS)))[0].astype(np.float32)
    own = turn @ own  # any rotation will do
    norms = np.linalg.norm(own, axis=1)
    gram = (turn * variances) @ turn.T * np.outer(norms, norms)
    return own / norms[:, None], (gram + gram.T).astype(np.float64) / 2


def write_maps(path: Path, n_people: int, components: Array) -> tuple[list[Array], list[float]]:
    """Write everybody's maps, one per row, and return the strengths; one person at a time is in memory."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (n_people * N_LARGE_MAPS, N_LARGE_VOXELS)}
    grams = []
    with path.open("wb") as file:  # not mapped: its pages would count as memory of this process
        np.lib.format.write_array_header_2_0(file, header)
        for k in range(n_people):
            maps, gram = person(k, components)
            maps.tofile(file)
            grams.append(gram)
    return grams, [FLOOR] * n_people


def write_inbox(folder: Path, n_people: int, components: Array) -> None:
    """Write everybody's contribution, in single precision."""
    folder.mkdir()
    for k in range(n_people):
        maps, gram = person(k, components)
        sent = Contribution(f"person-{k:04d}", maps.T, 1, independence="features", gram=gram, noise_floor=FLOOR)
        write_contribution(sent, folder / f"{sent.client}.safetensors", float32=True)


def measure_array(n_people: int, folder: Path) -> dict[str, Any]:
    """Make the file, aggregate it, and return time, memory and passes."""
    path, components = folder / "maps.npy", truth()
    grams, floors = write_maps(path, n_people, components)
    array = AtomArray(
        np.load(path, mmap_mode="r").T,
        np.repeat(np.arange(n_people), N_LARGE_MAPS),
        independence="features",
        grams=grams,
        noise_floors=floors,
    )
    passes, clock = _count_passes(), _Clock()
    result = aggregate(array, N_LARGE, method="group")
    return {
        **clock.row(n_people, result.mixing, components),
        "bytes": path.stat().st_size,
        "passes": len(passes),
    }


def measure_command(n_people: int, folder: Path) -> dict[str, Any]:
    """Combine the contributions in the inbox, and return time, memory, passes, and all that lies on the disk."""
    passes, temporary, clock = _count_passes(), _watch_temporary_files(), _Clock()
    result = combine(folder / "inbox", folder / "result", n_components=N_LARGE, method="group").aggregate
    row = clock.row(n_people, result.mixing, truth())
    sent, written = ([file.stat().st_size for file in (folder / x).iterdir()] for x in ("inbox", "result"))
    return {
        **row,
        "bytes": sum(sent),
        "temporary_bytes": sum(os.fstat(descriptor).st_size for descriptor in temporary),
        "result_bytes": sum(written),
        "passes": len(passes) + 1,  # the files themselves are read once
    }


class _Clock:
    """From here on."""

    def __init__(self) -> None:
        self.wall, self.work = time.perf_counter(), time.process_time()

    def row(self, n_people: int, mixing: Array, components: Array) -> dict[str, Any]:
        """Return what it took until now, and how near the result is to the truth."""
        return {
            "people": n_people,
            "seconds": time.perf_counter() - self.wall,
            "core_seconds": time.process_time() - self.work,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            "likeness": float(match(mixing, components).cosines.mean()),
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


def _watch_temporary_files() -> list[int]:
    """Return a list to which every temporary file for atoms adds a descriptor; it keeps the file as it was last."""
    files: list[int] = []
    plain = spool.TemporaryFile

    def watched() -> Any:
        file = plain()
        files.append(os.dup(file.fileno()))
        return file

    spool.TemporaryFile = watched  # type: ignore[assignment]
    return files


if __name__ == "__main__":
    measured = {"array": measure_array, "command": measure_command}[sys.argv[1]]
    print(json.dumps(measured(int(sys.argv[2]), Path(sys.argv[3]))))

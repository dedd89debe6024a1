"""Fit a memory-mapped recording that is larger than memory, and measure what that takes.

    python benchmarks/large_client.py --gigabytes 20

Writes a recording of independent Laplace sources, mixed, block by block; fits it in a process of its own; prints one
JSON row: size, seconds, passes, the largest resident memory of that process (pages of the mapped file included), and
the error against the true mixing matrix. The file is removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedica.arrays import unit
from fedica.local import LocalICA
from fedica.matching import match

BLOCK_ROWS = 2**16


def mixing_matrix(d: int) -> np.ndarray:
    """Draw a mixing matrix (d, d) of condition number 10."""
    left, _, right = np.linalg.svd(np.random.default_rng(1).standard_normal((d, d)))
    return np.asarray((left * np.geomspace(1, 10, d)) @ right)


def write_recording(path: Path, gigabytes: float, d: int) -> int:
    """Write a .npy file of float32, (n, d), and return n; never more than a block is in memory."""
    n = int(gigabytes * 1e9 / (4 * d))
    rng, mixing = np.random.default_rng(0), mixing_matrix(d).astype(np.float32)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, d)}
        np.lib.format.write_array_header_2_0(file, header)
        for start in range(0, n, BLOCK_ROWS):
            rows = min(BLOCK_ROWS, n - start)
            # Laplace: the difference of two exponential numbers, drawn in single precision.
            sources = rng.standard_exponential((rows, d), dtype=np.float32)
            sources -= rng.standard_exponential((rows, d), dtype=np.float32)
            file.write((sources @ mixing.T + 5).astype("<f4").tobytes())
    return n


def fit_recording(path: Path, solver: str) -> dict[str, object]:
    """Fit the file, memory-mapped, in this process, and say what it took."""
    recording = np.load(path, mmap_mode="r")
    n, d = recording.shape
    before = peak_gigabytes()
    began = time.perf_counter()
    local = LocalICA(solver=solver, random_state=0).fit(recording)
    seconds = time.perf_counter() - began
    truth = unit(mixing_matrix(d))
    found = match(local.atoms_, truth)
    error = np.linalg.norm(local.atoms_ * found.signs - truth[:, found.labels]) / np.sqrt(d)
    return {
        "gigabytes": round(recording.nbytes / 1e9, 2),
        "n_samples": n,
        "n_features": d,
        "solver": solver,
        "seconds": round(seconds, 1),
        "passes": local.n_passes_,
        "peak_gigabytes": round(peak_gigabytes(), 2),
        "peak_before_gigabytes": round(before, 2),
        "error": float(f"{error:.3g}"),
    }


def peak_gigabytes() -> float:
    """Return the largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e9


def main() -> None:
    """Write, fit in a fresh process, print its row, and remove the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the file is written")
    parser.add_argument("--fit", type=Path, help="fit this file and print its row; used by the parent process")
    options = parser.parse_args()
    if options.fit is not None:
        print(json.dumps(fit_recording(options.fit, options.solver)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "recording.npy"
        write_recording(path, options.gigabytes, options.features)
        subprocess.run([sys.executable, __file__, "--fit", str(path), "--solver", options.solver], check=True)


if __name__ == "__main__":
    main()

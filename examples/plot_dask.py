"""
Data larger than memory: Dask
=============================

A client has an archive of forty exposures of the same scenes, about one gigabyte when unpacked. It is never unpacked as
a whole. A Dask array describes how to compute blocks of rows; ``LocalICA`` requests sums over blocks, and each block is
computed, summed and discarded.
"""

# %%
# The archive
# -----------
# Every exposure shows a different part of the six photographs, mixed by the camera's unknown matrix, with independent
# noise. A block holds the differences of neighbouring pixels of one exposure. Nothing is computed yet.

import threading
import time

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import psutil

from fedica import LocalICA
from fedica.evaluate import recovery_error
from fedica.simulate.photographs import differences, load_photographs, photograph_federation

scene = photograph_federation(load_photographs(), condition=3.0, random_state=0)
N_EXPOSURES, SIDE = 40, 500


def exposure(number):
    """Simulate one exposure and return its differences: (2 * 500 * 499, 6)."""
    rng = np.random.default_rng(number)
    top, left = rng.integers(0, 512 - SIDE, size=2)
    seen = scene.mixtures[:, top : top + SIDE, left : left + SIDE]
    return differences(seen + 0.01 * rng.standard_normal(seen.shape))


shape = (2 * SIDE * (SIDE - 1), 6)
blocks = [da.from_delayed(dask.delayed(exposure)(k), shape=shape, dtype=float) for k in range(N_EXPOSURES)]
archive = da.concatenate(blocks)
print(archive)
print(f"{archive.nbytes / 1e9:.2f} GB in {archive.numblocks[0]} blocks of {archive.chunksize[0]:,} rows")

# %%
# The fit and its memory
# ----------------------
# ``fit`` accepts the Dask array directly. Here it runs on two threads of this machine; with
# ``dask.distributed.Client(address)`` the same line runs on the workers that hold the blocks, and only sums are
# transferred. A separate thread records the memory use.


class Watch(threading.Thread):
    """Record the memory of this process every hundredth of a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.done, self.seconds, self.megabytes = threading.Event(), [], []

    def run(self):
        """Record until stopped."""
        start = time.perf_counter()
        while not self.done.wait(0.01):
            self.seconds.append(time.perf_counter() - start)
            self.megabytes.append(psutil.Process().memory_info().rss / 1e6)


watch = Watch()
before = psutil.Process().memory_info().rss / 1e6
watch.start()
with dask.config.set(scheduler="threads", num_workers=2):
    local = LocalICA(n_components=6, random_state=0).fit(archive)
watch.done.set()
watch.join()
contribution = local.contribution("archive")
print(contribution)
print(f"read {local.n_passes_} times, in {watch.seconds[-1]:.1f} s")
print(f"error {recovery_error(contribution.atoms, scene.mixing).relative:.4f}; {contribution.atoms.nbytes} bytes leave")

# %%
# Memory use during the fit
# -------------------------

held = np.array(watch.megabytes) - before
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(watch.seconds, np.maximum(held, 0), color="#0072B2", label=f"during the fit: at most {held.max():.0f} MB")
ax.axhline(archive.nbytes / 1e6, color="#D55E00", linestyle="--", label="the whole archive")
ax.axhline(archive.nbytes / N_EXPOSURES / 1e6, color="#999999", linestyle=":", label="one block")
ax.set(xlabel="seconds", ylabel="megabytes", title="Memory of the process during the fit", ylim=(0, 1300))
ax.legend(loc="center right")
plt.show()

# %%
# Findings and limits
# -------------------
# Memory use depends on the size of a block and on the number of threads, not on the number of exposures. The result is
# identical to the last bit for any number of threads or workers, because sums are taken in a fixed order. There are two
# limits. Every pass recomputes the blocks; if that is expensive, keep them (``archive.persist()``) or write them to
# disk. And more exposures do not add information beyond a point: forty noisy views of six photographs determine the
# matrix only as accurately as the statistics of six pictures allow.

"""
More data than memory: Dask
===========================

A client has an archive: forty exposures of the same scenes, a gigabyte of numbers once they are unpacked. It
never unpacks them all. A Dask array is a recipe for blocks of rows; ``LocalICA`` asks for sums over blocks, the blocks
are made, summed up and forgotten, and what is left is a few numbers.
"""

# %%
# The archive
# -----------
# Every exposure shows the six photographs from another corner, mixed by the camera's unknown matrix, with noise of
# its own. A block is what one exposure gives: differences of neighbouring pixels. Nothing is computed yet.

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
    """Take one picture and return its differences: (2 * 500 * 499, 6)."""
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
# The fit, and what it holds meanwhile
# ------------------------------------
# ``fit`` takes the Dask array as it is. Here it runs on two threads of this machine; with
# ``dask.distributed.Client(address)`` the same line runs where the blocks lie, and only sums travel. A second
# thread watches the memory.


class Watch(threading.Thread):
    """Note the memory of this process every hundredth of a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.done, self.seconds, self.megabytes = threading.Event(), [], []

    def run(self):
        """Look until told to stop."""
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
# A gigabyte read, a part of it held
# ----------------------------------

held = np.array(watch.megabytes) - before
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(watch.seconds, np.maximum(held, 0), color="#0072B2", label=f"held during the fit: at most {held.max():.0f} MB")
ax.axhline(archive.nbytes / 1e6, color="#D55E00", linestyle="--", label="the archive, had it been loaded")
ax.axhline(archive.nbytes / N_EXPOSURES / 1e6, color="#999999", linestyle=":", label="one block")
ax.set(xlabel="seconds", ylabel="megabytes", title="Memory of the process while it fits", ylim=(0, 1300))
ax.legend(loc="center right")
plt.show()

# %%
# What this shows, and where it fails
# -----------------------------------
# The memory that is held depends on the size of a block and on the number of threads, not on the number of
# exposures. The result is the same to the last bit for any number of threads or workers: sums are taken in a fixed
# order. Two things stay open. Every pass makes the blocks anew; where that is dear, keep them
# (``archive.persist()``) or write them to disk. And more data of the same kind is not more knowledge: forty noisy
# views of six photographs pin down the matrix of *these* photographs, no better than the statistics of six pictures
# allow.

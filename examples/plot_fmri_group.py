"""
Group ICA of fMRI: twelve runs, one message each, and every run's own maps
===========================================================================

One axial slice of a person who looked at pictures (Haxby et al., 2001), in twelve runs. Here every run is a client. No
run alone separates brain networks well: 121 scans are few. But the *span* of a run's maps is right, so the clients send
their maps with *strengths*, and the server pools the spans and runs one ICA: ``method="group"``. Dual regression then
gives each run its own time courses and maps of the group's components.
"""

# %%
# The clients
# -----------
# Every client removes the trend of each voxel within the brain and scales it to variance one. All use the same voxels:
# in a study they come from a mask that everybody has.

import warnings

import matplotlib.pyplot as plt
import nibabel
import numpy as np
from scipy.signal import detrend

from fedica import LocalICA, aggregate
from fedica.datasets import fetch_fmri_slice
from fedica.local import dual_regression
from fedica.matching import match

images = [np.asarray(nibabel.load(path).dataobj, dtype=float)[:, :, 0] for path in fetch_fmri_slice().paths]
mean = np.mean([image.mean(axis=-1) for image in images], axis=0)
varies = np.min([image.std(axis=-1) for image in images], axis=0) > 0
brain = (mean > 0.25 * mean.max()) & varies
runs = [detrend(image[brain].T, axis=0) for image in images]
runs = [run / run.std(axis=0) for run in runs]
print(f"{len(runs)} runs of {runs[0].shape[0]} scans, {runs[0].shape[1]} voxels")

# %%
# One message
# -----------
# A client sends more maps than there are components, here 30, with their strengths: the Gram matrix of their time
# courses and the noise floor. That is the covariance of its data at rank 30, whatever rotation its ICA found: more than
# directions alone, so a client must ask for it. The ICA stops early, because the rotation drops out.

warnings.filterwarnings("ignore", message=".*max_iter")
local = LocalICA(30, independence="features", max_iter=30, random_state=0)
contributions = [local.fit(run).contribution(f"run-{k + 1:02}", strengths=True) for k, run in enumerate(runs)]
group = aggregate(contributions, 8, method="group")
print(group)
print(*(f"{row.client}: {row.verdict}" for row in group.trust), sep="\n")

# %%
# How far can it be trusted? The same from the odd and from the even runs, which share no scan, beside matching maps:

for method in ("group", "consensus"):
    halves = [aggregate(contributions[k::2], 8, method=method).mixing for k in (0, 1)]
    print(f"{method}: likeness of the two halves {match(*halves).cosines.mean():.2f}")

# %%
# Back to the clients
# -------------------
# Dual regression: every scan of a run is regressed on the group's maps, which gives time courses, and every voxel on
# these, which gives the run's own maps with z-values. ``fedica apply RESULT bold.nii.gz --maps own.nii.gz`` does the
# same from the command line.

own = [dual_regression(run, group.mixing) for run in runs]


def picture(values):
    """Put the values of the voxels into the slice; outside the brain there is nothing."""
    shown = np.full(brain.shape, np.nan)
    shown[brain] = values
    return shown.T[::-1]


n_shown, which = 4, (0, 5)
figure, axes = plt.subplots(4, n_shown, figsize=(10, 6), layout="constrained", height_ratios=[1, 1, 1, 0.8])
for i in range(n_shown):
    scores = group.mixing[:, i] / group.mixing[:, i].std()
    rows = [scores, *(own[k].z[:, i] for k in which)]
    for ax, values in zip(axes[:, i], rows, strict=False):
        image = ax.imshow(picture(values), cmap="RdBu_r", vmin=-6, vmax=6, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
    axes[0, i].set_title(f"component {i}\n{group.support[i]} of {len(runs)} runs have it", fontsize=10)
    for k, colour in zip(which, ("#0072B2", "#D55E00"), strict=True):
        course = own[k].time_courses[:, i]
        axes[3, i].plot(2.5 * np.arange(course.size), course / course.std(), color=colour, linewidth=1)
    axes[3, i].set(xlabel="seconds", yticks=[], ylim=(-4, 4))
    axes[3, i].spines[["top", "right", "left"]].set_visible(False)
for ax, label in zip(axes[:, 0], ["group", *(f"run {k + 1}, own map" for k in which), "time courses"], strict=True):
    ax.set_ylabel(label)
axes[3, 0].legend([f"run {k + 1}" for k in which], frameon=False, fontsize=8, loc="upper left", ncols=2)
figure.colorbar(image, ax=axes[:3], label="z", shrink=0.6)
plt.show()

# %%
# What each component explains
# ----------------------------
# Strengths tell how much of each run's variance a component explains.

for i, share in enumerate(group.explained_in_all):
    each = group.explained_variance[:, i]
    print(f"component {i}: {share:.1%} of the variance; of single runs {each.min():.1%} to {each.max():.1%}")

"""
EEG of five people, five clients
================================

Five people looked at flickering symbols while eight electrodes recorded their EEG. EEG is among the most private data
that there is; here nobody's leaves its owner. Each person's computer runs ICA by itself and sends seven maps.
What do the five have in common, and what does a sixth person, who has only a few seconds of data, gain from it?
"""

# %%
# Five recordings
# ---------------
# 100 trials of 10.5 s for each person, already filtered by those who published them. Everybody does two things first,
# by one rule: trials in which something moved are dropped, those with a peak three times as high as the person's median
# peak; and the average over the electrodes is subtracted, so that maps do not depend on where the reference was.
# Eight electrodes so leave seven components.

import matplotlib.pyplot as plt
import mne
import numpy as np

from fedica import LocalICA, aggregate
from fedica.datasets import fetch_eeg_five
from fedica.matching import match

people = fetch_eeg_five()
recording = people["sub-01"]
channels, sfreq = recording.channels, recording.sfreq


def calm_trials(recording):
    """Return the trials without great movements, on the average reference: (n_trials, 2520 samples, 8 channels)."""
    trials = recording.data.reshape(100, -1, len(recording.channels)).astype(float)
    peaks = np.abs(trials).max(axis=(1, 2))
    calm = trials[peaks < 3 * np.median(peaks)]
    return calm - calm.mean(axis=2, keepdims=True)


trials = {name: calm_trials(recording) for name, recording in people.items()}
for name, kept in trials.items():
    print(f"{name}: {len(kept)} of 100 trials, {len(kept) * 10.5 / 60:.0f} minutes")

# %%
# One message each
# ----------------
# A contribution is 56 numbers. The features carry the names of the electrodes, so nobody's can be confused. Nobody has
# to tell the server how many components there are: most clients agree on it.


def fit(rows):
    """Find seven components of eight electrodes. rows : (..., 8)."""
    return LocalICA(7, random_state=0).fit(rows.reshape(-1, len(channels)))


contributions = [fit(kept).contribution(name, features=channels) for name, kept in trials.items()]
result = aggregate(contributions)
print(result)

# %%
# What they have in common
# ------------------------
# The first row is the aggregate, a column a component; below it are the maps that each person's computer found, in the
# sign of the aggregate. The number is the angle between the two; a pale map was not taken. The eyes, below Fpz, are the
# clearest agreement: four of five people blink alike to within a few degrees. The visual cortex and the muscles at both
# ears are found in most, with angles of 10 to 30 degrees.

places = mne.channels.make_standard_montage("biosemi64").get_positions()["ch_pos"]
xyz = np.array([places[name] for name in channels])
inclination = np.arccos(xyz[:, 2] / np.linalg.norm(xyz, axis=1))  # from the top of the head
across = inclination / np.linalg.norm(xyz[:, :2], axis=1)
x, y = xyz[:, 0] * across, xyz[:, 1] * across  # seen from above, the ears at pi / 2
found = [match(contribution.atoms, result.mixing) for contribution in contributions]
figure, axes = plt.subplots(6, 7, figsize=(10, 9), layout="constrained")


def draw(ax, values, *, taken):
    """Draw a head from above, and the weight of each electrode: nothing was measured in between."""
    limit = np.abs(values).max()
    turn = np.linspace(0, 2 * np.pi, 100)
    ax.plot(1.75 * np.cos(turn), 1.75 * np.sin(turn), color="#888888", linewidth=0.8)
    ax.plot([-0.25, 0, 0.25], [1.73, 2.0, 1.73], color="#888888", linewidth=0.8)
    faint = 1.0 if taken else 0.15
    ax.scatter(x, y, c=values, s=110, cmap="RdBu_r", vmin=-limit, vmax=limit, edgecolors="#555555", alpha=faint)
    ax.set(xlim=(-2.2, 2.2), ylim=(-2.5, 2.2), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)


for a in range(result.n_components):
    draw(axes[0, a], result.mixing[:, a], taken=True)
    axes[0, a].set_title(f"component {a}\n{result.support[a]} of 5", fontsize=9)
    for k, (contribution, matching) in enumerate(zip(contributions, found, strict=True)):
        i = int(np.flatnonzero(matching.labels == a)[0])
        draw(axes[1 + k, a], contribution.atoms[:, i] * matching.signs[i], taken=result.trust.has[k, a])
        axes[1 + k, a].set_xlabel(f"{result.trust.angles[k, a]:.0f}°", fontsize=8)
for ax, name in zip(axes[:, 0], ["aggregate", *people], strict=True):
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
figure.suptitle("Seven components of five people")

# %%
# Whom to trust
# -------------
# The theory asks for one mixing matrix for all. Five heads are not one head: skulls, caps and cortices differ, and the
# server says plainly that people disagree. Is that noise of the fits, or are the people different? Each person's
# recording cut in two halves tells: as a rule the halves agree better with one another than with other people. So
# "outlying" means *different* here, not *bad*; a verdict is a reason to look, and the reason stands beside it.

for row in result.trust:
    print(f"{row.client}: {row.verdict}, {row.reason}")


def likeness(atoms, reference):
    """Mean absolute cosine of the best one-to-one match; 1: the same maps."""
    return float(match(atoms, reference).cosines.mean())


halves = {name: [fit(half).atoms_ for half in np.array_split(kept, 2)] for name, kept in trials.items()}
within = [likeness(first, second) for first, second in halves.values()]
between = [likeness(a.atoms, b.atoms) for a in contributions for b in contributions if a.client < b.client]
print(f"two halves of one person: {np.mean(within):.2f} ({min(within):.2f} to {max(within):.2f})")
print(f"two people:               {np.mean(between):.2f} ({min(between):.2f} to {max(between):.2f})")

# %%
# A new person with little data
# -----------------------------
# Each person in turn is new: the other four make the aggregate, and the new one has a few seconds. Which is nearer to
# what a long recording of that person will show one day, their own short fit or the matrix of the four strangers? The
# judge is a fit on the second half of the person's trials; short pieces come from the first half, four for each length.
# Even maps drawn at random are alike to some extent, since the best match is taken: that is the dotted line.

seconds = (2, 5, 10, 20, 30, 60, 120, 300)
own, strangers = np.empty((5, len(seconds))), np.empty(5)
for k, (name, kept) in enumerate(trials.items()):
    judge = halves[name][1]
    others = aggregate([c for c in contributions if c.client != name], 7)
    strangers[k] = likeness(others.mixing, judge)
    first_half = np.array_split(kept, 2)[0].reshape(-1, len(channels))
    for j, length in enumerate(seconds):
        n = int(length * sfreq)
        starts = np.linspace(0, len(first_half) - n, 4).astype(int)
        own[k, j] = np.mean([likeness(fit(first_half[start : start + n]).atoms_, judge) for start in starts])

rng = np.random.default_rng(0)
drawn = rng.standard_normal((200, 2, 8, 7))
drawn -= drawn.mean(axis=2, keepdims=True)
drawn /= np.linalg.norm(drawn, axis=2, keepdims=True)
chance = np.mean([likeness(one, other) for one, other in drawn])

figure, ax = plt.subplots(figsize=(7.5, 4.3), layout="constrained")
ax.plot(seconds, own.T, color="#999999", linewidth=0.8)
ax.plot(seconds, own.mean(axis=0), color="#D55E00", marker="o", linewidth=2, label="own fit on so many seconds")
ax.axhline(strangers.mean(), color="#0072B2", linewidth=2, label="four strangers' aggregate, no data of one's own")
ax.scatter([seconds[0] * 0.85] * 5, strangers, color="#0072B2", s=14, clip_on=False)
ax.axhline(chance, color="black", linestyle=":", label="maps drawn at random")
ax.set(xscale="log", xlabel="seconds of data of the new person", ylabel="likeness to that person's later data")
ax.set_xticks(seconds, seconds)
ax.minorticks_off()
ax.set_ylim(0.5, 1.0)
ax.legend(loc="lower right", bbox_to_anchor=(1, 0.1), frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

print("seconds            ", *(f"{length:>5}" for length in seconds))
print("own fit            ", *(f"{value:5.2f}" for value in own.mean(axis=0)))
print(f"strangers' aggregate {strangers.mean():5.2f} (by person {', '.join(f'{value:.2f}' for value in strangers)})")
print("strangers are nearer for", *(f"{int((strangers > column).sum())} of 5" for column in own.T), sep="  ")

# %%
# What this shows, and where it fails
# -----------------------------------
# With half a minute of data or less, four strangers know a person's components better than that person's own fit does,
# for four or five of the five people, and the new person had to send nothing for it. After about a minute one's own fit
# is better, because heads differ, and no amount of strangers' data changes that. The average hides people: the lowest
# grey line is of somebody whose own data takes minutes to be as good as what strangers know. Five people and eight
# electrodes are few; take the crossing as an order of magnitude.

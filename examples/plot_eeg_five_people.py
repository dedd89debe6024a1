"""
EEG of five people, five clients
================================

Five people looked at flickering symbols while eight electrodes recorded their EEG. EEG is sensitive personal data; here
no recording leaves its owner. Each person's computer runs ICA locally and sends seven maps. Which components do the
five people share, and does the aggregate help a new person with only a few seconds of data?
"""

# %%
# Five recordings
# ---------------
# Each person has 100 trials of 10.5 s, filtered by the authors of the data set. All clients preprocess in the same way:
# trials with movement artefacts, whose peak exceeds three times the person's median peak, are dropped; and the average
# over the electrodes is subtracted, so that maps do not depend on the reference. Eight electrodes then give seven
# components.

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
    """Return the trials without movement, on the average reference: (n_trials, 2520 samples, 8 channels)."""
    trials = recording.data.reshape(100, -1, len(recording.channels)).astype(float)
    peaks = np.abs(trials).max(axis=(1, 2))
    calm = trials[peaks < 3 * np.median(peaks)]
    return calm - calm.mean(axis=2, keepdims=True)


trials = {name: calm_trials(recording) for name, recording in people.items()}
for name, kept in trials.items():
    print(f"{name}: {len(kept)} of 100 trials, {len(kept) * 10.5 / 60:.0f} minutes")

# %%
# One message per person
# ----------------------
# A contribution holds 56 numbers. The features are named after the electrodes, so that channels cannot be confused. The
# number of components need not be given: most clients agree on it.


def fit(rows):
    """Fit seven components to eight electrodes. rows : (..., 8)."""
    return LocalICA(7, random_state=0).fit(rows.reshape(-1, len(channels)))


contributions = [fit(kept).contribution(name, features=channels) for name, kept in trials.items()]
result = aggregate(contributions)
print(result)

# %%
# Common components
# -----------------
# The first row is the aggregate, with one column per component; the rows below show the matched map of each person,
# with the sign of the aggregate. The number is the angle between the two; pale maps were not accepted. Eye blinks,
# below Fpz, agree best: to within a few degrees in four of five people. The visual cortex and the muscles near both
# ears are found in most people, with angles of 10 to 30 degrees.

places = mne.channels.make_standard_montage("biosemi64").get_positions()["ch_pos"]
xyz = np.array([places[name] for name in channels])
inclination = np.arccos(xyz[:, 2] / np.linalg.norm(xyz, axis=1))  # from the top of the head
across = inclination / np.linalg.norm(xyz[:, :2], axis=1)
x, y = xyz[:, 0] * across, xyz[:, 1] * across  # azimuthal projection, the ears at pi / 2
found = [match(contribution.atoms, result.mixing) for contribution in contributions]
figure, axes = plt.subplots(6, 7, figsize=(10, 9), layout="constrained")


def draw(ax, values, *, taken):
    """Draw a head from above with the weight of each electrode, without interpolation."""
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
# Verdicts
# --------
# The theory assumes one mixing matrix for all clients. Heads differ, however: skulls, caps and cortices are not the
# same, and the server reports that people disagree. Is this due to noise of the fits, or do the people differ? A split
# of each recording into two halves answers this: as a rule, the halves agree better with each other than with other
# people. So "outlying" means *different* here, not *bad*; a verdict is a reason to look closer, and its reason is
# stated.

for row in result.trust:
    print(f"{row.client}: {row.verdict}, {row.reason}")


def similarity(atoms, reference):
    """Mean absolute cosine of the best one-to-one match; 1: identical maps."""
    return float(match(atoms, reference).cosines.mean())


halves = {name: [fit(half).atoms_ for half in np.array_split(kept, 2)] for name, kept in trials.items()}
within = [similarity(first, second) for first, second in halves.values()]
between = [similarity(a.atoms, b.atoms) for a in contributions for b in contributions if a.client < b.client]
print(f"two halves of one person: {np.mean(within):.2f} ({min(within):.2f} to {max(within):.2f})")
print(f"two people:               {np.mean(between):.2f} ({min(between):.2f} to {max(between):.2f})")

# %%
# A new person with little data
# -----------------------------
# Each person in turn is left out: the aggregate is computed from the other four, and the person has only a few seconds
# of data. Which is closer to the components of a long recording of that person, the fit to the short recording or the
# aggregate of the other four? The reference is a fit to the second half of the person's trials; short pieces are taken
# from the first half, four for each length. Random maps also have some similarity, because the best match is taken: the
# dotted line.

seconds = (2, 5, 10, 20, 30, 60, 120, 300)
own, others_score = np.empty((5, len(seconds))), np.empty(5)
for k, (name, kept) in enumerate(trials.items()):
    reference = halves[name][1]
    others = aggregate([c for c in contributions if c.client != name], 7)
    others_score[k] = similarity(others.mixing, reference)
    first_half = np.array_split(kept, 2)[0].reshape(-1, len(channels))
    for j, length in enumerate(seconds):
        n = int(length * sfreq)
        starts = np.linspace(0, len(first_half) - n, 4).astype(int)
        own[k, j] = np.mean([similarity(fit(first_half[start : start + n]).atoms_, reference) for start in starts])

rng = np.random.default_rng(0)
drawn = rng.standard_normal((200, 2, 8, 7))
drawn -= drawn.mean(axis=2, keepdims=True)
drawn /= np.linalg.norm(drawn, axis=2, keepdims=True)
chance = np.mean([similarity(one, other) for one, other in drawn])

figure, ax = plt.subplots(figsize=(7.5, 4.3), layout="constrained")
ax.plot(seconds, own.T, color="#999999", linewidth=0.8)
ax.plot(seconds, own.mean(axis=0), color="#D55E00", marker="o", linewidth=2, label="own fit")
ax.axhline(others_score.mean(), color="#0072B2", linewidth=2, label="aggregate of the other four, no own data")
ax.scatter([seconds[0] * 0.85] * 5, others_score, color="#0072B2", s=14, clip_on=False)
ax.axhline(chance, color="black", linestyle=":", label="random maps")
ax.set(xscale="log", xlabel="seconds of data of the new person", ylabel="similarity to that person's later data")
ax.set_xticks(seconds, seconds)
ax.minorticks_off()
ax.set_ylim(0.5, 1.0)
ax.legend(loc="lower right", bbox_to_anchor=(1, 0.1), frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

print("seconds            ", *(f"{length:>5}" for length in seconds))
print("own fit            ", *(f"{value:5.2f}" for value in own.mean(axis=0)))
print(
    f"aggregate of others {others_score.mean():5.2f} (by person {', '.join(f'{value:.2f}' for value in others_score)})"
)
print("aggregate is better for", *(f"{int((others_score > column).sum())} of 5" for column in own.T), sep="  ")

# %%
# Findings and limits
# -------------------
# With half a minute of data or less, the aggregate of four other people is closer to a person's components than that
# person's own fit, for four or five of the five people, and the new person need not send anything. After about a minute
# the own fit is better, because heads differ; more data of other people does not change that. The average hides
# individual differences: the lowest grey line belongs to a person who needs minutes of own data to reach the aggregate.
# Five people and eight electrodes are few; regard the crossing as an order of magnitude.

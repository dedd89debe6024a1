"""
Matching components across subjects
===================================

Given fitted ``mne.preprocessing.ICA`` objects of five people, which component of one person corresponds to which
component of another? This is often done by eye, or with ``mne.preprocessing.corrmap``, one template at a time and with
the same electrodes for all subjects. Here all components are matched at once, without a template and with missing
electrodes. Nothing is refitted: the existing decompositions are sufficient.
"""

# %%
# Five decompositions
# -------------------
# The data are the EEG of five people with eight electrodes, decomposed by ICA in MNE. In the recording of ``sub-04``
# the electrode Iz is bad: its amplitude is several times that of the others, so it is dropped. To make the task harder,
# T8 of ``sub-02`` and POz of ``sub-05`` are dropped too. These two are good, so that the result can be checked below.

import textwrap

import matplotlib.pyplot as plt
import mne
import numpy as np
import pandas as pd

from fedica import aggregate, fill_features
from fedica.datasets import fetch_eeg_five
from fedica.interop import from_mne, matched, to_mne
from fedica.matching import match

mne.set_log_level("ERROR")
people = fetch_eeg_five()
DROPPED = {"sub-02": ["T8"], "sub-04": ["Iz"], "sub-05": ["POz"]}


def as_raw(recording):
    """Return the trials of a recording without movement, as an MNE object."""
    trials = recording.data.reshape(100, -1, len(recording.channels)).astype(float)
    peaks = np.abs(trials).max(axis=(1, 2))
    calm = np.concatenate(trials[peaks < 3 * np.median(peaks)])
    info = mne.create_info(list(recording.channels), recording.sfreq, "eeg").set_montage("biosemi64")
    return mne.io.RawArray(calm.T, info)


def decompose(raw):
    """Fit an ICA with the usual settings."""
    return mne.preprocessing.ICA(method="fastica", random_state=0, max_iter=1000).fit(raw)


raws = {name: as_raw(recording) for name, recording in people.items()}
for name, raw in raws.items():
    print(name, *(f"{c} {1e6 * s:.0f}" for c, s in zip(raw.ch_names, raw.get_data().std(axis=1), strict=True)), "uV")
icas = {name: decompose(raw.copy().drop_channels(DROPPED.get(name, []))) for name, raw in raws.items()}
for name, ica in icas.items():
    print(f"{name}: {ica.n_components_} components of {len(ica.ch_names)} channels")

# %%
# Matching in MNE
# ---------------
# ``corrmap`` takes the map of one component of one person as a template and searches for it in the others. It refuses
# different electrodes:

try:
    mne.preprocessing.corrmap(list(icas.values()), template=(2, 0), plot=False)
except ValueError as refusal:
    print(textwrap.fill(f"ValueError: {refusal}", 80))

# %%
# Matching all components
# -----------------------
# Each ICA is converted to a contribution, with its maps on the average reference of its electrodes: eight electrodes
# then give seven components. ``fill_features`` fills missing electrodes from the other people; filled values do not
# affect the aggregate. Then the contributions are aggregated as usual. (Nearly all people are flagged as outlying: they
# have components of their own, which match no other person's.)

contributions = [from_mne(ica, name) for name, ica in icas.items()]
filled = fill_features(contributions, n_components=7)
result = aggregate(filled.contributions, 7)
print("filled:", filled.lacking)
print(result)

# %%
# The table has one row per component and one column per person, with the number of the component in that person's own
# ICA and the cosine of the two maps. A dot means that none of that person's components is close enough.

table = pd.DataFrame(matched(result))
near = table[table.component >= 0]
cells = near.assign(own=[f"ICA{row.atom:03} ({row.cosine:.2f})" for row in near.itertuples()])
print(cells.pivot(index="component", columns="client", values="own").fillna(".").to_string())

# %%
# The maps
# --------
# Each electrode is drawn at its position on the head, seen from above. A cross marks a missing electrode, whose value
# was filled.

places = mne.channels.make_standard_montage("biosemi64").get_positions()["ch_pos"]
xyz = np.array([places[name] for name in result.terms.features])
inclination = np.arccos(xyz[:, 2] / np.linalg.norm(xyz, axis=1))  # from the top of the head
x, y = (xyz[:, :2] * (inclination / np.linalg.norm(xyz[:, :2], axis=1))[:, None]).T
lacks = {name: np.isin(result.terms.features, filled.lacking.get(name, ())) for name in icas}


def draw(ax, values, lacking):
    """Draw a head from above with the weight of each electrode."""
    turn = np.linspace(0, 2 * np.pi, 100)
    limit = np.abs(values).max()
    ax.plot(1.75 * np.cos(turn), 1.75 * np.sin(turn), color="#888888", linewidth=0.8)
    ax.plot([-0.25, 0, 0.25], [1.73, 2.0, 1.73], color="#888888", linewidth=0.8)
    ax.scatter(x, y, c=values, s=110, cmap="RdBu_r", vmin=-limit, vmax=limit, edgecolors="#555555")
    ax.scatter(x[lacking], y[lacking], marker="x", color="black", s=60)


figure, axes = plt.subplots(6, 7, figsize=(10, 9), layout="constrained")
for ax in axes.flat:
    ax.set(xlim=(-2.2, 2.2), ylim=(-2.5, 2.2), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
for a in range(7):
    draw(axes[0, a], result.mixing[:, a], np.zeros(len(x), dtype=bool))
    axes[0, a].set_title(f"component {a}\n{result.support[a]} of 5", fontsize=9)
for row in near.itertuples():
    k = result.clients.index(row.client)
    atoms = result.atoms[:, result.client_of_atom == k]
    draw(axes[1 + k, row.component], atoms[:, row.atom] * row.sign, lacks[row.client])
    axes[1 + k, row.component].set_xlabel(f"ICA{row.atom:03}", fontsize=8)
for ax, name in zip(axes[:, 0], ["aggregate", *result.clients], strict=True):
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
figure.suptitle("Matched components of five people")
plt.show()

# %%
# Validation
# ----------
# Two checks follow. First, the same analysis with all electrodes of all people, including the bad one: the components
# that most people have should not change (those of only two people may). Second, ``corrmap`` can be run on the complete
# decompositions: with one person's blink as the template, its labels are compared with our table.

complete = {name: decompose(raw) for name, raw in raws.items()}
reference = aggregate([from_mne(ica, name) for name, ica in complete.items()], 7)
order = [result.terms.features.index(name) for name in reference.terms.features]
again = match(result.mixing[order], reference.mixing)
print("cosine of each component with that from all electrodes:", *(f"{cosine:.2f}" for cosine in again.cosines))

frontal = reference.terms.features.index("Fpz")
blink = int(np.argmax(reference.mixing[frontal]))
ours = {row.client: row.atom for row in matched(reference) if row.component == blink}
template = (list(complete).index("sub-03"), ours["sub-03"])
mne.preprocessing.corrmap(list(complete.values()), template=template, threshold=0.9, label="blink", plot=False)
theirs = {name: ica.labels_.get("blink", []) for name, ica in complete.items()}
for name in complete:
    table_says = f"ICA{ours[name]:03}" if name in ours else "none"
    corrmap_says = ", ".join(f"ICA{k:03}" for k in theirs[name]) or "none"
    print(f"blink of {name}: our table {table_says}, corrmap at 0.9 {corrmap_says}")

# %%
# Back to MNE
# -----------
# The aggregate can be converted to an ``mne.preprocessing.ICA``, to be plotted, saved as ``-ica.fif``, or used to
# remove blinks from a recording with the common map.

shared = to_mne(reference, raws["sub-05"].info)
cleaned = shared.apply(raws["sub-05"].copy().set_eeg_reference("average"), exclude=[blink])
before, after = (raw.get_data(picks="Fpz").std() * 1e6 for raw in (raws["sub-05"], cleaned))
print(shared)
print(f"Fpz of sub-05: {before:.1f} uV before, {after:.1f} uV without component {blink}")

# %%
# Findings and limits
# -------------------
# One call matches all components of all people, reports how similar they are, handles different electrodes, and leaves
# out components that match no other. In contrast, ``corrmap`` starts from a template of *your* choice and can label
# several components of one person, which is appropriate if an ICA has split the blinks into two components. With eight
# electrodes, many maps differ by 20 degrees or more between people; regard a cosine below 0.9 in the table as a
# candidate match.

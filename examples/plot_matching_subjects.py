"""
Which component of whom is which? Matching across subjects
==========================================================

Five people, five fitted ``mne.preprocessing.ICA`` objects, and the old question: component 3 of the first person, which
one is that of the second? People solve it by eye, or by ``mne.preprocessing.corrmap``, one template at a time, as long
as all caps have the same electrodes. Here all components are matched at once, with no template, and with electrodes
missing. Nothing is fitted again: the decompositions that people already have are enough.
"""

# %%
# Five decompositions, as people have them
# ----------------------------------------
# The EEG of five people, eight electrodes, ICA by MNE. In the recording of ``sub-04`` the
# electrode Iz really is bad: it swings several times as far as in the others. Anybody would drop it. To make the case
# harder, T8 of ``sub-02`` and POz of ``sub-05`` are dropped too, as if they had dried out. Those two are good, so that
# the answer can be checked later.

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
    """Return the calm trials of a recording as MNE has them."""
    trials = recording.data.reshape(100, -1, len(recording.channels)).astype(float)
    peaks = np.abs(trials).max(axis=(1, 2))
    calm = np.concatenate(trials[peaks < 3 * np.median(peaks)])
    info = mne.create_info(list(recording.channels), recording.sfreq, "eeg").set_montage("biosemi64")
    return mne.io.RawArray(calm.T, info)


def decompose(raw):
    """Fit as anybody does."""
    return mne.preprocessing.ICA(method="fastica", random_state=0, max_iter=1000).fit(raw)


raws = {name: as_raw(recording) for name, recording in people.items()}
for name, raw in raws.items():
    print(name, *(f"{c} {1e6 * s:.0f}" for c, s in zip(raw.ch_names, raw.get_data().std(axis=1), strict=True)), "uV")
icas = {name: decompose(raw.copy().drop_channels(DROPPED.get(name, []))) for name, raw in raws.items()}
for name, ica in icas.items():
    print(f"{name}: {ica.n_components_} components of {len(ica.ch_names)} channels")

# %%
# What MNE says
# -------------
# ``corrmap`` takes the map of one component of one person as the template and looks for it in the others. Of different
# electrodes it will not hear:

try:
    mne.preprocessing.corrmap(list(icas.values()), template=(2, 0), plot=False)
except ValueError as refusal:
    print(textwrap.fill(f"ValueError: {refusal}", 80))

# %%
# All at once
# -----------
# Each ICA becomes a contribution, its maps brought to the average of the electrodes that it has: eight electrodes then
# leave seven components. ``fill_features`` fills what a person lacks from those who have it; nothing that is filled
# moves the aggregate. Then the server does what it always does. (Nearly everybody is called outlying, and nobody
# cheats: it says that people have components of their own, which match nobody's.)

contributions = [from_mne(ica, name) for name, ica in icas.items()]
filled = fill_features(contributions, n_components=7)
result = aggregate(filled.contributions, 7)
print("filled:", filled.lacking)
print(result)

# %%
# Who is who: a row a component, a column a person, with the number of the component in that person's own ICA and the
# cosine of the two maps. A dot: none of that person's components is near enough.

table = pd.DataFrame(matched(result))
near = table[table.component >= 0]
cells = near.assign(own=[f"ICA{row.atom:03} ({row.cosine:.2f})" for row in near.itertuples()])
print(cells.pivot(index="component", columns="client", values="own").fillna(".").to_string())

# %%
# The maps
# --------
# Each electrode is drawn where it sits on the head, seen from above. A cross is an electrode that the person did not
# have; its value was filled.

places = mne.channels.make_standard_montage("biosemi64").get_positions()["ch_pos"]
xyz = np.array([places[name] for name in result.terms.features])
inclination = np.arccos(xyz[:, 2] / np.linalg.norm(xyz, axis=1))  # from the top of the head
x, y = (xyz[:, :2] * (inclination / np.linalg.norm(xyz[:, :2], axis=1))[:, None]).T
lacks = {name: np.isin(result.terms.features, filled.lacking.get(name, ())) for name in icas}


def draw(ax, values, lacking):
    """Draw a head from above, and the weight of each electrode."""
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
figure.suptitle("The same component in five people, whatever its number")
plt.show()

# %%
# Is the matching right?
# ----------------------
# Two checks. First, the same with every electrode of everybody, the bad one too: the components that most people have
# should stay as they are (those of two people alone may not). Second, ``corrmap`` runs on complete decompositions:
# take one person's blink as the template, and compare what MNE marks with our table.

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
# The aggregate is an ``mne.preprocessing.ICA`` again: to plot, to save as ``-ica.fif``, or to take the blinks out of a
# recording with the map that all share.

shared = to_mne(reference, raws["sub-05"].info)
cleaned = shared.apply(raws["sub-05"].copy().set_eeg_reference("average"), exclude=[blink])
before, after = (raw.get_data(picks="Fpz").std() * 1e6 for raw in (raws["sub-05"], cleaned))
print(shared)
print(f"Fpz of sub-05: {before:.1f} uV before, {after:.1f} uV without component {blink}")

# %%
# What this shows, and where it fails
# -----------------------------------
# One call matches all components of all people, says how near each is, tolerates different electrodes, and leaves out
# what matches nothing. ``corrmap`` does one thing that this does not: it starts from the template *you* care about and
# can mark several components of one person, which is right when an ICA has split the blinks in two. With eight
# electrodes many maps differ by 20 degrees and more from person to person; a cosine below 0.9 in the table is a
# candidate, not an identity.

"""
Handwritten digits: the parts that images are made of
=====================================================

Six clients hold 300 images of handwritten digits each. They want to know which parts the images are built from: strokes
and arcs that many images share. This is *spatial* ICA, ``independence="features"``: an atom is a map over the 64
pixels, and the maps are independent over pixels, as networks of the brain are over voxels in fMRI.
"""

# %%
# The federation
# --------------
# The images of scikit-learn come in the order in which people wrote them, so that neighbours often have the same
# writer. Cut into six runs, they are six clients with their own hands: what they hold is not alike.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from fedica import LocalICA, aggregate
from fedica.matching import match

warnings.filterwarnings("ignore", message=".* features are constant")  # corners that no pen of a client ever touched
images = load_digits().data  # (1797, 64)
clients = {f"client-{k + 1}": rows for k, rows in enumerate(np.array_split(images, 6))}


def fit(rows, n_components):
    """Find the independent maps of some images."""
    return LocalICA(n_components, independence="features", random_state=0).fit(rows)


contributions = [fit(rows, 10).contribution(name) for name, rows in clients.items()]
result = aggregate(contributions, 10)
print(result)

# %%
# One part, six opinions
# ----------------------
# Each column is a part. The first row is the aggregate; below it is what each client found for that part, in the
# sign of the aggregate. A pale map is missing: the server did not take any of that client's atoms for this part.
# Red ink is more, blue ink is less.

matched = [match(contribution.atoms, result.mixing) for contribution in contributions]
figure, axes = plt.subplots(7, 10, figsize=(10, 7.4), layout="constrained")
names = ["aggregate", *clients]
for ax, name in zip(axes[:, 0], names, strict=True):
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
for a in range(10):
    maps = [result.mixing[:, a]]
    for contribution, found in zip(contributions, matched, strict=True):
        i = int(np.flatnonzero(found.labels == a)[0])
        maps.append(contribution.atoms[:, i] * found.signs[i])
    taken = [True, *result.trust.has[:, a]]
    for ax, values, is_taken in zip(axes[:, a], maps, taken, strict=True):
        limit = np.abs(values).max()
        shown = values.reshape(8, 8)
        ax.imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit, alpha=1.0 if is_taken else 0.25)
        ax.set(xticks=[], yticks=[])
axes[0, 0].figure.suptitle("Ten parts of handwritten digits")

# %%
# Is the aggregate better than a client?
# --------------------------------------
# There is no truth here, so all are compared with one ICA on all images in one place, which no client could run:
# the mean over components of the absolute cosine. A dot is a client by itself.


def likeness(atoms, reference):
    """Mean absolute cosine of the best one-to-one match."""
    return match(atoms, reference).cosines.mean()


sizes = (6, 8, 10, 12)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
METHODS = {"consensus": ("#0072B2", "D"), "srf-ica": ("#009E73", "s"), "naive-mean": ("#D55E00", "X")}
scores = {method: [] for method in METHODS}
for place, r in enumerate(sizes):
    sent = [fit(rows, r).contribution(name) for name, rows in clients.items()]
    pooled = fit(images, r).atoms_
    alone = [likeness(contribution.atoms, pooled) for contribution in sent]
    ax.plot([place] * 6, alone, "o", color="#999999", zorder=1, label="a client alone" if place == 0 else None)
    for method in METHODS:
        scores[method].append(likeness(aggregate(sent, r, method=method).mixing, pooled))
for method, (colour, marker) in METHODS.items():
    ax.plot(range(len(sizes)), scores[method], marker=marker, color=colour, label=method, markersize=8)
    print(f"{method:<11}", *(f"{score:.2f}" for score in scores[method]))
ax.set(xticks=range(len(sizes)), xticklabels=sizes, xlabel="components", ylabel="likeness to the pooled ICA")
ax.set_ylim(0.5, 1.0)
ax.legend(loc="lower left", ncols=2)
plt.show()

# %%
# What this shows, and where it fails
# -----------------------------------
# Putting maps together by their index ("naive-mean") mixes different parts, and ends below every client. Putting
# together what belongs together ends above every client, here by a little over the best of them. But the gain moves
# with the number of components, and several clients are called outlying though nobody cheats: 64 pixels are few
# "samples" for a spatial ICA, so each client's maps are uncertain, and the clients' hands differ. A verdict says
# *this client disagrees*; why it does is for people to find out.

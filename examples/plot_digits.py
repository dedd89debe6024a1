"""
Handwritten digits: the parts of images
=======================================

Each of six clients holds 300 images of handwritten digits. They look for the parts of which the images are composed:
strokes and arcs that many images share. This is *spatial* ICA, ``independence="features"``: an atom is a map over the
64 pixels, and the maps are independent over pixels, like brain networks over voxels in fMRI.
"""

# %%
# The federation
# --------------
# The images of scikit-learn are in the order in which they were written, so that neighbours often have the same writer.
# Split into six consecutive parts, they form six clients with different handwriting: the data is heterogeneous.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from fedica import LocalICA, aggregate
from fedica.matching import match

warnings.filterwarnings("ignore", message=".* features are constant")  # pixels in corners are never inked
images = load_digits().data  # (1797, 64)
clients = {f"client-{k + 1}": rows for k, rows in enumerate(np.array_split(images, 6))}


def fit(rows, n_components):
    """Fit independent maps to images."""
    return LocalICA(n_components, independence="features", random_state=0).fit(rows)


contributions = [fit(rows, 10).contribution(name) for name, rows in clients.items()]
result = aggregate(contributions, 10)
print(result)

# %%
# The parts, as found by each client
# ----------------------------------
# Each column is a part. The first row is the aggregate; the rows below show the corresponding map of each client, with
# the sign of the aggregate. Pale maps were not accepted: the server assigned none of that client's atoms to this part.
# Red is positive, blue is negative.

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
# Comparison of the aggregate with single clients
# -----------------------------------------------
# The truth is unknown here, so the reference is one ICA on the pooled images, which no client could run. The similarity
# is the mean absolute cosine over components. Each dot is one client.


def similarity(atoms, reference):
    """Mean absolute cosine of the best one-to-one match."""
    return match(atoms, reference).cosines.mean()


sizes = (6, 8, 10, 12)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
METHODS = {"consensus": ("#0072B2", "D"), "srf-ica": ("#009E73", "s"), "naive-mean": ("#D55E00", "X")}
scores = {method: [] for method in METHODS}
for place, r in enumerate(sizes):
    sent = [fit(rows, r).contribution(name) for name, rows in clients.items()]
    pooled = fit(images, r).atoms_
    alone = [similarity(contribution.atoms, pooled) for contribution in sent]
    ax.plot([place] * 6, alone, "o", color="#999999", zorder=1, label="single client" if place == 0 else None)
    for method in METHODS:
        scores[method].append(similarity(aggregate(sent, r, method=method).mixing, pooled))
for method, (colour, marker) in METHODS.items():
    ax.plot(range(len(sizes)), scores[method], marker=marker, color=colour, label=method, markersize=8)
    print(f"{method:<11}", *(f"{score:.2f}" for score in scores[method]))
ax.set(xticks=range(len(sizes)), xticklabels=sizes, xlabel="components", ylabel="similarity to the pooled ICA")
ax.set_ylim(0.5, 1.0)
ax.legend(loc="lower left", ncols=2)
plt.show()

# %%
# Findings and limits
# -------------------
# Combining maps by index ("naive-mean") mixes different parts and is worse than every client. Combining matched maps is
# better than every client, here slightly better than the best of them. But the gain depends on the number of
# components, and several clients are flagged as outlying although all are honest: 64 pixels are few "samples" for
# spatial ICA, so each client's maps are uncertain, and the handwriting differs. A verdict means that *this client
# disagrees*; the cause has to be investigated.

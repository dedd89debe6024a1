"""
Six photographs, twelve clients, five of them faulty
====================================================

Six photographs are mixed by one unknown matrix. Each of twelve clients holds a tile of the mixtures and may not share
its pixels. Each client runs ICA on its own tile and sends one small message; the server aggregates the messages, and
the photographs are recovered. This is the demo of ``make demo``, step by step.
"""

# %%
# The federation
# --------------
# Seven clients have no fault. Two have only 24 x 24 pixels; one records noise, one has wrong channel gains, one has its
# channels in the wrong order. The server does not know which.

import matplotlib.pyplot as plt
import numpy as np

from fedica import LocalICA, aggregate
from fedica.evaluate import recovery_error
from fedica.matching import match
from fedica.simulate.photographs import differences, load_photographs, photograph_federation, unmix

federation = photograph_federation(load_photographs(), condition=3.0, random_state=0)
for client in federation.clients:
    print(f"{client.name}: {client.pixels.shape[1]:3} x {client.pixels.shape[2]:3} pixels, fault: {client.fault}")

# %%
# The clients
# -----------
# Raw pixels are nearly Gaussian, and ICA cannot separate Gaussian sources. Differences of neighbouring pixels are
# sparse, and taking differences does not change the mixing matrix. So every client fits differences.


def contribute(client):
    """Fit one client's tile and return its contribution, the only message that leaves the client."""
    local = LocalICA(n_components=6, random_state=0).fit(differences(client.pixels))
    return local.contribution(client.name)


contributions = [contribute(client) for client in federation.clients]
print(contributions[0])

# %%
# The server
# ----------
# The server receives twelve sets of six directions, in arbitrary order and with arbitrary signs. It determines which
# directions of different clients belong to the same photograph, and gives a verdict on each client.

result = aggregate(contributions, 6)
print(result)

# %%
# The recovered photographs
# -------------------------
# ICA leaves order and signs undetermined; for display they are matched to the originals.


def recovered(mixing):
    """Unmix all pixels; return one picture per original, with its sign."""
    found = match(mixing, federation.mixing)
    pictures = unmix(mixing * found.signs, federation.mixtures)
    return pictures[np.argsort(found.labels)]


lone = contributions[2]  # 24 x 24 pixels
rows = {
    "mixtures": federation.mixtures,
    f"{lone.client}\nalone": recovered(lone.atoms),
    "federation": recovered(result.mixing),
    "originals": federation.sources,
}
figure, axes = plt.subplots(4, 6, figsize=(10, 7), layout="constrained")
for line, (title, pictures) in zip(axes, rows.items(), strict=True):
    line[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=11)
    for ax, picture in zip(line, pictures, strict=True):
        low, high = np.percentile(picture, [0.5, 99.5])
        ax.imshow(picture, cmap="gray", vmin=low, vmax=high)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)

# %%
# The server's verdicts
# ---------------------
# Error of every client alone, coloured by the server's verdict; the line is the error of the federation. The verdicts
# are based on the messages alone: the server knows neither the truth nor the faults.

COLOURS = {"trusted": "#0072B2", "partial": "#56B4E9", "weak": "#E69F00", "outlying": "#D55E00"}
alone = [recovery_error(c.atoms, federation.mixing).relative for c in contributions]
together = recovery_error(result.mixing, federation.mixing).relative
right = np.concatenate([differences(client.pixels) for client in federation.clients if client.honest])
pooled = recovery_error(LocalICA(n_components=6, random_state=0).fit(right).atoms_, federation.mixing).relative
print(f"federation {together:.4f}; one ICA on the pooled correct pixels {pooled:.4f}")

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for verdict, colour in COLOURS.items():
    members = [k for k, c in enumerate(contributions) if result.trust[c.client].verdict == verdict]
    ax.barh(members, [alone[k] for k in members], color=colour, label=verdict)
ax.axvline(together, color="black", linestyle="--", label=f"federation: {together:.3f}")
faults = [f"{c.name}: {c.fault}" if c.fault != "none" else c.name for c in federation.clients]
ax.set(yticks=range(len(faults)), yticklabels=faults, xlabel="error of the mixing matrix (0: exact)")
ax.invert_yaxis()
ax.legend(loc="upper right")
plt.show()

# %%
# Findings and limits
# -------------------
# The federation is more accurate than every single client, although five of twelve are faulty, and close to one ICA on
# the pooled correct pixels. This works because fewer than half of the clients are faulty, and because all clients have
# the same six mixtures in the same order and scale. If seven clients had swapped their channels in the same way, they
# would be the majority, and the result would be theirs.

"""
Bring your own ICA
==================

A federation rarely agrees on one program. One group trusts JADE, another has a script around scikit-learn, a third uses
picard. They need not agree: the server takes unit vectors, however they were found. Here four groups each use another
solver on their own part of the same data, one of them written in twenty lines on this page.
"""

# %%
# Your solver
# -----------
# JADE (Cardoso and Souloumiac, 1993) whitens the data, forms matrices of fourth-order cumulants, and turns them all
# as diagonal as one rotation can. Any function from data (n_samples, n_features) to directions (n_features,
# n_components) would do.

import time
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import FastICA

from fedica import Contribution, LocalICA, aggregate
from fedica.evaluate import recovery_error
from fedica.simulate.photographs import differences, load_photographs, photograph_federation


def jade(X, r, n_sweeps=20):
    """Joint approximate diagonalisation of cumulant matrices; X: (n, d). Returns directions (d, r)."""
    X = X - X.mean(axis=0)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    Z, unwhiten = U[:, :r] * np.sqrt(len(X)), Vt[:r].T * s[:r]
    cumulants = []
    for i in range(r):
        for j in range(i + 1):
            Q = (Z * (Z[:, i] * Z[:, j])[:, None]).T @ Z / len(Z)  # E[z_i z_j z z']
            Q -= np.eye(r) * (i == j) + np.outer(np.eye(r)[i], np.eye(r)[j]) + np.outer(np.eye(r)[j], np.eye(r)[i])
            cumulants.append(Q if i == j else np.sqrt(2) * Q)
    C, R = np.array(cumulants), np.eye(r)
    for _ in range(n_sweeps):
        for p, q in combinations(range(r), 2):  # the angle that makes entry (p, q) of all matrices smallest
            on, off = C[:, p, p] - C[:, q, q], C[:, p, q] + C[:, q, p]
            a, b = on @ on - off @ off, 2 * on @ off
            angle = 0.5 * np.arctan2(b, a + np.hypot(a, b))
            G = np.eye(r)
            G[[p, p, q, q], [p, q, p, q]] = np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)
            C, R = G.T @ C @ G, R @ G
    return unwhiten @ R


# %%
# Other people's solvers
# ----------------------
# scikit-learn's FastICA with a function of one's own; a solver of fedica by name. A group that uses picard or a
# fitted object of MNE or nilearn needs no code at all: see :doc:`/data`.


def cubic(y):
    """Return y^3 and the mean of its derivative: the form that FastICA wants."""
    return y**3, (3 * y**2).mean(axis=-1)


SOLVERS = {
    "JADE, this page": lambda X: jade(X, 6),
    "scikit-learn, own function": lambda X: (
        FastICA(6, fun=cubic, whiten="unit-variance", random_state=0).fit(X).mixing_
    ),
    "fedica l4": lambda X: LocalICA(6, solver="l4", random_state=0).fit(X).atoms_,
    "fedica default": lambda X: LocalICA(6, random_state=0).fit(X).atoms_,
}

# %%
# Twelve clients, four solvers
# ----------------------------
# The photographs again, because there the truth is known: twelve tiles, each fitted by the solver of its group.
# ``Contribution(client, atoms, n_samples)`` scales the directions to norm one; sign and order are free.

scene = photograph_federation(load_photographs(), condition=3.0, random_state=2)
tiles = [tile for band in np.array_split(scene.mixtures, 3, axis=1) for tile in np.array_split(band, 4, axis=2)]
groups = [list(SOLVERS)[(k + k // 4) % 4] for k in range(12)]  # no group has a column of tiles to itself

contributions, errors, seconds = [], {name: [] for name in SOLVERS}, dict.fromkeys(SOLVERS, 0.0)
for k, (tile, solver) in enumerate(zip(tiles, groups, strict=True)):
    X = differences(tile)
    start = time.perf_counter()
    atoms = SOLVERS[solver](X)
    seconds[solver] += time.perf_counter() - start
    errors[solver].append(recovery_error(atoms, scene.mixing).relative)
    contributions.append(Contribution(f"client-{k + 1:02}", atoms, len(X), solver=solver))

result = aggregate(contributions, 6)
together = recovery_error(result.mixing, scene.mixing).relative
print(result)

# %%
# Who found what
# --------------
# Above, how far each client's atom is from each component. Below, the error of each client by itself, by solver,
# and that of the aggregate of all.

solver_of = dict(zip((c.client for c in contributions), groups, strict=True))
order = sorted(range(12), key=lambda k: list(SOLVERS).index(solver_of[result.clients[k]]))
names = [f"{solver_of[result.clients[k]]}: {result.clients[k]}" for k in order]

figure, (left, right) = plt.subplots(2, 1, figsize=(8, 8), height_ratios=(1.6, 1), layout="constrained")
shown = left.imshow(result.trust.angles[order], cmap="viridis_r", vmin=0, vmax=20, aspect="auto")
left.set(xlabel="component", xticks=range(6), yticks=range(12), yticklabels=names, title="angle to the aggregate")
figure.colorbar(shown, ax=left, label="degrees", extend="max")

for place, values in enumerate(errors.values()):
    right.plot(values, [place] * len(values), "o", color="#0072B2", label="one client" if place == 0 else None)
right.axvline(together, color="black", linestyle="--", label=f"aggregate: {together:.3f}")
right.set(yticks=range(4), yticklabels=[f"{solver}: {t:.2f} s" for solver, t in seconds.items()], ylim=(3.5, -0.5))
right.set(xlabel="error of the mixing matrix", title="error alone, and seconds for three clients", xlim=(0, None))
right.legend(loc="lower right")
plt.show()

# %%
# What this shows, and where it fails
# -----------------------------------
# Different contrasts make different errors, and the aggregate averages over them. It does not mend a solver that is
# wrong: one whose groups are the majority would win. And all solvers must answer the same question. Atoms of a
# spatial ICA (``independence="features"``) and of an ordinary one are different things; say which they are,
# ``Contribution(..., independence="samples")``, and the server refuses to mix them.

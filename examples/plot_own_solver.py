"""
Bring your own ICA
==================

Groups in a federation often use different programs: one prefers JADE, another has a script based on scikit-learn, a
third uses picard. They need not agree on one, because the server accepts unit vectors of any origin. In this example
four groups use different solvers on their own part of the same data; one of the solvers is written in twenty lines
below.
"""

# %%
# A custom solver
# ---------------
# JADE (Cardoso and Souloumiac, 1993) whitens the data, forms matrices of fourth-order cumulants, and finds the rotation
# that makes all of them as diagonal as possible. Any function from data (n_samples, n_features) to directions
# (n_features, n_components) can be used.

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
        for p, q in combinations(range(r), 2):  # the angle that minimises entry (p, q) of all matrices
            on, off = C[:, p, p] - C[:, q, q], C[:, p, q] + C[:, q, p]
            a, b = on @ on - off @ off, 2 * on @ off
            angle = 0.5 * np.arctan2(b, a + np.hypot(a, b))
            G = np.eye(r)
            G[[p, p, q, q], [p, q, p, q]] = np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)
            C, R = G.T @ C @ G, R @ G
    return unwhiten @ R


# %%
# Solvers of other libraries
# --------------------------
# scikit-learn's FastICA with a custom contrast function, and two solvers of fedica. Output of picard and fitted objects
# of MNE or nilearn can be converted directly: see :doc:`/data`.


def cubic(y):
    """Return y^3 and the mean of its derivative, as FastICA requires."""
    return y**3, (3 * y**2).mean(axis=-1)


SOLVERS = {
    "JADE, above": lambda X: jade(X, 6),
    "scikit-learn, custom contrast": lambda X: (
        FastICA(6, fun=cubic, whiten="unit-variance", random_state=0).fit(X).mixing_
    ),
    "fedica l4": lambda X: LocalICA(6, solver="l4", random_state=0).fit(X).atoms_,
    "fedica default": lambda X: LocalICA(6, random_state=0).fit(X).atoms_,
}

# %%
# Twelve clients, four solvers
# ----------------------------
# The data are the photographs, for which the truth is known: twelve tiles, each fitted by the solver of its group.
# ``Contribution(client, atoms, n_samples)`` scales the directions to unit norm; signs and order are arbitrary.

scene = photograph_federation(load_photographs(), condition=3.0, random_state=2)
tiles = [tile for band in np.array_split(scene.mixtures, 3, axis=1) for tile in np.array_split(band, 4, axis=2)]
groups = [list(SOLVERS)[(k + k // 4) % 4] for k in range(12)]  # spreads each group over the columns of tiles

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
# Errors by solver
# ----------------
# Top: angle of each client's atom to each component. Bottom: error of each client alone, by solver, and error of the
# aggregate.

solver_of = dict(zip((c.client for c in contributions), groups, strict=True))
order = sorted(range(12), key=lambda k: list(SOLVERS).index(solver_of[result.clients[k]]))
names = [f"{solver_of[result.clients[k]]}: {result.clients[k]}" for k in order]

figure, (left, right) = plt.subplots(2, 1, figsize=(8, 8), height_ratios=(1.6, 1), layout="constrained")
shown = left.imshow(result.trust.angles[order], cmap="viridis_r", vmin=0, vmax=20, aspect="auto")
left.set(xlabel="component", xticks=range(6), yticks=range(12), yticklabels=names, title="angle to the aggregate")
figure.colorbar(shown, ax=left, label="degrees", extend="max")

for place, values in enumerate(errors.values()):
    right.plot(values, [place] * len(values), "o", color="#0072B2", label="single client" if place == 0 else None)
right.axvline(together, color="black", linestyle="--", label=f"aggregate: {together:.3f}")
right.set(yticks=range(4), yticklabels=[f"{solver}: {t:.2f} s" for solver, t in seconds.items()], ylim=(3.5, -0.5))
right.set(xlabel="error of the mixing matrix", title="error of single clients, and total time", xlim=(0, None))
right.legend(loc="lower right")
plt.show()

# %%
# Findings and limits
# -------------------
# Different contrast functions make different errors, and the aggregate averages over them. It does not correct a wrong
# solver that the majority uses. And all solvers must estimate the same quantity: atoms of spatial ICA
# (``independence="features"``) and of temporal ICA are different objects. Declare which they are, ``Contribution(...,
# independence="samples")``, and the server refuses to combine them.

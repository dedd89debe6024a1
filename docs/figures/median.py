"""Mean and geometric median of one group, seen along the two directions in which its atoms differ most."""

import numpy as np
from steps import BLUE, GREEN, ORANGE, RED, atoms, centres, good, labels, means, new_figure, owner, scene, signs, titles

from fedica.arrays import unit
from fedica.matching import match

truth = scene.mixing[:, match(unit(centres), scene.mixing).labels]
truth = truth * np.sign(np.sum(truth * centres, axis=0))
harm = [np.linalg.norm(means[:, a] - truth[:, a]) for a in range(6)]
a = int(np.argmax(harm))
own = np.flatnonzero(labels == a)
aligned = atoms[:, own] * signs[own]
axes_of_group = np.linalg.svd(aligned - truth[:, [a]], full_matrices=False)[0][:, :2]


def seen(vectors):
    """Coordinates in the plane of the figure, the truth at its centre."""
    return axes_of_group.T @ (np.atleast_2d(vectors.T).T - truth[:, [a]])


figure, ax = new_figure(figsize=(6, 4.2))
is_good = good[owner[own]]
ax.plot(*seen(aligned[:, is_good]), "o", color=BLUE, label="atoms of good clients")
ax.plot(*seen(aligned[:, ~is_good]), "o", color=RED, markerfacecolor="none", label="atoms of bad clients")
ax.plot(*seen(means[:, a]), "X", color=ORANGE, markeredgecolor="black", markersize=12, label="mean, Eq. (15)")
ax.plot(
    *seen(centres[:, a]), "D", color=GREEN, markeredgecolor="black", markersize=9, label="geometric median, Eq. (16)"
)
ax.plot(0, 0, "*", color="black", markersize=15, label="truth", zorder=0)
ax.set(title=f'The group of "{titles[a]}"', xlabel="first direction of difference", ylabel="second direction")
ax.axis("equal")
ax.legend(fontsize=8)

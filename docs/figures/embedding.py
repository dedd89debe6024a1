"""The 72 atoms as points, by three of their six coordinates, with the groups that k-means finds."""

import numpy as np
from steps import GROUP_COLOURS, GROUP_MARKERS, good, labels, new_figure, owner, points, titles

figure, axes = new_figure(1, 2, figsize=(9, 4))
for ax, (i, j) in zip(axes, ((1, 2), (3, 4)), strict=True):
    for a, title in enumerate(titles):
        own = labels == a
        for is_good, face in ((True, GROUP_COLOURS[a]), (False, "none")):
            shown = own & (good[owner] == is_good)
            ax.plot(
                *points[[i, j]][:, shown],
                GROUP_MARKERS[a],
                color=GROUP_COLOURS[a],
                markerfacecolor=face,
                label=title if is_good else None,
                markersize=6,
            )
        ax.plot(*np.mean(points[[i, j]][:, own], axis=1), "+", color="black", markersize=12)
    ax.set(xlabel=f"coordinate {i + 1} of Q", ylabel=f"coordinate {j + 1} of Q")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)

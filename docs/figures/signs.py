"""One group of atoms before and after their signs are aligned."""

import numpy as np
from steps import BLUE, RED, atoms, good, labels, new_figure, owner, signs, titles

a = int(np.argmax([np.minimum((signs[labels == b] > 0).sum(), (signs[labels == b] < 0).sum()) for b in range(6)]))
own = labels == a
figure, axes = new_figure(1, 2, figsize=(9, 3), sharey=True)
for ax, turned, title in zip(axes, (np.ones_like(signs), signs), ("as they came", "aligned"), strict=True):
    for i in np.flatnonzero(own):
        ax.plot(range(1, 7), atoms[:, i] * turned[i], color=BLUE if good[owner[i]] else RED, alpha=0.8, marker=".")
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set(title=f'atoms of "{titles[a]}", {title}', xlabel="channel", xticks=range(1, 7))
axes[0].set_ylabel("entry")
axes[1].plot([], [], color=BLUE, label="good client")
axes[1].plot([], [], color=RED, label="bad client")
axes[1].legend(fontsize=8)

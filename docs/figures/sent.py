"""What twelve clients send: six directions each, in any order and with any sign."""

from steps import RED, contributions, fault_of, new_figure

figure, axes = new_figure(2, 6, figsize=(9, 3.6))
for ax, contribution in zip(axes.flat, contributions, strict=True):
    is_good = fault_of[contribution.client] == "none"
    shown = ax.imshow(contribution.atoms, cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.set_title(contribution.client, fontsize=9, color="black" if is_good else RED)
    for spine in ax.spines.values():
        spine.set(color="black" if is_good else RED, linewidth=0.8 if is_good else 2)
axes[0, 0].set_ylabel("channel", fontsize=9)
axes[1, 0].set_ylabel("channel", fontsize=9)
axes[1, 0].set_xlabel("atom", fontsize=9)
figure.colorbar(shown, ax=axes, label="entry of the atom", shrink=0.8)

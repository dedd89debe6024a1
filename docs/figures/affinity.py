"""The affinity of all 72 atoms: as they came, and in the order of the groups that step 4 finds."""

import numpy as np
from steps import M, admitted, labels, new_figure, titles

figure, (left, right) = new_figure(1, 2, figsize=(9, 4.3), sharey=False)
left.imshow(M / M.max(), cmap="viridis", vmin=0, vmax=1)
left.set(title="as they came, client by client", xlabel="atom", ylabel="client")
left.set_yticks(np.arange(12) * 6 + 2.5, [client.removeprefix("client-") for client in admitted.clients])
order = np.argsort(labels, kind="stable")
shown = right.imshow((M / M.max())[np.ix_(order, order)], cmap="viridis", vmin=0, vmax=1)
ends = np.cumsum(np.bincount(labels))
for end in ends[:-1]:
    right.axhline(end - 0.5, color="white", linewidth=0.7)
    right.axvline(end - 0.5, color="white", linewidth=0.7)
right.set(title="sorted by group", xlabel="atom")
right.set_yticks(ends - np.bincount(labels) / 2 - 0.5, titles)
figure.colorbar(shown, ax=[left, right], label="|cosine|", shrink=0.8)

"""How far each client is from the consensus, in radii, and what follows from it."""

import numpy as np
from steps import BLUE, GREEN, ORANGE, RED, admitted, consensus, fault_of, new_figure, owner

from fedica.server.agreement import CLIENT_CUT, client_distances, radius_of
from fedica.server.assign import assign_atoms

assignment = assign_atoms(admitted.atoms, owner, consensus.mixing)
distances = client_distances(assignment, owner, 12)
radii = distances / radius_of(distances, np.ones(12))
colours = {"trusted": BLUE, "partial": GREEN, "weak": ORANGE, "outlying": RED}

figure, ax = new_figure(figsize=(8, 4))
order = np.argsort(admitted.clients)
for place, k in enumerate(order):
    ax.barh(place, radii[k], color=colours[consensus.trust[admitted.clients[k]].verdict])
labels = [f"{admitted.clients[k]}: {fault_of[admitted.clients[k]]}".removesuffix(": none") for k in order]
ax.axvline(1, color="black", linestyle=":")
ax.axvline(CLIENT_CUT, color="black", linestyle="--")
ax.text(1, -0.6, "1 radius ", ha="right", va="bottom", fontsize=8)
ax.text(CLIENT_CUT, -0.6, f" {CLIENT_CUT} radii: noisy beyond", ha="left", va="bottom", fontsize=8)
ax.set(yticks=range(12), yticklabels=labels, xscale="log", xlabel="distance of the client, in radii")
ax.xaxis.set_major_formatter("{x:g}")
ax.invert_yaxis()
for verdict, colour in colours.items():
    ax.barh([0], [0], color=colour, label=verdict)
ax.legend(title="verdict", loc="upper right")

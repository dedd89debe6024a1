"""The photographs' federation and every step of Algorithm 1 on it, by the server's own functions; shared by all."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from fedica import LocalICA, aggregate
from fedica.arrays import unit
from fedica.matching import match
from fedica.server.admission import admit
from fedica.server.affinity import absolute_affinity
from fedica.server.centres import geometric_medians
from fedica.server.clusters import kmeans
from fedica.server.embedding import embed_absolute
from fedica.server.signs import align_signs
from fedica.simulate import scramble
from fedica.simulate.photographs import differences, load_photographs, photograph_federation

R = 6
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
GROUP_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
GROUP_MARKERS = "osD^vP"

scene = photograph_federation(load_photographs(), condition=3.0, random_state=0)
fault_of = {client.name: client.fault for client in scene.clients}

rng = np.random.default_rng(0)
contributions = [
    scramble(LocalICA(R, random_state=0).fit(differences(c.pixels)).contribution(c.name), rng) for c in scene.clients
]
admitted = admit(contributions)  # step 1; in an order of the server's own
good = np.array([fault_of[client] == "none" for client in admitted.clients])
atoms, owner = admitted.atoms.whole(), admitted.client_of_atom  # (6, 72), (72,)
M = absolute_affinity(atoms, R)  # step 2
embedding = embed_absolute(admitted.atoms, R)  # step 3
points = embedding.points.whole()  # (6, 72)
labels = kmeans(embedding.points, R, n_init=10, rng=rng).labels  # step 4
signs = align_signs(admitted.atoms, labels, R)  # step 5
centres = geometric_medians(admitted.atoms, labels, R, signs=signs).centres  # step 6
means = np.stack([(atoms * signs)[:, labels == a].mean(axis=1) for a in range(R)], axis=1)

photograph_of_group = match(unit(centres), scene.mixing).labels  # only to name the groups in the figures
titles = [scene.names[photograph_of_group[a]] for a in range(R)]
consensus = aggregate(contributions, R)


def new_figure(*shape, **options):
    """Return a figure and its axes, laid out without overlaps."""
    return plt.subplots(*shape, layout="constrained", **options)

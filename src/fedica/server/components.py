"""How many components there are, when nobody says: what most clients agree on, or else the gap in the spectrum."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array
from fedica.server.admit import Admitted
from fedica.server.affinity import leading_directions
from fedica.server.consensus import find_consensus
from fedica.server.embedding import squared_spectrum
from fedica.server.relative import relative_to
from fedica.server.trust import matches

MOST_DIRECTIONS = 60
"""Directions looked at when atoms have more features than this."""
SMALLEST_SHARE = 0.02
"""A component whose eigenvalue is below this share of the largest is not told from noise."""


def choose_components(admitted: Admitted, *, n_init: int, rng: np.random.Generator) -> tuple[int, str]:
    """Return the number of components, and where it comes from: "clients" or "spectrum".

    If more than half of the clients sent the same number of atoms, and more than half of those have a matching atom for
    every component of that many, this is the number: bad clients in the minority cannot change it, nor can a badly
    conditioned mixing matrix. Otherwise the largest ratio of successive eigenvalues of the squared affinity decides.
    """
    counts = np.bincount(admitted.client_of_atom)
    common = int(np.bincount(counts).argmax())
    n_alike = int((counts == common).sum())
    if n_alike > max(counts.size / 2, 1) and common <= admitted.atoms.shape[0]:
        found = find_consensus(admitted, common, np.ones(counts.size), affinity="squared", n_init=n_init, rng=rng)
        matched = matches(
            relative_to(admitted.atoms, admitted.client_of_atom, found.centres / np.linalg.norm(found.centres, axis=0)),
            found.weights,
            common,
        )
        support = np.bincount(found.labels[matched], minlength=common)
        if support.min() > n_alike / 2:
            return common, "clients"
    return largest_gap(admitted.atoms), "spectrum"


def largest_gap(atoms: Array) -> int:
    """Place of the largest ratio of successive eigenvalues of (A_c' A_c)^2, entrywise square. atoms : (d, R).

    Candidates go up to d, the most components there can be.
    """
    points = leading_directions(atoms, MOST_DIRECTIONS)
    most = min(points.shape)
    spectrum = np.zeros(most + 1)
    leading = squared_spectrum(points)[: most + 1]
    spectrum[: leading.size] = leading
    values = np.maximum(spectrum, SMALLEST_SHARE * spectrum[0])
    return 1 + int(np.argmax(values[:-1] / values[1:]))

"""The number of components, if it is not given: what most clients agree on, or else the gap in the spectrum."""

from __future__ import annotations

import numpy as np

from fedica.arrays import unit
from fedica.blocks import Columns, columns_of, draw_clients, leading_directions
from fedica.server.admit import Admitted
from fedica.server.agreement import matched_atoms
from fedica.server.assign import assign_atoms
from fedica.server.consensus import find_consensus
from fedica.server.embedding import squared_spectrum

MAX_DIRECTIONS = 60
"""Atoms with more features than this are reduced to so many leading directions."""
MIN_SHARE = 0.02
"""A component whose eigenvalue is below this share of the largest cannot be told from noise."""


def choose_components(admitted: Admitted, *, n_init: int, rng: np.random.Generator) -> tuple[int, str]:
    """Return the number of components, and where it comes from: "clients" or "spectrum".

    If more than half of all clients sent the same number of atoms and every one of those atoms matches a consensus of
    as many components, this is the number: fewer than half of the clients cannot change it, nor can a badly conditioned
    mixing matrix. Otherwise the largest gap in the spectrum decides.
    """
    owner = admitted.client_of_atom
    counts = np.bincount(owner)
    common = int(np.bincount(counts).argmax())
    if (counts == common).sum() > max(counts.size / 2, 1) and common <= admitted.atoms.shape[0]:
        found = find_consensus(admitted, common, np.ones(counts.size), affinity="squared", n_init=n_init, rng=rng)
        matched = matched_atoms(assign_atoms(admitted.atoms, owner, unit(found.centres)), found.weights, common)
        complete = np.bincount(owner, weights=matched) == common
        if complete.sum() > counts.size / 2:
            return common, "clients"
    sample = draw_clients(admitted.atoms, owner, rng).sample()
    seen = admitted.atoms if sample is None else columns_of(admitted.atoms.take(sample))
    return largest_gap(seen), "spectrum"


def largest_gap(atoms: Columns) -> int:
    """Place of the largest ratio of successive eigenvalues of the squared affinity. atoms : (d, R).

    Of the atoms themselves and of the atoms whitened by their scatter, which corrects for a badly conditioned mixing
    matrix, the larger ratio counts. Candidates go up to d, the most components there can be.
    """
    directions = leading_directions(atoms, MAX_DIRECTIONS)
    gaps = [_gap(directions.coordinates(atoms)), _gap(directions.whitened(atoms))]
    return max(gaps)[1]  # by the ratio


def _gap(points: Columns) -> tuple[float, int]:
    """Return the largest ratio of successive eigenvalues, and after how many eigenvalues it is. points : (p, R)."""
    most = min(points.shape)
    spectrum = np.zeros(most + 1)
    leading = squared_spectrum(points)[: most + 1]
    spectrum[: leading.size] = leading
    values = np.maximum(spectrum, MIN_SHARE * spectrum[0])
    ratios = values[:-1] / values[1:]
    return float(ratios.max()), 1 + int(np.argmax(ratios))

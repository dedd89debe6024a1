"""The number of components, if it is not given: what most clients agree on, a gap in the spectrum, what replicates."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, IntArray, unit
from fedica.blocks import Columns, Drawn, columns_of, draw_clients, leading_directions
from fedica.errors import GroupingError
from fedica.matching import match
from fedica.server.admission import Admitted
from fedica.server.agreement import matched_atoms
from fedica.server.assign import assign_atoms
from fedica.server.consensus import UNCLEAR, chance_basis, find_consensus, half_distance
from fedica.server.embedding import squared_spectrum
from fedica.server.replication import consensus_of

MAX_DIRECTIONS = 60
"""Atoms with more features than this are reduced to so many leading directions."""
MIN_SHARE = 0.02
"""A component whose eigenvalue is below this share of the largest cannot be told from noise."""

REPLICATES = 0.7
"""Cosine from which a component of one half of the clients is that of the other."""
MIN_SPLITS, MAX_SPLITS, SPLIT_CLIENTS = 3, 9, 60
"""Ways in which the clients are halved: 60 over the number of clients, because halves of few clients differ more."""
MIN_CLIENTS, MAX_CLIENTS = 4, 200
"""Clients that can be halved, and of how many the halves are made."""


def choose_components(admitted: Admitted, *, n_init: int, rng: np.random.Generator) -> tuple[int, str]:
    """Return the number of components, and where it comes from: "clients", "replication" or "spectrum".

    If more than half of all clients sent the same number of atoms and every one of those atoms matches a consensus of
    as many components, clearly better than chance, this is the number: fewer than half of the clients cannot change it,
    nor can a badly conditioned mixing matrix. Otherwise the largest gap in the spectrum decides if of the components
    that it shows more replicate than that, as where every client knows a part of them. Else clients have components of
    their own, and those count that replicate: found anew in either half of the clients.
    """
    owner = admitted.client_of_atom
    counts = np.bincount(owner)
    common = int(np.bincount(counts).argmax())
    usual = (counts == common).sum() > max(counts.size / 2, 1) and common <= admitted.atoms.shape[0]
    if usual and _all_match(admitted, common, n_init=n_init, rng=rng):
        return common, "clients"
    drawn = draw_clients(admitted.atoms, owner, rng)
    votes = columns_of(_votes(admitted.atoms, owner, drawn))
    gap = largest_gap(votes)
    if not usual or counts.size < MIN_CLIENTS:
        return gap, "spectrum"
    if common < gap < votes.shape[1]:  # not every atom its own component
        of_gap = _replicated(admitted, drawn, gap, n_init=n_init, rng=rng)
        if of_gap is not None and of_gap > common:
            return gap, "spectrum"
    of_common = _replicated(admitted, drawn, common, n_init=n_init, rng=rng)
    return (common if of_common is None else max(of_common, 1)), "replication"


def _all_match(admitted: Admitted, r: int, *, n_init: int, rng: np.random.Generator) -> bool:
    """Whether all r atoms of more than half of the clients match a consensus of r components, clearly."""
    atoms, owner = admitted.atoms, admitted.client_of_atom
    ones = np.ones(len(admitted.clients))
    found = find_consensus(admitted, r, ones, affinity="squared", n_init=n_init, rng=rng)
    reference = unit(found.centres)
    matched = matched_atoms(assign_atoms(atoms, owner, reference), found.weights, r)
    complete = np.bincount(owner, weights=matched) == r
    chance = half_distance(atoms, owner, chance_basis(reference, rng))
    return bool(complete.sum() > ones.size / 2 and half_distance(atoms, owner, reference) <= UNCLEAR * chance)


def _votes(atoms: Columns, owner: IntArray, drawn: Drawn) -> Array:
    """Return the atoms whose spectrum is looked at: of each client at most as many as the median client has."""
    sample = drawn.sample()
    seen = np.arange(owner.size) if sample is None else sample
    rank = np.arange(owner.size) - np.searchsorted(owner, owner)
    return atoms.take(seen[rank[seen] < np.median(np.bincount(owner))])


def _replicated(admitted: Admitted, drawn: Drawn, r: int, *, n_init: int, rng: np.random.Generator) -> int | None:
    """Count the components, of r, that both halves of the clients find: the mean over several ways to halve them.

    None where too few atoms are distinct to halve them at all.
    """
    chosen = drawn.order[:MAX_CLIENTS]
    found = []
    for _ in range(int(np.clip(SPLIT_CLIENTS / chosen.size, MIN_SPLITS, MAX_SPLITS))):
        order = rng.permutation(chosen)
        try:
            halves = [
                consensus_of(admitted, np.sort(part), r, n_init=n_init, rng=rng) for part in (order[::2], order[1::2])
            ]
        except GroupingError:  # too few distinct atoms in one half
            continue
        found.append((match(*halves).cosines > REPLICATES).sum())
    return round(float(np.mean(found))) if found else None


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

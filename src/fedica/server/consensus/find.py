"""Consensus: Algorithm 1, and then the steps by which a minority of bad clients barely affects the result.

The numbers are those of the formulas in docs/method.md.

(C1) Candidates for a start, in each of which a client has one vote, and
(C2) the one that half of the clients are nearest to: `fedica.server.consensus.starts`.
(C3) Weights of clients and atoms from their distances: `fedica.server.consensus.spreads`. First as if all clients
     were alike, then by how much they and the tails of their errors differ; the second answer holds if independent
     errors explain the difference: `fedica.server.consensus.hausman`.
(C4) Minorities that share an error and stand apart do not count: `fedica.server.consensus.shared_errors`.
(C5) Average with these weights, and repeat (C3) and (C4) until nothing moves.
(C6) Where single atoms agree little, as those of people do, other answers are tried, and the one is taken that suits
     clients it was not fitted to: `fedica.server.consensus.held_out`. Where the mixing is declared orthogonal, take the
     nearest matrix with orthonormal columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray, polar, unit
from fedica.blocks import Columns, Drawn, columns_of, draw_clients, leading_directions, nearest_halves
from fedica.errors import GroupingError
from fedica.records import Terms
from fedica.server.admission import Admitted
from fedica.server.agreement import duplicate_weights
from fedica.server.assign import Assignment, assign_atoms
from fedica.server.centres import group_means
from fedica.server.consensus.hausman import explained_by_independent_errors
from fedica.server.consensus.held_out import CONSENSUS, TURNED, all_answers, best_for_others
from fedica.server.consensus.shared_errors import (
    MAX_CLIENTS,
    MAX_OUTSIDE,
    Errors,
    client_errors,
    independent_atoms,
    independent_clients,
    known_atoms,
)
from fedica.server.consensus.spreads import agreement_weights, measure_spreads
from fedica.server.consensus.starts import (
    UNCLEAR,
    Grouped,
    Panel,
    chance_basis,
    draw_panel,
    find_start,
    group_atoms,
    half_distance,
)
from fedica.server.embedding import MARGIN

MAX_STEPS = 10
"""Steps of reweighing; they settle in about five."""
MIN_CLIENTS_TO_TURN, MIN_CLIENTS_TO_CHOOSE = 3, 4
"""With three clients nothing tells which answer of (C6) is best: their components are turned jointly."""
MIN_SHARE = 0.2
"""A client with less than this share of the typical weight does not count in (C6)."""


@dataclass(frozen=True, eq=False)
class Consensus:
    """What most clients agree on.

    Parameters
    ----------
    centres : ndarray of shape (d, r)
        The components.
    weights : ndarray of shape (R,)
        How much each atom counts.
    grouped : Grouped
        What Algorithm 1 found, the first start.
    drawn : Drawn
        The clients in the order in which some of them were looked at first.
    """

    centres: Array
    weights: Array
    grouped: Grouped
    drawn: Drawn


def find_consensus(
    admitted: Admitted,
    n_components: int,
    client_weights: Array,
    *,
    affinity: str,
    n_init: int,
    rng: np.random.Generator,
) -> Consensus:
    """Find the components that most clients agree on, and weigh every atom by how well it agrees: (C1) to (C6).

    client_weights : (K,), from declared samples; all one by default.
    """
    whiten = admitted.terms.mixing != "orthogonal"
    fit = _Fit(n_components, whiten=whiten, affinity=affinity, n_init=n_init, rng=rng)
    found = fit.run(admitted.atoms, admitted.client_of_atom, client_weights)
    centres = _turn_jointly(fit, found, admitted.client_of_atom, client_weights)
    return Consensus(centres, found.settled.weights, found.grouped, found.drawn)


def finish_consensus(centres: Array, terms: Terms) -> Array:
    """Return the centres, (d, r), as the nearest matrix with orthonormal columns where the mixing is orthogonal."""
    return polar(unit(centres)) if terms.mixing == "orthogonal" else centres  # (C6)


@dataclass(frozen=True, eq=False)
class _Settled:
    """Centres (d, r), weights (R,), and the last assignment and errors that they were found from."""

    centres: Array
    weights: Array
    assignment: Assignment
    errors: Errors


@dataclass(frozen=True, eq=False)
class _Found:
    """What (C1) to (C5) find, with the panel of the start, the grouping of Algorithm 1 and the order of the clients."""

    settled: _Settled
    panel: Panel
    grouped: Grouped
    drawn: Drawn


@dataclass(frozen=True)
class _Fit:
    """(C1) to (C5), with the options of `find_consensus`."""

    n_components: int
    whiten: bool
    affinity: str
    n_init: int
    rng: np.random.Generator

    def run(self, atoms: Columns, owner: IntArray, client_weights: Array) -> _Found:
        """Start, weigh and average. atoms : (d, R); owner : (R,), ascending; client_weights : (K,)."""
        r, drawn = self.n_components, draw_clients(atoms, owner, self.rng)
        directions = leading_directions(atoms, r, margin=max(2 * r + MARGIN, MAX_OUTSIDE))
        whitened = directions.first(r).whitened(atoms) if self.whiten else atoms
        grouped = group_atoms(
            atoms, whitened, r, affinity=self.affinity, n_init=self.n_init, rng=self.rng, sample=drawn.sample()
        )
        panel = draw_panel(atoms, owner, drawn, r, directions)
        reference = find_start(panel, grouped.means, whiten=self.whiten, n_init=self.n_init, rng=self.rng)
        axes = directions.first(r + MAX_OUTSIDE).axes
        reweighing = _Reweighing(atoms, owner, client_weights, drawn.order[:MAX_CLIENTS], axes)
        alike = reweighing.run(reference, alike=True)
        unlike = reweighing.run(unit(alike.centres), alike=False)
        settled = unlike if _explained(alike, unlike, owner) else alike  # (C5)
        return _Found(settled, panel, grouped, drawn)


@dataclass(frozen=True, eq=False)
class _Reweighing:
    """Average all atoms, weighed by how well they agree.

    atoms : (d, R); owner : (R,); client_weights : (K,), given; looked_at : clients among whom shared errors are sought;
    axes : (p, d), leading directions of all atoms.
    """

    atoms: Columns
    owner: IntArray
    client_weights: Array
    looked_at: IntArray
    axes: Array

    def run(self, reference: Array, *, alike: bool) -> _Settled:
        """Repeat (C3) to (C5) until nothing moves. reference : (d, r), unit columns."""
        r = reference.shape[1]
        assignment = assign_atoms(self.atoms, self.owner, reference)
        duplicates = duplicate_weights(self.atoms, self.owner, assignment, r)
        for step in range(MAX_STEPS):
            errors = client_errors(self.atoms, self.owner, assignment, reference, self.looked_at, self.axes)
            weights = self._weights(assignment, errors, duplicates, alike=alike)
            labels, signs = assignment.labels, assignment.signs
            centres = group_means(self.atoms, labels, r, signs=signs, weights=weights, otherwise=reference)  # (C5)
            moved = np.abs(unit(centres) - reference).max()
            if moved <= 1e-7 or step == MAX_STEPS - 1:
                break
            reference = unit(centres)
            assignment = assign_atoms(self.atoms, self.owner, reference)
        return _Settled(centres, weights, assignment, errors)

    def _weights(self, assignment: Assignment, errors: Errors, duplicates: Array, *, alike: bool) -> Array:
        """Weight of every atom: (C3), (C4)."""
        owner, dimension, r = self.owner, errors.dimension, errors.vectors.shape[1]
        spreads = measure_spreads(assignment, owner, duplicates.size, r, dimension=dimension, alike=alike)
        weights = agreement_weights(assignment, owner, spreads, dimension=dimension)
        weights *= (self.client_weights * duplicates)[owner]
        counts = np.maximum(np.bincount(owner, weights=weights > 0), 1)
        of_client = np.bincount(owner, weights=weights) / counts
        scale = np.exp(spreads.of_component / 2)
        independent = independent_clients(self.atoms, owner, assignment, errors, of_client, scale)
        weights = np.asarray(weights * independent[owner])
        weights *= independent_atoms(self.atoms, owner, assignment, errors, weights, scale)
        return _with_orphans(weights, assignment, r)


def _with_orphans(weights: Array, assignment: Assignment, r: int) -> Array:
    """Return the weights, (R,); a component that only clients without weight see has the nearer half of their atoms."""
    labels = assignment.labels
    orphaned = np.bincount(labels[labels >= 0], weights=weights[labels >= 0], minlength=r) == 0
    if orphaned.any():
        near = nearest_halves(assignment.distance, labels, r)
        weights[near & orphaned[labels] & (labels >= 0)] = 1.0
    return weights


def _turn_jointly(fit: _Fit, found: _Found, owner: IntArray, client_weights: Array) -> Array:
    """Return the centres, (d, r); where clients are far from them, the answer of (C6) that serves others best."""
    panel, settled, n_clients = found.panel, found.settled, int(owner[-1]) + 1
    if not MIN_CLIENTS_TO_TURN <= n_clients == int(panel.owner[-1]) + 1:  # very many clients are not turned
        return settled.centres
    reference = panel.seen(settled.centres)
    chance = half_distance(panel.atoms, panel.owner, chance_basis(reference, fit.rng))
    if half_distance(panel.atoms, panel.owner, reference) <= UNCLEAR * chance:
        return settled.centres
    best = TURNED
    if n_clients >= MIN_CLIENTS_TO_CHOOSE:
        votes = client_weights[owner][panel.columns]
        try:
            best = best_for_others(lambda own: _answers_of(fit, panel, own, votes), panel.coordinates, panel.owner)
        except GroupingError:  # too few distinct atoms without one of the folds
            best = CONSENSUS
    weights = _joint_weights(settled, owner)[panel.columns]
    answer = all_answers(panel.coordinates, panel.owner, weights, reference, n_init=fit.n_init, rng=fit.rng)[best]
    if best == CONSENSUS or not _all_supported(panel, answer, settled.weights[panel.columns]):
        return settled.centres
    return np.asarray(panel.in_features(answer) * np.linalg.norm(settled.centres, axis=0))


def _answers_of(fit: _Fit, panel: Panel, own: IntArray, votes: Array) -> tuple[Array, ...]:
    """Return the answers of (C6), (p, r) each, fitted to some atoms of the panel. votes : (n,), given weights."""
    owner = np.cumsum(np.diff(panel.owner[own], prepend=panel.owner[own[0]]) != 0)
    first = np.searchsorted(owner, np.arange(owner[-1] + 1))
    atoms = columns_of(panel.atoms.whole()[:, own], owner)
    settled = fit.run(atoms, owner, votes[own][first]).settled
    weights = _joint_weights(settled, owner)
    coordinates, reference = panel.coordinates[:, own], unit(settled.centres)
    return all_answers(coordinates, owner, weights, reference, n_init=fit.n_init, rng=fit.rng)


def _all_supported(panel: Panel, reference: Array, weights: Array) -> bool:
    """Whether every component, (p, r), has an atom that counts. weights : (n,)."""
    labels = assign_atoms(panel.atoms, panel.owner, reference).labels
    counting = labels[(labels >= 0) & (weights > 0)]
    return bool(np.unique(counting).size == reference.shape[1])


def _joint_weights(settled: _Settled, owner: IntArray) -> Array:
    """Weight of every assigned atom in (C6), (R,): one if its client counts, so that nobody floods it; else zero."""
    assigned = settled.assignment.labels >= 0
    of_client = np.bincount(owner, weights=settled.weights) / np.maximum(np.bincount(owner, weights=assigned), 1)
    counts = of_client > MIN_SHARE * np.median(of_client)
    return np.asarray(assigned & counts[owner], dtype=np.float64)


def _explained(alike: _Settled, unlike: _Settled, owner: IntArray) -> bool:
    """Whether independent errors explain the distance of the two answers; else clients that gained weight share one."""
    errors, labels = alike.errors, alike.assignment.labels
    own, rows = known_atoms(errors.clients, owner, labels)

    def shares(weights: Array) -> Array:
        table = np.zeros(errors.vectors.shape[:2])
        table[rows, labels[own]] = weights[own]
        return np.asarray(table / np.maximum(table.sum(axis=0), 1e-300))

    return explained_by_independent_errors(errors, shares(unlike.weights) - shares(alike.weights))  # (C5)

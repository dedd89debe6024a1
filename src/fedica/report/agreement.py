"""Angles between clients and components: the numbers that the page, the figures and the headline share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import f

from fedica.arrays import Array, BoolArray, IntArray
from fedica.records import Aggregate, Reason
from fedica.server import METHODS
from fedica.server.agreement import ATOM_CUT

VERDICTS = ("outlying", "weak", "trusted", "not judged")
"""In the order of concern."""
CONE_LEVEL = 0.95
MIN_ATOMS_FOR_CONE = 5
"""The scatter of fewer atoms is too uncertain to estimate the error of their centre."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Clients against components.

    Parameters
    ----------
    angles : ndarray of shape (K, r)
        Angle of the client's atom to the component, in degrees; 90 where it has none.
    has : ndarray of shape (K, r)
        Whether the client has an atom for the component.
    verdict : tuple of str
        Of each client; "not judged" if the aggregate holds no verdicts.
    why : tuple of Reason
        The reason for each verdict.
    angle, influence : ndarray of shape (K,)
        Median angle of a client's atoms; angle by which the result moves without it (NaN if not judged).
    n_atoms, n_unmatched : ndarray of shape (K,)
        Atoms sent; atoms that match no component.
    """

    angles: Array
    has: BoolArray
    verdict: tuple[str, ...]
    why: tuple[Reason, ...]
    angle: Array
    influence: Array
    n_atoms: IntArray
    n_unmatched: IntArray

    def worst_first(self) -> IntArray:
        """Return the clients in order of concern: by verdict, then by falling angle, then by name."""
        rank = np.array([self.rank(k) for k in range(len(self.verdict))], dtype=np.int64)
        return np.asarray(np.lexsort((np.arange(rank.size), -self.angle, rank)), dtype=np.int64)

    def rank(self, client: int) -> int:
        """Return the place of a client's verdict in ``VERDICTS``; a verdict of a later version comes last."""
        verdict = self.verdict[client]
        return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)


def agreement_of(aggregate: Aggregate) -> Agreement:
    """Collect the angles of all clients to all components: from the verdicts or, where there are none, the labels."""
    n_atoms = np.bincount(aggregate.client_of_atom, minlength=len(aggregate.clients))
    trust = aggregate.trust
    if trust is None:
        return _without_verdicts(aggregate, n_atoms)
    return Agreement(
        angles=trust.angles,
        has=np.asarray(trust.has, dtype=bool),
        verdict=trust.verdict,
        why=trust.why,
        angle=trust.angle,
        influence=trust.influence,
        n_atoms=n_atoms,
        n_unmatched=trust.n_unmatched,
    )


def _without_verdicts(aggregate: Aggregate, n_atoms: IntArray) -> Agreement:
    n_clients = n_atoms.size
    known = np.flatnonzero(aggregate.labels >= 0)
    owner, label = aggregate.client_of_atom[known], aggregate.labels[known]
    cosine = np.abs(np.einsum("dR,dR->R", aggregate.atoms[:, known], aggregate.mixing[:, label]))
    angles, has = (
        np.full((n_clients, aggregate.n_components), 90.0),
        np.zeros((n_clients, aggregate.n_components), bool),
    )
    np.minimum.at(angles, (owner, label), np.degrees(np.arccos(np.minimum(cosine, 1.0))))
    has[owner, label] = True
    return Agreement(
        angles=angles,
        has=has,
        verdict=("not judged",) * n_clients,
        why=(Reason("not-judged", {"method": aggregate.method}),) * n_clients,
        angle=np.array([np.median(row[mask]) if mask.any() else 90.0 for row, mask in zip(angles, has, strict=True)]),
        influence=np.full(n_clients, np.nan),
        n_atoms=n_atoms,
        n_unmatched=n_atoms - np.bincount(owner, minlength=n_clients),
    )


def confidence_cones(aggregate: Aggregate) -> Array:
    """Half-angle of the 95% confidence cone of each component, in degrees: (r,).

    Computed from the scatter S of a component's n atoms, taken as independent, without those farther than 2.5 times
    their median angle, which do not move a robust centre: the error of the centre has covariance S / n, and its squared
    length is approximated by a multiple of an F variable (Satterthwaite). NaN where there is no cone: fewer than five
    such atoms, a degenerate centre, a method without group centres. Errors common to all clients are not included.
    """
    cones = np.full(aggregate.n_components, np.nan)
    method = METHODS.get(aggregate.method)
    if method is None or not method.centres_groups:
        return cones
    degenerate = set(aggregate.degenerate.tolist())
    for a in range(aggregate.n_components):
        mine = np.flatnonzero(aggregate.labels == a)
        cosine = np.abs(aggregate.mixing[:, a] @ aggregate.atoms[:, mine])
        angle = np.arccos(np.minimum(cosine, 1.0))
        mine = mine[angle <= ATOM_CUT * np.median(angle)] if mine.size else mine
        if mine.size >= MIN_ATOMS_FOR_CONE and a not in degenerate:
            cones[a] = _cone(aggregate.atoms[:, mine] * aggregate.signs[mine], aggregate.mixing[:, a])
    return cones


def _cone(atoms: Array, axis: Array) -> float:
    """Half-angle of the cone around the axis (d,) for atoms (d, n), signed along it."""
    along = axis @ atoms
    tangent = atoms / np.maximum(along, 0.1) - axis[:, None]  # atoms projected onto the tangent plane at the axis
    tangent -= np.outer(axis, axis @ tangent)
    tangent -= tangent.mean(axis=1, keepdims=True)
    d, n = tangent.shape
    scatter = (tangent @ tangent.T if d <= n else tangent.T @ tangent) / ((n - 1) * n)
    total, squares, m = float(np.trace(scatter)), float((scatter**2).sum()), n - 1
    if total <= 1e-24:
        return 0.0
    # Unbiased estimate of tr(S^2): the plain one is too large for few atoms.
    unbiased = m**2 / ((m - 1) * (m + 2)) * (squares - total**2 / m)
    freedom = float(np.clip(total**2 / max(unbiased, total**2 / max(d - 1, 1)), 1.0, max(d - 1, 1)))
    return float(np.degrees(np.arctan(np.sqrt(total * f.ppf(CONE_LEVEL, freedom, freedom * m)))))

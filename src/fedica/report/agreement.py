"""Verdicts on clients and confidence cones of components, shared by the page, the figures and the headline."""

from __future__ import annotations

import numpy as np
from scipy.stats import f

from fedica.arrays import Array, IntArray
from fedica.records import IN_DOUBT, Aggregate, Reason, Trust
from fedica.server import METHODS
from fedica.server.agreement import ATOM_CUT

VERDICTS = (*IN_DOUBT, "partial", "trusted", "not judged")
"""In the order of concern."""
CONE_LEVEL = 0.95
MIN_ATOMS_FOR_CONE = 5
"""The scatter of fewer atoms is too uncertain to estimate the error of their centre."""


def trust_of(aggregate: Aggregate) -> Trust:
    """Return the verdicts; for an aggregate without verdicts, clients that are "not judged", with angles by label."""
    if aggregate.trust is not None:
        return aggregate.trust
    n_clients, r = len(aggregate.clients), aggregate.n_components
    known = np.flatnonzero(aggregate.labels >= 0)
    owner, label = aggregate.client_of_atom[known], aggregate.labels[known]
    cosine = np.abs(np.einsum("dR,dR->R", aggregate.atoms[:, known], aggregate.mixing[:, label]))
    angles, has = np.full((n_clients, r), 90.0), np.zeros((n_clients, r), dtype=bool)
    np.minimum.at(angles, (owner, label), np.degrees(np.arccos(np.minimum(cosine, 1.0))))
    has[owner, label] = True
    return Trust(
        clients=aggregate.clients,
        verdict=("not judged",) * n_clients,
        why=(Reason("not-judged", {"method": aggregate.method}),) * n_clients,
        angle=np.array([np.median(row[mask]) if mask.any() else 90.0 for row, mask in zip(angles, has, strict=True)]),
        angles=angles,
        has=has,
        n_unmatched=atoms_per_client(aggregate) - np.bincount(owner, minlength=n_clients),
        influence=np.full(n_clients, np.nan),
    )


def likeness_of(trust: Trust) -> Array:
    """Return the absolute cosine of each client's atom, or span, to each component: (K, r)."""
    return np.asarray(np.cos(np.radians(trust.angles)))


def chance_of(trust: Trust) -> Array:
    """Return the likeness that chance gives, as in the reasons: (K,); 0 where it is not known."""
    return np.array([float(why.numbers.get("chance", 0.0)) for why in trust.why])


def over_chance(trust: Trust) -> Array:
    """Return how far each likeness is from chance, 0, to equality, 1: (K, r)."""
    chance = np.minimum(chance_of(trust), 0.999)[:, None]
    return np.asarray(np.clip((likeness_of(trust) - chance) / (1 - chance), 0.0, 1.0))


def atoms_per_client(aggregate: Aggregate) -> IntArray:
    """Return the number of atoms that each client sent: (K,)."""
    return np.bincount(aggregate.client_of_atom, minlength=len(aggregate.clients))


def concern(verdict: str) -> int:
    """Return the place of a verdict in ``VERDICTS``; a verdict of a later version comes last."""
    return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)


def worst_first(trust: Trust) -> list[int]:
    """Return the clients in order of concern: by verdict, then by falling angle, then by name."""
    return sorted(range(len(trust)), key=lambda k: (concern(trust.verdict[k]), -trust.angle[k]))


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

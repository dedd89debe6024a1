"""Attacks by clients that have read the server's code, and aim at one of its steps. Signatures as in `hostile`."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, polar, unit
from fedica.simulate.forging import Forge, Scene, whole
from fedica.simulate.settings import not_negative


def outside_span(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send orthonormal atoms outside the span of the components, which raise the rank of all atoms together.

    strength : number of atoms, rounded up; more than d - r of them cannot all lie outside, and are a random basis.
    Colluding: all the same ones.
    """
    basis = scene.span()
    d, r = basis.shape
    n_atoms = min(d, int(np.ceil(not_negative(strength, "strength"))) or 1)

    def forge(k: int) -> Array:
        drawn = scene.rng("outside", k, colluding=colluding).standard_normal((d, n_atoms))
        return polar(drawn if n_atoms > d - r else drawn - basis @ (basis.T @ drawn))

    return forge


def tight_basis(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send all r atoms of a wrong basis, even where honest clients have a part of the components or are noisy.

    strength : length of what the attackers' atoms differ by. Colluding: all near the same basis.
    """
    length = not_negative(strength, "strength")
    basis = scene.span()
    r = basis.shape[1]

    def forge(k: int) -> Array:
        wrong = polar(scene.rng("basis", k, colluding=colluding).standard_normal((r, r)))
        own = scene.rng("tightness", k, colluding=False).standard_normal((r, r))
        return np.asarray(basis @ (wrong + length * own / np.sqrt(r)))

    return forge


def bent_atoms(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send the true components but for a few, each turned by 45 degrees towards another one.

    strength : number of these. Colluding: all the same ones.
    """
    n_bent = whole(strength)
    truth = scene.federation.mixing

    def forge(k: int) -> Array:
        order = scene.rng("bent", k, colluding=colluding).permutation(truth.shape[1])
        bent, towards = order[:n_bent], np.roll(order, -n_bent)[:n_bent]
        atoms = truth.copy()
        atoms[:, bent] = unit(truth[:, bent] + truth[:, towards])
        return atoms[:, scene.federation.components(k)]

    return forge


def lean(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send the honest means, each with a leak that stays inside the spread of the honest clients.

    strength : length of the leak, in typical errors of an honest client. Colluding: all the same leak.
    """
    return _leaning(scene, strength, colluding, np.ones(scene.federation.mixing.shape[1], dtype=np.bool_))


def lean_one(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Lean as `lean` does, with the first component alone."""
    return _leaning(scene, strength, colluding, np.arange(scene.federation.mixing.shape[1]) == 0)


def _leaning(scene: Scene, strength: float, colluding: bool, chosen: Array) -> Forge:
    size = not_negative(strength, "strength")
    known = scene.federation
    means, lengths = honest_leaks(scene)

    def forge(k: int) -> Array:
        leak = size * lengths * chosen * leak_directions(means.shape[0], scene.rng("lean", k, colluding=colluding))
        return np.asarray(known.mixing @ (means + leak))[:, known.components(k)]

    return forge


def honest_leaks(scene: Scene) -> tuple[Array, Array]:
    """Return what the honest atoms of each component are in terms of the true ones: their mean, and a typical error.

    Returns
    -------
    means : ndarray of shape (r, r)
        One column per component, one on the diagonal. The identity for a component that no honest client has.
    lengths : ndarray of shape (r,)
        Median length of what leaks into an honest atom.
    """
    known = scene.federation
    sources = np.linalg.pinv(known.mixing)
    r = len(sources)
    means, lengths = np.eye(r), np.zeros(r)
    for a in range(r):
        atoms = sources @ known.honest_atoms(a)
        if atoms.shape[1]:
            means[:, a] = unit(atoms).mean(axis=1)
            means[:, a] /= max(means[a, a], 0.1)
            lengths[a] = np.median(np.linalg.norm(np.delete(atoms, a, axis=0), axis=0) / np.maximum(atoms[a], 0.1))
    return means, lengths


def leak_directions(n_components: int, rng: np.random.Generator) -> Array:
    """Draw the direction into which each component leaks: (r, r), unit columns with zero diagonal."""
    return unit(rng.standard_normal((n_components, n_components)) * (1 - np.eye(n_components)))


def added_phantoms(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send one's own atoms, and directions that are no components beside them.

    strength : number of these. Colluding: all the same directions. No more than d atoms are sent.
    """
    n_added = whole(strength)
    d = scene.federation.mixing.shape[0]

    def forge(k: int) -> Array:
        drawn = scene.rng("added", k, colluding=colluding).standard_normal((d, min(n_added, d)))
        return np.concatenate([scene.federation.aligned(k)[:, : d - drawn.shape[1]], polar(drawn)], axis=1)

    return forge


def merged_components(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send the sum of two atoms in their place: two components as one, one atom fewer.

    strength : number of pairs that are merged. Colluding: all merge the same components.
    """
    n_pairs = whole(strength)
    known = scene.federation

    def forge(k: int) -> Array:
        rank = np.argsort(scene.rng("merged", k, colluding=colluding).permutation(known.mixing.shape[1]))
        atoms = known.aligned(k)[:, np.argsort(rank[known.labels[k]], kind="stable")]
        n = min(n_pairs, atoms.shape[1] // 2)
        return np.concatenate([unit(atoms[:, :n] + atoms[:, n : 2 * n]), atoms[:, 2 * n :]], axis=1)

    return forge

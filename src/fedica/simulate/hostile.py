"""Attacks that move atoms beyond the spread of the honest clients: wrong bases, rotations, phantoms, floods, bridges.

Every attack is a function of a scene, a strength, and whether the attackers collude. It returns what each attacker
sends, as a function of the attacker's index; `fedica.simulate.attacks` lists the attacks with their usual strengths.
"""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, check_number, polar, unit
from fedica.simulate.forging import Forge, Forged, Scene, whole
from fedica.simulate.settings import not_negative


def random_bases(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send a random orthonormal basis; colluding: all the same one.

    strength : between 0 (the true atoms) and 1 (independent of the true atoms).
    """
    weight = not_negative(strength, "strength", at_most=1)

    def forge(k: int) -> Array:
        wrong = _basis(scene, k, colluding=colluding)
        return (1 - weight) * scene.federation.aligned(k) + weight * wrong

    return forge


def rotation(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Rotate the true atoms; colluding: all by the same rotation.

    strength : the angle, in degrees. Every vector in the span of the components turns by exactly this angle when its
    dimension is even; when it is odd, one axis is fixed, and vectors near it turn less.
    """
    angle = np.deg2rad(not_negative(strength, "strength", at_most=90))
    basis = scene.span()

    def forge(k: int) -> Array:
        rng = scene.rng("rotation", k, colluding=colluding)
        own = scene.federation.aligned(k)
        inside = basis.T @ own
        return own + basis @ (_isoclinic(basis.shape[1], float(angle), rng) @ inside - inside)

    return forge


def phantom(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Replace an atom by a direction that is no component, the nearest one; colluding: all by the same direction.

    strength : number of atoms, each replaced by a different direction.
    """
    n_phantoms = whole(strength)

    def forge(k: int) -> Array:
        rng = scene.rng("phantom", k, colluding=colluding)
        atoms = scene.federation.aligned(k)
        left = np.ones(atoms.shape[1], dtype=bool)
        for _ in range(min(n_phantoms, left.size)):
            false = scene.direction(rng)
            nearest = int(np.argmax(np.where(left, np.abs(false.T @ atoms).ravel(), -1)))
            atoms[:, [nearest]] = false
            left[nearest] = False
        return atoms

    return forge


def flood_false(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send copies of one direction that is no component; colluding: all the same direction.

    strength : share of a client's atoms that are copies.
    """

    def forge(k: int) -> Array:
        rng = scene.rng("flood", k, colluding=colluding)
        return _flooded(scene, k, scene.direction(rng), strength)

    return forge


def flood_true(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send copies of one atom that the client found; colluding: all of one atom, found by one of them.

    strength : share of a client's atoms that are copies.
    """

    def forge(k: int) -> Array:
        found = scene.federation.aligned(scene.speaker(k, colluding=colluding))
        chosen = scene.rng("flood", k, colluding=colluding).integers(found.shape[1])
        return _flooded(scene, k, found[:, [chosen]], strength)

    return forge


def bridges(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send sums of two true atoms, which connect their groups; colluding: all the same pairs and signs.

    strength : weight of the second atom; 1: halfway between the two.
    """
    weight = not_negative(strength, "strength")
    truth = scene.federation.mixing

    def forge(k: int) -> Array:
        rng = scene.rng("bridges", k, colluding=colluding)
        order = rng.permutation(truth.shape[1])
        partner = np.empty_like(order)
        partner[order] = np.roll(order, 1)  # one cycle through all components: none is its own partner
        signs = rng.choice([-1.0, 1.0], order.size)
        own = scene.federation.labels[k]
        return np.asarray(truth[:, own] + weight * truth[:, partner[own]] * signs[own])

    return forge


def inflated_samples(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send a wrong basis and declare many samples; colluding: all the same basis.

    strength : factor on the declared number of samples.
    """
    factor = check_number(strength, "strength", above=0)

    def forge(k: int) -> Forged:
        declared = scene.federation.contributions[k].n_samples or 5000
        return _basis(scene, k, colluding=colluding), {"n_samples": max(1, int(factor * declared))}

    return forge


def _basis(scene: Scene, k: int, *, colluding: bool) -> Array:
    """Draw a wrong orthonormal basis of the span of the components; return the columns of client k's components."""
    basis = scene.span()
    r = basis.shape[1]
    wrong = basis @ polar(scene.rng("basis", k, colluding=colluding).standard_normal((r, r)))
    return np.asarray(wrong[:, scene.federation.labels[k]])


def _flooded(scene: Scene, k: int, direction: Array, strength: float) -> Array:
    weight = check_number(strength, "strength", above=0, below=np.nextafter(1, 2))
    atoms = scene.federation.aligned(k)
    n_copies = int(np.ceil(weight * atoms.shape[1] - 1e-9))
    atoms[:, :n_copies] = unit(direction)
    return atoms


def _isoclinic(r: int, angle: float, rng: np.random.Generator) -> Array:
    """Draw a rotation of R^r that turns pairs of orthogonal axes by the same angle: (r, r)."""
    frame = polar(rng.standard_normal((r, r)))
    turn = np.eye(r)
    first, second = np.arange(0, r - 1, 2), np.arange(1, r, 2)
    turn[first, first] = turn[second, second] = np.cos(angle)
    turn[first, second], turn[second, first] = -np.sin(angle), np.sin(angle)
    return np.asarray(frame @ turn @ frame.T)

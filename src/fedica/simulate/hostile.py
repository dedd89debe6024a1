"""Attacks that move atoms beyond the honest clients' own spread: wrong bases, rotations, phantoms, floods, bridges."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedica.arrays import Array, RandomState, check_number, polar, unit
from fedica.simulate.atoms import AtomFederation
from fedica.simulate.federation import not_negative
from fedica.simulate.forging import Scene, choose_attackers, whole


def random_bases(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.0,
    colluding: bool = False,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send a random orthonormal basis; colluding: all the same one.

    strength : between 0 (the true atoms) and 1 (nothing of them left).
    """
    scene = choose_attackers(federation, share, random_state)
    weight = not_negative(strength, "strength", at_most=1)

    def forge(k: int) -> Array:
        wrong = _basis(scene, k, colluding=colluding)
        return (1 - weight) * scene.federation.aligned(k) + weight * wrong

    return scene.send(forge)


def rotation(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 30.0,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Rotate the true atoms; colluding: all by the same rotation.

    strength : the angle, in degrees. Every vector of the components' space turns by exactly this angle when its
    dimension is even; when it is odd one axis stays, and vectors near it turn less.
    """
    scene = choose_attackers(federation, share, random_state)
    angle = np.deg2rad(not_negative(strength, "strength", at_most=90))
    basis = scene.span()

    def forge(k: int) -> Array:
        rng = scene.rng("rotation", k, colluding=colluding)
        own = scene.federation.aligned(k)
        inside = basis.T @ own
        return own + basis @ (_isoclinic(basis.shape[1], float(angle), rng) @ inside - inside)

    return scene.send(forge)


def phantom(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Replace the atom nearest to it by a direction that is no component; colluding: all by the same direction.

    strength : how many atoms, each by a direction of its own.
    """
    scene = choose_attackers(federation, share, random_state)
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

    return scene.send(forge)


def flood_false(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.0,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send copies of one direction that is no component; colluding: all the same direction.

    strength : share of a client's atoms that are copies.
    """
    scene = choose_attackers(federation, share, random_state)

    def forge(k: int) -> Array:
        rng = scene.rng("flood", k, colluding=colluding)
        return _flooded(scene, k, scene.direction(rng), strength)

    return scene.send(forge)


def flood_true(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.0,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send copies of one atom that the client found; colluding: all of the same atom, found by one of them.

    strength : share of a client's atoms that are copies.
    """
    scene = choose_attackers(federation, share, random_state)

    def forge(k: int) -> Array:
        speaker = scene.attackers[0] if colluding else k
        found = scene.federation.aligned(speaker)
        chosen = scene.rng("flood", k, colluding=colluding).integers(found.shape[1])
        return _flooded(scene, k, found[:, [chosen]], strength)

    return scene.send(forge)


def bridges(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.0,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send sums of two true atoms, which tie their groups together; colluding: all the same pairs and signs.

    strength : weight of the second atom; 1: halfway between the two.
    """
    scene = choose_attackers(federation, share, random_state)
    weight = not_negative(strength, "strength")
    truth = federation.mixing

    def forge(k: int) -> Array:
        rng = scene.rng("bridges", k, colluding=colluding)
        order = rng.permutation(truth.shape[1])
        partner = np.empty_like(order)
        partner[order] = np.roll(order, 1)  # one cycle through all components: nobody is its own partner
        signs = rng.choice([-1.0, 1.0], order.size)
        own = scene.federation.labels[k]
        return np.asarray(truth[:, own] + weight * truth[:, partner[own]] * signs[own])

    return scene.send(forge)


def inflated_samples(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1000.0,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send a wrong basis and claim to have found it from many samples; colluding: all the same basis.

    strength : by how much the declared number of samples is inflated.
    """
    scene = choose_attackers(federation, share, random_state)
    factor = check_number(strength, "strength", above=0)

    def forge(k: int) -> tuple[Array, dict[str, Any]]:
        declared = federation.contributions[k].n_samples or 5000
        return _basis(scene, k, colluding=colluding), {"n_samples": max(1, int(factor * declared))}

    return scene.send(forge)


def _basis(scene: Scene, k: int, *, colluding: bool) -> Array:
    """Draw a wrong orthonormal basis of the components' space; take the columns that client k is to have."""
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

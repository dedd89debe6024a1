"""Honest mistakes: clients without bad intentions whose contributions are wrong. Signatures as in `hostile`."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, check_number, unit
from fedica.simulate.forging import Forge, Forged, Scene, whole
from fedica.simulate.settings import not_negative


def permuted_channels(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send atoms whose features are in the wrong order; colluding: all in the same wrong order.

    strength : share of the features that are out of place; at least two.
    """
    weight = check_number(strength, "strength", above=0, below=np.nextafter(1, 2))
    d = scene.federation.mixing.shape[0]
    n_moved = min(d, max(2, round(weight * d)))

    def forge(k: int) -> Array:
        moved = scene.rng("channels", k, colluding=colluding).permutation(d)[:n_moved]
        order = np.arange(d)
        order[moved] = np.roll(moved, 1)  # one cycle: every one of them moves
        return scene.federation.aligned(k)[order]

    return forge


def flipped_maps(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send maps flipped left for right, or features in reverse order where they have no places.

    strength : share of a client's atoms that are flipped. Colluding: the first ones; otherwise drawn by each.
    """
    weight = check_number(strength, "strength", above=0, below=np.nextafter(1, 2))
    sheet = scene.federation.sheet

    def forge(k: int) -> Array:
        atoms = scene.federation.aligned(k)
        n = atoms.shape[1]
        order = np.arange(n) if colluding else scene.rng("flipped", k, colluding=False).permutation(n)
        chosen = order[: max(1, round(weight * n))]
        atoms[:, chosen] = atoms[::-1, chosen] if sheet is None else sheet.flip(atoms[:, chosen])
        return atoms

    return forge


def shifted_features(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Use the mask of another study: every feature is where another one should be.

    strength : by how many places, as a share of all features; at least one. Colluding: all use the same mask;
    otherwise each shifts forwards or backwards.
    """
    weight = check_number(strength, "strength", above=0, below=1)
    n_places = max(1, round(weight * scene.federation.mixing.shape[0]))

    def forge(k: int) -> Array:
        direction = scene.rng("mask", k, colluding=colluding).choice([-1, 1])
        return np.roll(scene.federation.aligned(k), direction * n_places, axis=0)

    return forge


def noise_alone(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Have nothing but noise: as smooth as that of the federation, where its features have places.

    strength : between 0 (the client's own atoms) and 1. Colluding: all the same noise.
    """
    weight = not_negative(strength, "strength", at_most=1)
    sheet = scene.federation.sheet

    def forge(k: int) -> Array:
        rng, own = scene.rng("alone", k, colluding=colluding), scene.federation.aligned(k)
        noise = unit(rng.standard_normal(own.shape)) if sheet is None else sheet.noise(own.shape[1], rng)
        return np.asarray((1 - weight) * own + weight * noise)

    return forge


def claims_orthogonal(scene: Scene, _strength: float, _colluding: bool) -> Forge:
    """Send one's own atoms and declare that the mixing matrix is orthogonal, whatever it is."""

    def forge(k: int) -> Forged:
        return scene.federation.aligned(k), {"mixing": "orthogonal"}

    return forge


def rescaled_channels(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send atoms of features that the client rescaled; colluding: all by the same factors.

    strength : standard deviation of the logarithm of a factor.
    """
    deviation = not_negative(strength, "strength", at_most=50)
    d = scene.federation.mixing.shape[0]

    def forge(k: int) -> Array:
        factors = np.exp(deviation * scene.rng("scales", k, colluding=colluding).standard_normal((d, 1)))
        return factors * scene.federation.aligned(k)

    return forge


def dropped_component(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Miss components; colluding: all miss the same ones. A client keeps at least one atom.

    strength : number of missing components.
    """
    n_dropped = whole(strength)

    def forge(k: int) -> Array:
        rng = scene.rng("dropped", k, colluding=colluding)
        rank = np.argsort(rng.permutation(scene.federation.mixing.shape[1]))[scene.federation.labels[k]]
        kept = np.sort(np.argsort(rank)[min(n_dropped, rank.size - 1) :])
        return scene.federation.aligned(k)[:, kept]

    return forge


def few_samples(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Have few samples and declare them: the client's own errors grow as 1 / sqrt(n_samples).

    strength : factor on the errors; the declared samples are divided by its square. Colluding: all have the errors of
    one of them.
    """
    factor = check_number(strength, "strength", above=0)
    known = scene.federation

    def forge(k: int) -> Forged:
        speaker = scene.speaker(k, colluding=colluding)
        truth = known.mixing[:, known.labels[speaker]]
        declared = known.contributions[k].n_samples
        fewer = None if declared is None else max(1, round(declared / factor**2))
        return truth + factor * (known.aligned(speaker) - truth), {"n_samples": fewer}

    return forge


def strong_noise(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Have noisy data unknowingly: the declared samples do not explain the errors.

    strength : length of the isotropic error added to every atom. Colluding: the same error.
    """
    level = not_negative(strength, "strength")
    d, r = scene.federation.mixing.shape

    def forge(k: int) -> Array:
        noise = scene.rng("noise", k, colluding=colluding).standard_normal((d, r)) / np.sqrt(d)
        return np.asarray(scene.federation.aligned(k) + level * noise[:, scene.federation.labels[k]])

    return forge


def duplicated_clients(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send the atoms of an honest client, drawn at random, under another name: the same data twice.

    strength : number of copies of the same client. Colluding: all copy one client.
    """
    n_copies = whole(strength)
    known = scene.federation
    victims = scene.rng("victims", 0, colluding=True).permutation(np.flatnonzero(known.honest))

    def forge(k: int) -> Forged:
        number = 0 if colluding else scene.attackers.index(k) // n_copies % victims.size
        victim = int(victims[number])
        return known.aligned(victim), {"n_samples": known.contributions[victim].n_samples}

    return forge

"""Attacks that hide within the spread of the honest clients. Signatures as in `hostile`.

ALIE, inner-product manipulation and mimicry are those of the literature on federated learning, as ByzFL defines them
for gradients, carried over to atoms: per component, on the honest atoms with aligned signs, rescaled to unit norm.
"""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, unit
from fedica.simulate.forging import Forge, Scene
from fedica.simulate.settings import not_negative


def alie(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send the honest mean plus ``strength`` standard deviations, coordinate by coordinate: a little is enough.

    Colluding: all shift every coordinate the same way; otherwise each draws a sign for every coordinate.
    """
    tau = not_negative(strength, "strength")
    known = scene.federation
    d, r = known.mixing.shape
    means, deviations = np.empty((d, r)), np.zeros((d, r))
    for a in range(r):
        atoms = known.honest_atoms(a)
        means[:, a] = atoms.mean(axis=1) if atoms.shape[1] else known.mixing[:, a]
        if atoms.shape[1] > 1:
            deviations[:, a] = atoms.std(axis=1, ddof=1)

    def forge(k: int) -> Array:
        signs = np.ones((d, r)) if colluding else scene.rng("alie", k, colluding=False).choice([-1.0, 1.0], (d, r))
        return (means + tau * signs * deviations)[:, known.labels[k]]

    return forge


def inner_product(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send the client's own atom minus ``strength`` times the honest mean: inner-product manipulation.

    For gradients it is (1 - strength) times the mean, which reverses the update. An atom has no sign, so the worst
    inner product with the mean is zero: at strength 1 the client's own error remains, orthogonal to the mean.
    Colluding: all send the error of the same attacker.
    """
    factor = not_negative(strength, "strength")
    centres = scene.federation.honest_mean()

    def forge(k: int) -> Array:
        speaker = scene.speaker(k, colluding=colluding)
        labels = scene.federation.labels[speaker]
        manipulated = scene.federation.aligned(speaker) - factor * centres[:, labels]
        gone = np.linalg.norm(manipulated, axis=0) < 1e-9  # an attacker without any error has nothing to send
        manipulated[:, gone] = centres[:, labels[gone]]
        return manipulated

    return forge


def mimicry(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send a copy of what an honest client sends, so that this client counts several times.

    strength : which client, between 0 (the nearest to the honest mean) and 1 (the farthest). Colluding: all copy the
    same client; otherwise each copies another, from that one towards the median.
    """
    quantile = not_negative(strength, "strength", at_most=1)
    known = scene.federation
    centres = scene.federation.honest_mean()
    honest = np.flatnonzero(known.honest)
    distances = [np.mean(1 - np.sum(known.aligned(int(k)) * centres[:, known.labels[k]], axis=0)) for k in honest]
    by_distance = honest[np.argsort(distances, kind="stable")]
    victim = round(quantile * (honest.size - 1))
    if victim >= honest.size / 2:  # towards the median
        victims = np.concatenate([by_distance[victim::-1], by_distance[:victim:-1]])
    else:
        victims = np.concatenate([by_distance[victim:], by_distance[:victim]])

    def forge(k: int) -> Array:
        number = 0 if colluding else scene.attackers.index(k) % victims.size
        return known.aligned(int(victims[number]))

    return forge


def turned_means(scene: Scene, strength: float, colluding: bool) -> Forge:
    """Send the honest means turned by an angle; colluding: all turn a component towards the same direction.

    strength : the angle, in degrees.
    """
    angle = np.deg2rad(not_negative(strength, "strength", at_most=90))
    centres, basis = scene.federation.honest_mean(), scene.span()

    def forge(k: int) -> Array:
        rng = scene.rng("aside", k, colluding=colluding)
        drawn = basis @ rng.standard_normal((basis.shape[1], centres.shape[1]))
        asides = unit(drawn - centres * np.sum(centres * drawn, axis=0))  # orthogonal to the centres
        return np.asarray(np.cos(angle) * centres + np.sin(angle) * asides)[:, scene.federation.labels[k]]

    return forge

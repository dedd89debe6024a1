"""Attacks that hide inside the honest clients' spread, or look for the strength that does the most harm.

ALIE, inner-product manipulation and mimicry are those of the literature on federated learning, as ByzFL defines them
for gradients, carried over to atoms: per component, on the honest atoms with their signs aligned, scaled to one again.
"""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, RandomState, check_number, unit
from fedica.simulate.atoms import AtomFederation
from fedica.simulate.federation import not_negative
from fedica.simulate.forging import Scene, Server, choose_attackers, most_harmful


def alie(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.5,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send the honest mean plus ``strength`` standard deviations, coordinate by coordinate: a little is enough.

    Colluding: all move every coordinate the same way; otherwise each draws a sign for every coordinate.
    """
    scene = choose_attackers(federation, share, random_state)
    return _alie(scene, not_negative(strength, "strength"), colluding=colluding)


def alie_optimised(
    federation: AtomFederation,
    share: float,
    server: Server,
    *,
    strength: float = 6.0,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send the honest mean plus the number of standard deviations that harms this server most.

    strength : the largest number that is tried.
    """
    scene = choose_attackers(federation, share, random_state)
    upper = check_number(strength, "strength", above=0)
    return most_harmful(scene, lambda tau: _alie(scene, tau, colluding=colluding), server, upper)


def inner_product(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.0,
    colluding: bool = False,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send the client's own atom minus ``strength`` times the honest mean: inner-product manipulation.

    For gradients it is (1 - strength) times the mean, to turn the answer against it. An atom has no sign, so the worst
    inner product with the mean is zero: at strength 1 what is left is the client's own error, at a right angle to the
    mean. Colluding: all send the error of the same attacker.
    """
    scene = choose_attackers(federation, share, random_state)
    factor = not_negative(strength, "strength")
    centres = scene.honest_centres()

    def forge(k: int) -> Array:
        speaker = scene.attackers[0] if colluding else k
        labels = scene.federation.labels[speaker]
        manipulated = scene.federation.aligned(speaker) - factor * centres[:, labels]
        gone = np.linalg.norm(manipulated, axis=0) < 1e-9  # an attacker without any error has nothing to send
        manipulated[:, gone] = centres[:, labels[gone]]
        return manipulated

    return scene.send(forge)


def mimicry(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.0,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send exactly what an honest client sends, so that it counts many times.

    strength : which one, between 0 (the nearest to the honest mean) and 1 (the farthest). Colluding: all the same
    client; otherwise each another, from that one towards the middle.
    """
    scene = choose_attackers(federation, share, random_state)
    quantile = not_negative(strength, "strength", at_most=1)
    known = scene.federation
    centres = scene.honest_centres()
    honest = np.flatnonzero(known.honest)
    distances = [np.mean(1 - np.sum(known.aligned(int(k)) * centres[:, known.labels[k]], axis=0)) for k in honest]
    by_distance = honest[np.argsort(distances, kind="stable")]
    victim = round(quantile * (honest.size - 1))
    if victim >= honest.size / 2:  # towards the middle
        victims = np.concatenate([by_distance[victim::-1], by_distance[:victim:-1]])
    else:
        victims = np.concatenate([by_distance[victim:], by_distance[:victim]])

    def forge(k: int) -> Array:
        number = 0 if colluding else scene.attackers.index(k) % victims.size
        return known.aligned(int(victims[number]))

    return scene.send(forge)


def worst_angle(
    federation: AtomFederation,
    share: float,
    server: Server,
    *,
    strength: float = 90.0,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send the honest means turned by the angle that harms this server most.

    strength : the largest angle that is tried, in degrees. Colluding: all turn a component towards the same direction.
    """
    scene = choose_attackers(federation, share, random_state)
    upper = check_number(strength, "strength", above=0, below=np.nextafter(90, 91))
    centres = scene.honest_centres()
    asides = {k: _asides(scene, centres, k, colluding=colluding) for k in scene.attackers}

    def at(degrees: float) -> AtomFederation:
        angle = np.deg2rad(degrees)

        def forge(k: int) -> Array:
            own = scene.federation.labels[k]
            return np.asarray(np.cos(angle) * centres[:, own] + np.sin(angle) * asides[k][:, own])

        return scene.send(forge)

    return most_harmful(scene, at, server, upper)


def _alie(scene: Scene, tau: float, *, colluding: bool) -> AtomFederation:
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
        own = known.labels[k]
        return (means + tau * signs * deviations)[:, own]

    return scene.send(forge)


def _asides(scene: Scene, centres: Array, k: int, *, colluding: bool) -> Array:
    """Draw for every component a unit vector of the components' space at a right angle to its centre: (d, r)."""
    basis = scene.span()
    rng = scene.rng("aside", k, colluding=colluding)
    drawn = basis @ rng.standard_normal((basis.shape[1], centres.shape[1]))
    return unit(drawn - centres * np.sum(centres * drawn, axis=0))

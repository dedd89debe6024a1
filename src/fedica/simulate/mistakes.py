"""Honest mistakes: clients that mean well and still send something wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedica.arrays import Array, RandomState, check_number
from fedica.simulate.atoms import AtomFederation
from fedica.simulate.federation import not_negative
from fedica.simulate.forging import choose_attackers, whole


def permuted_channels(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.0,
    colluding: bool = False,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send atoms whose features are in the wrong order; colluding: all in the same wrong order.

    strength : share of the features that are out of place; at least two.
    """
    scene = choose_attackers(federation, share, random_state)
    weight = check_number(strength, "strength", above=0, below=np.nextafter(1, 2))
    d = federation.mixing.shape[0]
    n_moved = min(d, max(2, round(weight * d)))

    def forge(k: int) -> Array:
        moved = scene.rng("channels", k, colluding=colluding).permutation(d)[:n_moved]
        order = np.arange(d)
        order[moved] = np.roll(moved, 1)  # one cycle: every one of them moves
        return scene.federation.aligned(k)[order]

    return scene.send(forge)


def rescaled_channels(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1.0,
    colluding: bool = False,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send atoms of features that the client scaled by itself; colluding: all with the same factors.

    strength : standard deviation of the logarithm of a factor.
    """
    scene = choose_attackers(federation, share, random_state)
    deviation = not_negative(strength, "strength", at_most=50)
    d = federation.mixing.shape[0]

    def forge(k: int) -> Array:
        factors = np.exp(deviation * scene.rng("scales", k, colluding=colluding).standard_normal((d, 1)))
        return factors * scene.federation.aligned(k)

    return scene.send(forge)


def dropped_component(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1,
    colluding: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Miss components; colluding: all miss the same ones. A client keeps at least one atom.

    strength : how many.
    """
    scene = choose_attackers(federation, share, random_state)
    n_dropped = whole(strength)

    def forge(k: int) -> Array:
        rng = scene.rng("dropped", k, colluding=colluding)
        rank = np.argsort(rng.permutation(federation.mixing.shape[1]))[scene.federation.labels[k]]
        kept = np.sort(np.argsort(rank)[min(n_dropped, rank.size - 1) :])
        return scene.federation.aligned(k)[:, kept]

    return scene.send(forge)


def few_samples(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 4.0,
    colluding: bool = False,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Have few samples, and say so: the client's own errors grow as 1 / sqrt(n_samples).

    strength : how many times larger the errors are; the declared samples are fewer by its square. Colluding: all have
    the same errors, those of one of them.
    """
    scene = choose_attackers(federation, share, random_state)
    factor = check_number(strength, "strength", above=0)
    known = scene.federation

    def forge(k: int) -> tuple[Array, dict[str, Any]]:
        speaker = scene.attackers[0] if colluding else k
        truth = known.mixing[:, known.labels[speaker]]
        declared = federation.contributions[k].n_samples
        fewer = None if declared is None else max(1, round(declared / factor**2))
        return truth + factor * (known.aligned(speaker) - truth), {"n_samples": fewer}

    return scene.send(forge)


def strong_noise(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 0.5,
    colluding: bool = False,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Have noisy data without knowing it: the declared samples do not explain the errors.

    strength : length of the error that is added to every atom, in all directions alike. Colluding: the same error.
    """
    scene = choose_attackers(federation, share, random_state)
    level = not_negative(strength, "strength")
    d, r = federation.mixing.shape

    def forge(k: int) -> Array:
        noise = scene.rng("noise", k, colluding=colluding).standard_normal((d, r)) / np.sqrt(d)
        return np.asarray(scene.federation.aligned(k) + level * noise[:, scene.federation.labels[k]])

    return scene.send(forge)


def duplicated_clients(
    federation: AtomFederation,
    share: float,
    *,
    strength: float = 1,
    colluding: bool = False,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Send the same data twice, under another name: the atoms of an honest client drawn at random.

    strength : how many copies there are of the same client. Colluding: all are copies of one.
    """
    scene = choose_attackers(federation, share, random_state)
    n_copies = whole(strength)
    known = scene.federation
    victims = scene.rng("victims", 0, colluding=True).permutation(np.flatnonzero(known.honest))

    def forge(k: int) -> tuple[Array, dict[str, Any]]:
        number = 0 if colluding else scene.attackers.index(k) // n_copies % victims.size
        victim = int(victims[number])
        return known.aligned(victim), {"n_samples": known.contributions[victim].n_samples}

    return scene.send(forge)

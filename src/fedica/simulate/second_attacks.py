"""Attacks by clients that send a second message: in their data, which both messages or the second alone tell of.

Attackers know the true mixing matrix and the step that the server takes. Their data is that of honest clients with
another mixing matrix, so that every number that they send is one that samples have; all of them collude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from scipy.linalg import expm

from fedica.arrays import Array, BoolArray, RandomState, check_number, unit
from fedica.local import score
from fedica.matching import match
from fedica.records import Aggregate, Contribution, Scores
from fedica.simulate.federation import Federation
from fedica.simulate.forging import draw_honest, read_attack
from fedica.simulate.mixing import random_mixing
from fedica.simulate.streams import seed_of, stream

INFLATED = 10**6
"""Factor on the samples that loud attackers declare."""

_Message = TypeVar("_Message", Contribution, Scores)
Turn = Callable[[Array, float, np.random.Generator], Array]
"""From the true mixing matrix (d, r) and a strength to that of the attackers' data."""


def common_turn(mixing: Array, strength: float, rng: np.random.Generator) -> Array:
    """Turn every component by about so many degrees, in the coordinates of the others."""
    r = mixing.shape[1]
    skew = rng.standard_normal((r, r))
    return np.asarray(mixing @ expm(np.radians(strength) * (skew - skew.T) / np.sqrt(2 * max(r - 1, 1))))


def one_plane(mixing: Array, strength: float, rng: np.random.Generator) -> Array:
    """Turn two components by so many degrees in their plane, and no other."""
    r = mixing.shape[1]
    skew = np.zeros((r, r))
    if r > 1:
        first, second = rng.permutation(r)[:2]
        skew[first, second] = np.radians(strength)
    return np.asarray(mixing @ expm(skew - skew.T))


def other_basis(mixing: Array, strength: float, rng: np.random.Generator) -> Array:
    """Draw another mixing matrix. strength : its condition number."""
    return random_mixing(*mixing.shape, condition=check_number(strength, "strength", above=1 - 1e-12), rng=rng)


@dataclass(frozen=True)
class SecondAttack:
    """An attack with its strength, ready to be carried out, and its properties.

    Parameters
    ----------
    turn : callable, optional
        The mixing matrix of the attackers' data; None: they have honest data.
    strength : float
        Strength of the attack.
    meaning : str
        Unit of the strength.
    both : bool
        Whether the first message is of that data too; otherwise it is honest.
    samples : int
        Factor on the number of samples that the attackers declare.
    extreme : bool
        Whether they send numbers as large as the strength in place of averages.
    at_answer : bool
        Whether their second message is of data that has the first answer, turned, for its mixing matrix.
    in_order : bool
        Whether that data has the client's sources in the order and with the signs of the answer, so that the second
        message fits the client's first one but for the turn.
    """

    turn: Turn | None
    strength: float
    meaning: str
    both: bool
    samples: int = 1
    extreme: bool = False
    at_answer: bool = False
    in_order: bool = False

    def __call__(self, federation: Federation, share: float, *, random_state: RandomState = 0) -> AttackedData:
        """Return the data of a federation in which a share of the clients attacks.

        Parameters
        ----------
        federation : Federation
            Honest data and its truth.
        share : float
            Share of clients that attack, rounded half up.
        random_state : int, RandomState, Generator or None
            Seed for the choice of attackers and their mixing matrix.
        """
        seed = seed_of(random_state)
        honest = draw_honest(len(federation.clients), share, seed)
        wrong = federation.mixing
        if self.turn is not None and not self.at_answer:
            wrong = self.turn(federation.mixing, self.strength, stream(seed, "turn"))
        back = np.linalg.pinv(federation.mixing).T @ wrong.T
        data = tuple(c.X if ok else c.X @ back for c, ok in zip(federation.clients, honest, strict=True))
        return AttackedData(federation, honest, data, self, seed)


@dataclass(frozen=True, eq=False)
class AttackedData:
    """A federation whose attackers have other data, and what every client sends.

    Parameters
    ----------
    federation : Federation
        The honest one.
    honest : ndarray of shape (K,)
        Whether each client is honest.
    data : tuple of ndarray
        What each client's second message is of, and its first one if the attack is in both.
    attack : SecondAttack
        What the attackers do.
    seed : int
        Of the choice of attackers and their mixing matrix.
    """

    federation: Federation
    honest: BoolArray
    data: tuple[Array, ...]
    attack: SecondAttack
    seed: int

    def contribution(self, k: int, fit: Callable[[Array, str], Contribution]) -> Contribution:
        """Return the first message of client k. fit : from data and a name to what an honest client sends."""
        client = self.federation.clients[k]
        sent = fit(self.data[k] if self.attack.both else client.X, client.name)
        return sent if self.honest[k] or not self.attack.both else self._declared(sent)

    def scores(self, k: int, result: Aggregate) -> Scores:
        """Return the second message of client k on a result."""
        name, X = self.federation.clients[k].name, self.data[k]
        if self.honest[k]:
            return score(X, result, client=name)
        if self.attack.at_answer and self.attack.turn is not None:
            wrong = self.attack.turn(result.mixing, self.attack.strength, stream(self.seed, "turn"))
            X = self._sources(X, result) @ wrong.T
        sent = score(X, result, client=name)
        return self._declared(self._extreme(sent) if self.attack.extreme else sent)

    def _sources(self, X: Array, result: Aggregate) -> Array:
        """Return the sources of data, in the order of the answer if the attack wants them so."""
        sources = X @ np.linalg.pinv(self.federation.mixing).T
        if self.attack.in_order:
            found = match(result.mixing, unit(self.federation.mixing))
            sources = sources[:, found.labels] * found.signs
        return np.asarray(sources)

    def _declared(self, sent: _Message) -> _Message:
        return replace(sent, n_samples=self.attack.samples * (sent.n_samples or 1))

    def _extreme(self, sent: Scores) -> Scores:
        """Return the largest numbers that samples could have, and as many samples as the strength says."""
        largest, m = self.attack.strength, len(sent.components)
        return replace(
            sent,
            covariance=np.full((m, m), largest),
            products=np.full((m, m), np.sqrt(largest)),
            slopes=np.ones(m),
            n_samples=int(largest),
        )


SECOND_ATTACKS: Mapping[str, SecondAttack] = MappingProxyType(
    {
        "turned-data": SecondAttack(common_turn, 10, "angle in degrees", True),
        "turned-scores": SecondAttack(common_turn, 10, "angle in degrees", False),
        "turned-answer": SecondAttack(common_turn, 10, "angle in degrees", False, at_answer=True),
        "fitting-answer": SecondAttack(common_turn, 10, "angle in degrees", False, at_answer=True, in_order=True),
        "turned-plane": SecondAttack(one_plane, 20, "angle in degrees", True),
        "foreign-data": SecondAttack(other_basis, 5, "condition of the other mixing matrix", True),
        "foreign-scores": SecondAttack(other_basis, 5, "condition of the other mixing matrix", False),
        "inflated-turn": SecondAttack(common_turn, 10, "angle in degrees", True, samples=INFLATED),
        "extreme-scores": SecondAttack(None, 1e12, "largest number sent", False, extreme=True),
    }
)
"""Attacks on federations that send a second message, by name."""


def find_second_attack(name: str) -> SecondAttack:
    """Return an attack by its name, with another strength after a colon: ``"turned-data:5"``.

    Parameters
    ----------
    name : str
        A name of ``SECOND_ATTACKS``.
    """
    kind, strength = read_attack(name, {known: attack.strength for known, attack in SECOND_ATTACKS.items()})
    return replace(SECOND_ATTACKS[kind], strength=strength)

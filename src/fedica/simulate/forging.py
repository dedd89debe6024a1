"""What all attacks share: the choice of attackers, what they know, and how their forged atoms are sent.

Attackers know everything: the true mixing matrix, and the honest clients' atoms with their components and signs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedica.arrays import Array, BoolArray, RandomState, check_choice, check_int, check_number, polar, readonly, unit
from fedica.errors import FedicaError, InputError, OptionError
from fedica.evaluate import recovery_error
from fedica.records import Contribution
from fedica.simulate.atoms import AtomFederation, scramble
from fedica.simulate.settings import share_of
from fedica.simulate.streams import seed_of, stream

Server = Callable[[Sequence[Contribution]], Array]
"""Contributions to a mixing matrix of shape (d, r): what attackers that search for the most harm try their atoms on."""
Forged = tuple[Array, dict[str, Any]]
"""Atoms (d, m), and other fields of the contribution."""
Forge = Callable[[int], Array | Forged]
"""What attacker k sends: atoms alone, or with other fields."""

JITTER = 1e-6
"""Standard deviation of what colluding attackers add to every number, so that no two of them send identical atoms."""
EVALUATIONS = 18
"""Calls of the server in one search."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A federation in which some clients are about to attack."""

    federation: AtomFederation  # its honest is False for the attackers; their own atoms are still the honest ones
    seed: int  # of everything random in the attack

    @property
    def attackers(self) -> list[int]:
        """The clients that attack."""
        return [int(k) for k in np.flatnonzero(~self.federation.honest)]

    def rng(self, purpose: str, k: int, *, colluding: bool) -> np.random.Generator:
        """Return the generator of attacker k: one for all of them when they collude."""
        return stream(self.seed, purpose) if colluding else stream(self.seed, purpose, k)

    def speaker(self, k: int, *, colluding: bool) -> int:
        """Return the attacker whose atoms attacker k starts from: the first one when they collude."""
        return self.attackers[0] if colluding else k

    def span(self) -> Array:
        """Return an orthonormal basis of the span of all components: forged atoms outside would be easy to detect."""
        return polar(self.federation.mixing)

    def direction(self, rng: np.random.Generator) -> Array:
        """Draw a unit vector in that span: (d, 1)."""
        basis = self.span()
        return unit(basis @ rng.standard_normal((basis.shape[1], 1)))

    def send(self, forge: Forge, *, jitter: float = 0.0) -> AtomFederation:
        """Return the federation after every attacker has sent what ``forge`` gives for it.

        Atoms are scaled to unit norm and put into a random order with random signs; their label is -1. ``jitter`` is
        the standard deviation of noise on every number.
        """
        known = self.federation
        contributions, labels, signs = list(known.contributions), list(known.labels), list(known.signs)
        for k in self.attackers:
            forged = forge(k)
            atoms, fields = forged if isinstance(forged, tuple) else (forged, {})
            noise = stream(self.seed, "jitter", k).standard_normal(atoms.shape)
            sent = replace(contributions[k], atoms=unit(unit(atoms) + jitter * noise), **fields)
            contributions[k] = scramble(sent, stream(self.seed, "forged", k))
            labels[k] = np.full(atoms.shape[1], -1, dtype=np.int64)
            signs[k] = np.ones(atoms.shape[1])
        return replace(known, contributions=tuple(contributions), labels=tuple(labels), signs=tuple(signs))


def draw_honest(n_clients: int, share: float, seed: int) -> BoolArray:
    """Tell which clients do not attack, (K,); with one seed, those who attack in a smaller share do in a larger one."""
    n_attackers = share_of(share, n_clients, "share")
    if n_attackers >= n_clients:
        raise OptionError(f"share must leave an honest client; got {share:g} of {n_clients} clients.")
    order = stream(seed, "attackers").permutation(n_clients)
    honest = np.ones(n_clients, dtype=bool)
    honest[order[:n_attackers]] = False
    return readonly(honest)


def choose_attackers(federation: AtomFederation, share: float, random_state: RandomState) -> Scene:
    """Draw the attackers; with the same seed, those of a smaller share are among those of a larger one."""
    if not federation.honest.all():
        raise InputError("some clients of this federation attack already; pass the honest federation it was made from.")
    seed = seed_of(random_state)
    honest = draw_honest(len(federation.contributions), share, seed)
    return Scene(replace(federation, honest=honest), seed)


def whole(strength: float) -> int:
    """Return a strength that is a count as an integer of at least one."""
    value = check_number(strength, "strength", above=0)
    return check_int(int(value) if value.is_integer() else value, "strength", minimum=1)


def read_attack(name: str, strengths: Mapping[str, float]) -> tuple[str, float]:
    """Return the attack that a name means, and the strength after its colon, or the usual one.

    strengths : the usual strength of every attack; 0: it has none.
    """
    kind, colon, strength = str(name).partition(":")
    usual = strengths[check_choice(kind, "an attack", strengths)]
    if not colon:
        return kind, usual
    if not usual:
        raise OptionError(f"the attack {kind!r} has no strength; got {name!r}.")
    return kind, check_number(strength, f"the strength of the attack {kind!r}", above=0)


def most_harmful(
    scene: Scene, attack: Callable[[float], AtomFederation], server: Server, upper: float
) -> AtomFederation:
    """Search the strength between 0 and ``upper`` that moves the server's answer farthest from the honest mean.

    Harm rises until the server detects the attack and then falls, sometimes more than once: so first a scan, denser
    where the attack is weak, then a refinement around its best point. (ByzFL's search climbs from zero instead.) A
    server that raises an error counts as infinite harm.
    """
    target = scene.federation.honest_mean()
    tried: dict[float, tuple[float, AtomFederation]] = {}

    def try_out(strength: float) -> float:
        attacked = attack(strength)
        try:
            harm = recovery_error(server(attacked.contributions), target).frobenius
        except FedicaError:
            harm = np.inf
        tried[strength] = (harm, attacked)
        return harm

    n_scan = 2 * EVALUATIONS // 3
    scan = upper * (np.arange(1, n_scan + 1) / n_scan) ** 2
    for strength in scan:
        try_out(float(strength))
    for _ in range((EVALUATIONS - n_scan) // 2):
        best = max(tried, key=lambda s: tried[s][0])
        points = np.array(sorted([0.0, *tried]))
        here = int(np.searchsorted(points, best))
        for neighbour in (points[here - 1], points[min(here + 1, points.size - 1)]):
            if neighbour != best:
                try_out(float((best + neighbour) / 2))
    return max(tried.values(), key=lambda pair: pair[0])[1]

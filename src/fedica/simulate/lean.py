"""The most harmful lean: a minority that shares one error inside the honest spread, its shape found by an optimiser.

`fedica.simulate.attacks` has the attack ``lean``, with one number to search. Here attackers also choose how many
components lean, whether they scatter like honest clients, whether some lean farther than others, and whether they
follow the error that the honest clients have by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, RandomState, check_int, unit
from fedica.simulate.atoms import AtomFederation
from fedica.simulate.forging import JITTER, Forge, Scene, choose_attackers
from fedica.simulate.informed import honest_leaks, leak_directions
from fedica.simulate.streams import seed_of, stream

LARGEST = 3.0
"""Longest lean that is tried, in typical errors of an honest client."""
MAX_STEPS = 3
"""Most groups of attackers that lean by different lengths."""
STEP = 0.2
"""Standard deviation of a change of each number of a lean, which are all between 0 and 1."""


@dataclass(frozen=True)
class Lean:
    """The shape of a lean."""

    size: float = 0.8  # length of the leak that all share, in typical errors of an honest client
    scatter: float = 0.0  # length of each attacker's own errors, in the same unit
    share: float = 1.0  # share of the components that lean, at least one
    steps: int = 1  # groups of attackers, which lean by 1 / steps, 2 / steps, ... of it: a chain from the honest mean
    along: float = 0.0  # weight of the honest mean's own error in the direction of the lean; the rest is random

    def __call__(self, federation: AtomFederation, share: float, *, random_state: RandomState = 0) -> AtomFederation:
        """Return the federation in which a share of the clients leans.

        Parameters
        ----------
        federation : AtomFederation
            Contributions and their truth, which the attackers know.
        share : float
            Share of clients that attack, rounded half up.
        random_state : int, RandomState, Generator or None
            Seed for the choice of attackers and their atoms.

        Returns
        -------
        AtomFederation
            With the forged contributions; ``honest`` is False for the attackers.
        """
        scene = choose_attackers(federation, share, random_state)
        return scene.send(self._forge(scene), jitter=JITTER)

    def _forge(self, scene: Scene) -> Forge:
        known = scene.federation
        means, lengths = honest_leaks(scene)
        r = len(lengths)
        chosen = np.arange(r) < max(1, round(self.share * r))
        drawn, honest_error = leak_directions(r, stream(scene.seed, "lean")), unit(means - np.eye(r))
        directions = unit((1 - self.along) * drawn + self.along * honest_error)
        common = self.size * lengths * chosen * directions

        def forge(k: int) -> Array:
            part = (scene.attackers.index(k) % self.steps + 1) / self.steps
            own = self.scatter * lengths * leak_directions(r, stream(scene.seed, "scatter", k))
            return np.asarray(known.mixing @ (means + part * common + own))[:, known.components(k)]

        return forge


def search_lean(harm: Callable[[Lean], float], evaluations: int, *, random_state: RandomState = 0) -> Lean:
    """Maximise a measure of harm over the shapes of a lean: random ones first, then changes of the best so far.

    Parameters
    ----------
    harm : callable
        From a lean to what it does.
    evaluations : int
        How many leans are tried.
    random_state : int, RandomState, Generator or None
        Seed.

    Returns
    -------
    Lean
        The most harmful of them.
    """
    n = check_int(evaluations, "evaluations", minimum=1)
    rng = stream(seed_of(random_state), "search")
    best = np.array([Lean().size / LARGEST, 0, 1, 0, 0])
    most = harm(_shape(best))
    for number in range(1, n):
        tried = rng.random(best.size) if number < n / 3 else np.clip(best + STEP * rng.standard_normal(best.size), 0, 1)
        found = harm(_shape(tried))
        if found > most:
            best, most = tried, found
    return _shape(best)


def _shape(numbers: Array) -> Lean:
    """Return the lean that five numbers between 0 and 1 stand for."""
    size, scatter, share, steps, along = numbers.tolist()
    return Lean(LARGEST * size, scatter, share, 1 + min(MAX_STEPS - 1, int(MAX_STEPS * steps)), along)

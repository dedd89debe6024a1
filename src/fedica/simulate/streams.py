"""Independent random streams: the draws of client 7 do not change when client 6 draws more."""

from __future__ import annotations

import numpy as np

from fedica.arrays import RandomState, check_int, generator


def seed_of(random_state: RandomState) -> int:
    """Return an integer seed for any ``random_state`` that scikit-learn accepts; an integer is returned unchanged."""
    if random_state is None or isinstance(random_state, np.random.Generator | np.random.RandomState):
        return int(generator(random_state).integers(2**62))
    return check_int(random_state, "random_state", minimum=0)


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """Return the generator for one purpose (and one client), a function of the arguments alone."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*purpose.encode(), 0, *key)))

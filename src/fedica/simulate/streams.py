"""Random streams that do not depend on one another: what client 7 draws does not change when client 6 draws more."""

from __future__ import annotations

import numpy as np

from fedica.arrays import RandomState, check_int, generator


def seed_of(random_state: RandomState) -> int:
    """Turn what scikit-learn accepts as ``random_state`` into one whole number; a whole number stays itself."""
    if random_state is None or isinstance(random_state, np.random.Generator | np.random.RandomState):
        return int(generator(random_state).integers(2**62))
    return check_int(random_state, "random_state", minimum=0)


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """Return the generator for one purpose (and one client): a function of its arguments alone."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*purpose.encode(), 0, *key)))

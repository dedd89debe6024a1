"""How much each client counts, from the samples it declares: capped, so that no client can buy influence."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, IntArray

WEIGHTS = ("samples",)


def client_weights(n_samples: IntArray, weights: str | None) -> Array:
    """Weight of each client in a mean: 1, or its declared samples over the median of all, at most 1.

    n_samples : (K,), 0 where a client did not tell: it gets the smallest weight of those who did. A declared number is
    a claim, so above the median it buys nothing. The variance of an atom falls as 1/n_samples: a mean takes these
    weights, a geometric median (which sees distances, not squares) their square roots.
    """
    if weights is None or not n_samples.any():
        return np.ones(n_samples.size)
    declared = n_samples > 0
    known = np.where(declared, n_samples, n_samples[declared].min())
    return np.asarray(np.minimum(known / np.median(known), 1.0))

"""Which clients count in the common span: those that share theirs with the others, as the others share theirs.

A client agrees by the median, over the other clients, of what their projectors share beyond chance. Fewer than half of
the clients cannot lift a median, however well they agree among themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from fedica.arrays import Array, BoolArray, IntArray
from fedica.server.agreement import normal_deviation

FALSE_ALARM = 0.01
"""Share of clients that may be left out though they are like the others."""
MIN_DEVIATION = 0.25
"""Deviation of the logarithm of the agreement among clients that are alike, at least."""
MUCH_LESS = 0.3
"""A client that agrees at least this many times as well as the typical one always counts."""
NOISY = 0.5
"""One that counts and agrees less than this many times as well as the typical one is noisy."""
SAME = 1 - 1e-6
"""Projectors whose cosine is above this are copies: independent fits never coincide."""
MAX_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Counting:
    """What clients share, and who counts. K clients.

    Parameters
    ----------
    shared : ndarray of shape (K, K)
        Cosine of any two projectors beyond what unrelated spans share (G4).
    agreement : ndarray of shape (K,)
        Median over the other clients that count.
    typical : float
        Median agreement of those that count.
    counts : ndarray of bool of shape (K,)
        Whether each counts.
    n_copies : ndarray of shape (K,)
        Clients that sent the same span, itself included; together they have one vote.
    """

    shared: Array
    agreement: Array
    typical: float
    counts: BoolArray
    n_copies: IntArray

    @property
    def noisy(self) -> BoolArray:
        """Whether a client that counts agrees much less than the typical one."""
        return self.counts & (self.agreement < NOISY * self.typical)

    def weights(self, client_weights: Array) -> Array:
        """Return each client's weight in the mean projector, (K,), sum one."""
        weights = np.where(self.counts, client_weights / self.n_copies, 0.0)
        return np.asarray(weights / weights.sum())


def who_counts(inside: Array, sizes: Array, norms: Array, n_features: int) -> Counting:
    """Decide which clients count.

    inside : (K, q, q), projectors in the leading directions. sizes, norms : (K,), traces and norms of the whole ones.
    """
    flat = inside.reshape(len(inside), -1)
    products, norms = flat @ flat.T, np.maximum(norms, 1e-150)  # of which a product is above 0
    shared = (products - np.outer(sizes, sizes) / n_features) / np.outer(norms, norms)  # (G4)
    n_copies = _count_copies(products)
    counts = np.ones(len(flat), dtype=np.bool_)
    for _ in range(MAX_ROUNDS):
        agreement = _agreement(shared, counts)
        before, counts = counts, fits(agreement, counts)
        if np.array_equal(before, counts):
            break
    return Counting(shared, agreement, float(np.median(agreement[counts])), counts, n_copies)


def _count_copies(products: Array) -> IntArray:
    """Count the clients with the same span; where most are the same there is no noise, and each is one."""
    norms = np.sqrt(np.maximum(np.diagonal(products), 1e-300))
    same = products > SAME * np.outer(norms, norms)
    np.fill_diagonal(same, True)
    n_copies = same.sum(axis=1)
    return np.ones_like(n_copies) if np.median(n_copies) > 1 else n_copies


def _agreement(shared: Array, counts: BoolArray) -> Array:
    """Median of what each client shares with the others that count, (K,)."""
    others = np.where(counts, shared, np.nan)
    np.fill_diagonal(others, np.nan)
    return np.asarray(np.nanmedian(others, axis=1)) if counts.sum() > 1 else np.asarray(shared.diagonal())  # (G5)


def fits(values: Array, counts: BoolArray) -> BoolArray:
    """Return whose value is not much lower than those of the clients that count, (K,); all, where most have none."""
    typical = float(np.median(values[counts]))
    if typical <= 0 or counts.sum() < 3:
        return np.ones_like(counts)
    log = np.log(np.maximum(values, 1e-9 * typical) / typical)
    deviation = max(normal_deviation(log[counts], centre=0.0), MIN_DEVIATION)
    reach = float(student_t.ppf(1 - FALSE_ALARM, counts.sum() - 1)) * deviation
    return np.asarray(log > min(np.log(MUCH_LESS), -reach))

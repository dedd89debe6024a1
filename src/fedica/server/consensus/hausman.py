"""Whether independent errors explain how far two weighted means of the same atoms are apart: a test of Hausman's kind.

(C5) The difference of the two means is a sum over clients of their errors, each times the change of its weight. Errors
     of independent fits point anywhere: the square of the sum is about the sum of the squares, the nearer the more
     dimensions errors have. If it is more than nearly all such sums have, of all components together or of any one,
     clients that gained weight share an error.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from fedica.arrays import Array
from fedica.server.consensus.shared_errors import MIN_CLIENTS, Errors

RARE = 0.01
"""How often independent errors may seem to be shared: in all components together, and in any one."""


def explained_by_independent_errors(errors: Errors, change: Array) -> bool:
    """Tell whether independent errors explain the difference of two means.

    Fewer than eight clients cannot say, and are believed; of two, neither tells that the other is farther away.

    change : (n, r), by how much the share of each client's atom in each component differs between the two.
    """
    n_clients, r, _ = errors.vectors.shape
    if n_clients < MIN_CLIENTS:
        return bool(n_clients > 2)
    terms = change[:, :, None] * errors.vectors
    squares, of_sum = np.square(terms).sum(axis=2), np.square(terms.sum(axis=0)).sum(axis=1)
    squares /= 1 - 1 / np.maximum(np.abs(errors.vectors).any(axis=2).sum(axis=0), 2)  # errors are those from their mean
    together = _beyond_chance(of_sum.sum(keepdims=True), squares.sum(axis=1, keepdims=True), errors.joint_dimension)
    in_any_one = _beyond_chance(of_sum, squares, errors.dimension)
    return bool(together.min() > RARE and in_any_one.min() > RARE / r)  # (C5)


def _beyond_chance(of_sum: Array, squares: Array, dimension: float) -> Array:
    """Probability that independent errors add up to as much: (m,).

    The product of two errors in D dimensions has the mean zero and 1/D of the product of their squares as its variance;
    their sum has that of chi-square of D / (share of the products of different clients) degrees of freedom.
    of_sum : (m,), squares of sums; squares : (n, m), of their terms.
    """
    expected = np.maximum(squares.sum(axis=0), 1e-20)
    between = 1 - np.square(squares / expected).sum(axis=0)
    freedom = dimension / np.maximum(between, 1e-9)
    return np.asarray(chi2.sf(freedom * of_sum / expected, freedom))

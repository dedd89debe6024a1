"""Which clients' second messages agree: every client's own linearised fit, and a robust centre of these.

Near its optimum symmetric FastICA moves the sources of a client by a linear function of its statistics, without order
or sign to guess. Away from the diagonal it is

(R2) theta_ij = (s_i N_ij - s_j N_ji) / (|a_i| + |a_j|),  N_ij = G_ij - (G_ii + h_i) C_ij / 2,  a_i = G_ii - h_i, and
     s_i the sign of a_i: the rotation that the client asks for; and C_ij: what is left to decorrelate.

G_ii and h_i are medians over clients. The expected errors are known, since tanh^2 = 1 - tanh':

(R3) n Var(theta_ij) = (1 - h_i + 1 - h_j + c^2 - 2 s_i s_j G_ii G_jj - 2 c (s_i G_ii - s_j G_jj)) / (|a_i| + |a_j|)^2,
     c = (s_i (G_ii + h_i) - s_j (G_jj + h_j)) / 2;  n Var(C_ij) = 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedica.arrays import Array, BoolArray
from fedica.blocks import weighted_median
from fedica.records import Scores

SAME_SCALE = 0.5
"""Deviations of clients' sources that differ by less than this, in logarithms, are alike."""
MAX_DEVIATION = 4.0
"""A client's source counts as one of at most this many times the common deviation."""
MIN_PRODUCT = 1e-3
"""|a_i| + |a_j| is taken for at least this: of two Gaussian sources any rotation is as good."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """The second messages of K clients side by side, zero where a client lacks a component.

    n_samples : (K,); has : (K, r); covariance, products : (K, r, r); slopes, scale : (K, r); same_scale : whether all
    clients' sources are divided by the same numbers.
    """

    n_samples: Array
    has: BoolArray
    covariance: Array
    products: Array
    slopes: Array
    scale: Array
    same_scale: bool = False

    @classmethod
    def of(cls, scores: Sequence[Scores], r: int) -> Statistics:
        """Put second messages side by side."""
        K = len(scores)
        covariance, products = np.zeros((K, r, r)), np.zeros((K, r, r))
        slopes, scale, has = np.zeros((K, r)), np.zeros((K, r)), np.zeros((K, r), dtype=np.bool_)
        for k, one in enumerate(scores):
            own = np.asarray(one.components)
            grid = np.ix_(own, own)
            covariance[k][grid], products[k][grid] = one.covariance, one.products
            slopes[k, own], scale[k, own], has[k, own] = one.slopes, one.scale, True
        n_samples = np.array([float(one.n_samples) for one in scores])
        return cls(n_samples, has, covariance, products, slopes, scale)

    def of_clients(self, clients: BoolArray) -> Statistics:
        """Return the messages of some of the clients alone. clients : (K,)."""
        names = ("n_samples", "has", "covariance", "products", "slopes", "scale")
        return replace(self, **{name: getattr(self, name)[clients] for name in names})

    @property
    def diagonal(self) -> Array:
        """E[g(y_i) y_i] of each client, (K, r)."""
        return np.asarray(np.einsum("kii->ki", self.products))


def median_scale(statistics: Statistics, weights: Array) -> Array:
    """Return the median deviation of each source over the clients that have it, (r,). weights : (K,)."""
    return _medians(statistics.scale, statistics.has, weights)


def on_common_scale(statistics: Statistics, weights: Array) -> Statistics:
    """Return the averages as of sources divided by the median deviation over clients, if deviations are alike.

    Covariances are then those of the pooled data, and a client does not count more where its few samples happen to vary
    little. Inside tanh the scale stays the client's own. No source counts as one of more than `MAX_DEVIATION` times the
    common deviation: variances are not compared, so that one client could tell any. weights : (K,), for the medians.
    """
    has = statistics.has
    common = median_scale(statistics, weights)
    with np.errstate(over="ignore"):  # deviations of 1e300 are what a hostile client may tell
        ratio = np.where(has, statistics.scale / np.where(common > 0, common, 1.0), 1.0)
    logs = np.abs(np.log(np.clip(ratio[has], 1e-300, 1e300)))
    alike = weighted_median(logs, np.ones(int(has.sum())), empty=0.0) <= SAME_SCALE
    told = np.sqrt(np.maximum(np.einsum("kii->ki", statistics.covariance), 0.0))  # deviations, in units of the scale
    own = np.where(told > 0, told, 1.0)
    with np.errstate(over="ignore"):
        new = np.minimum(told * ratio if alike else told, MAX_DEVIATION)
    return replace(
        statistics,
        covariance=statistics.covariance / own[:, :, None] / own[:, None, :] * new[:, :, None] * new[:, None, :],
        products=statistics.products / own[:, None, :] * new[:, None, :],
        scale=np.where(has, common, 0.0) if alike else statistics.scale,
        same_scale=bool(alike),
    )


@dataclass(frozen=True, eq=False)
class Steps:
    """What each client asks for, over its expected error with one sample.

    values : (K, p), theta_ij and C_ij of all pairs i < j; has : (K, p); n_samples : (K,); in_sources : (p,), the
    squared error of the sources, summed over both of a pair, that a squared error of one in a value means.
    """

    values: Array
    has: BoolArray
    n_samples: Array
    in_sources: Array

    @property
    def kinds(self) -> tuple[slice, slice]:
        """Where the rotations theta stand among the values, and where the covariances."""
        half = self.values.shape[1] // 2
        return slice(0, half), slice(half, 2 * half)

    def distances(self, centre: Array) -> Array:
        """Mean squared distance of each client from a centre (p,), over the expected one. (K,)."""  # (R4)
        squares = np.where(self.has, (self.values - centre) ** 2, 0.0).sum(axis=1)
        return np.asarray(self.n_samples * squares / np.maximum(self.has.sum(axis=1), 1))

    def expected_errors(self, weights: Array) -> Array:
        """Squared error of the weighted mean in each pair, (p,), that samples explain; infinite where nobody has it."""
        total = weights @ self.has
        squares = (weights**2 / self.n_samples) @ self.has
        return np.asarray(np.divide(squares, total**2, where=total > 0, out=np.full(total.size, np.inf)))

    def of_clients(self, clients: BoolArray) -> Steps:
        """Return the steps of some of the clients alone. clients : (K,)."""
        return replace(self, values=self.values[clients], has=self.has[clients], n_samples=self.n_samples[clients])

    def without(self, directions: Iterable[Array]) -> Steps:
        """Return steps that have nothing along these directions, (p,) each, orthogonal and of length one."""
        values = self.values
        for direction in directions:
            values = values - np.outer(values @ direction, direction)
        return replace(self, values=values)

    def as_matrices(self, values: Array) -> tuple[Array, Array]:
        """Return theta, antisymmetric, and C - I, symmetric, both (r, r), that values (p,) mean."""
        r = round((1 + np.sqrt(1 + 4 * values.size)) / 2)
        upper = np.triu_indices(r, 1)
        theta, covariance = np.zeros((r, r)), np.zeros((r, r))
        rotation, correlation = self.kinds
        theta[upper] = values[rotation] * np.sqrt(self.in_sources[rotation] / 2)
        covariance[upper] = values[correlation]
        return theta - theta.T, covariance + covariance.T

    def mean(self, weights: Array) -> Array:
        """Weighted mean of the clients that have each pair, (p,). weights : (K,)."""
        return np.asarray((weights @ self.values) / np.maximum(weights @ self.has, 1e-300))


def steps_of(statistics: Statistics, weights: Array) -> Steps:
    """Work out every client's own step. weights : (K,), for the medians over clients."""
    product = _medians(statistics.diagonal, statistics.has, weights)
    slope = _medians(statistics.slopes, statistics.has, weights)
    excess = product - slope
    sign = np.where(excess < 0, -1.0, 1.0)
    C = statistics.covariance
    N = statistics.products - (product + slope)[:, None] * C / 2
    length = np.maximum(np.abs(excess)[:, None] + np.abs(excess), MIN_PRODUCT)
    theta = (sign[:, None] * N - np.swapaxes(sign[:, None] * N, 1, 2)) / length  # (R2)
    upper = np.triu_indices(product.size, 1)
    deviations = np.sqrt(_expected_squares(product, slope, sign)) / length  # (R3)
    values = np.concatenate([(theta / deviations)[:, *upper], C[:, *upper]], axis=1)
    both = statistics.has[:, upper[0]] & statistics.has[:, upper[1]]
    has = np.concatenate([both, both], axis=1)
    in_sources = np.concatenate(
        [2 * deviations[upper] ** 2, np.full(upper[0].size, 0.5)]
    )  # W = I + theta - (C - I) / 2
    return Steps(np.where(has, values, 0.0), has, statistics.n_samples, in_sources)


def _expected_squares(product: Array, slope: Array, sign: Array) -> Array:
    """N times the variance of the numerator of theta_ij, (r, r)."""  # (R3)
    square, signed = 1 - slope, sign * product
    half = sign * (product + slope) / 2
    c = half[:, None] - half
    cross = signed[:, None] - signed
    variance = square[:, None] + square + c**2 - 2 * np.outer(signed, signed) - 2 * c * cross
    return np.maximum(variance, 1e-3)


def _medians(values: Array, has: BoolArray, weights: Array) -> Array:
    """Median over the clients that have each component, (r,)."""
    columns = range(values.shape[1])
    return np.array([weighted_median(values[has[:, i], i], weights[has[:, i]], empty=0.0) for i in columns])

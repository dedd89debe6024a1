"""The step of symmetric FastICA on the data of all clients that count, from their averages.

(R5) M = G C^-1 - diag(h) of the pooled averages: one step of FastICA for each source, whatever their covariance C.
(R6) W = (M C M')^(-1/2) M: the nearest decorrelated sources, W y of covariance I. Its rows get the sign of their
     diagonal. The new matrix is B diag(scale) W^-1.

Repeated, they are symmetric FastICA on the pooled data: at its fixed point C = I and M is diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from fedica.arrays import Array, IntArray, polar
from fedica.server.refinement.steps import Statistics, median_scale

MIN_VARIANCE = 1e-3
"""Eigenvalues of the pooled covariance are at least this."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """Averages over the clients that count, for the components that any of them has.

    labels : (m,), these components; covariance, products : (m, m); slopes, scale : (m,); same_scale : as in
    `Statistics`.
    """

    labels: IntArray
    covariance: Array
    products: Array
    slopes: Array
    scale: Array
    same_scale: bool

    @classmethod
    def of(cls, statistics: Statistics, weights: Array) -> Pooled:
        """Average the statistics of clients. weights : (K,)."""
        labels = np.flatnonzero(weights @ statistics.has)
        has = statistics.has[:, labels].astype(np.float64)
        total = weights @ has
        common = statistics.same_scale
        scale = np.sqrt(weights @ statistics.scale[:, labels] ** 2 / total) if common else None
        pairs = np.maximum((has * weights[:, None]).T @ has, 1e-300)
        grid = np.ix_(labels, labels)
        return cls(
            labels,
            covariance=np.tensordot(weights, statistics.covariance, 1)[grid] / pairs,
            products=np.tensordot(weights, statistics.products, 1)[grid] / pairs,
            slopes=(weights @ statistics.slopes)[labels] / total,
            scale=median_scale(statistics, weights)[labels] if scale is None else scale,
            same_scale=common,
        )

    def without(self, theta: Array, covariance: Array) -> Pooled:
        """Return averages whose step lacks a rotation and a decorrelation, (r, r) each, to first order."""
        grid = np.ix_(self.labels, self.labels)
        diagonal = np.diagonal(self.products)
        a, half = diagonal - self.slopes, (diagonal + self.slopes) / 2
        products = self.products - a[:, None] * theta[grid] - half[:, None] * covariance[grid]  # (R2), (R8)
        return replace(self, products=products, covariance=self.covariance - covariance[grid])

    def step(self) -> Array:
        """Return the matrix W (m, m) that takes the sources to those of one step of symmetric FastICA."""
        values, vectors = eigh(self.covariance)
        root = (vectors * np.sqrt(np.maximum(values, MIN_VARIANCE))) @ vectors.T
        inverse = (vectors / np.sqrt(np.maximum(values, MIN_VARIANCE))) @ vectors.T
        M = self.products @ inverse @ inverse - np.diag(self.slopes)  # (R5)
        W = polar(M @ root) @ inverse  # (R6)
        return np.asarray(W * np.where(np.diagonal(W) < 0, -1.0, 1.0)[:, None])

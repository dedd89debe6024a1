"""The clients' spans: a projector of each, shrunk by its noise, as thin factors of the atoms; never d x d.

With ``T_k`` of a few columns, ``P_k = A_k T_k T_k' A_k'`` (G2). The atoms are read in sweeps over blocks of whole
clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from fedica.arrays import Array, IntArray
from fedica.blocks import Columns, columns_of, leading_directions, leading_eigenpairs
from fedica.server.admission import Admitted

SMALLEST = 1e-10
"""Directions with less than this share of a client's largest variance are rounding."""
MAX_HELD_BYTES = 2**28
"""Factors of all clients up to this size are held in memory; larger ones are computed from the atoms in every sweep."""
SPARE = 10
"""Directions beyond the wanted ones in the Krylov method: they speed up its convergence."""


@dataclass(frozen=True, eq=False)
class Spans:
    """The shrunk projectors of K clients.

    Parameters
    ----------
    atoms : Columns
        (d, R), all atoms.
    owner : ndarray of shape (R,)
        Client of each atom, ascending.
    factors : tuple of ndarray
        T_k, (r_k, n_k): ``A_k T_k`` are orthonormal directions, each times the root of its weight.
    halves : tuple of ndarray or None
        L_k with ``A_k L_k L_k' A_k'`` the covariance that the client sent; ``None`` where it sent no strengths.
    sizes : ndarray of shape (K,)
        Trace of each projector: how many directions it counts for.
    norms : ndarray of shape (K,)
        Frobenius norm of each projector.
    totals : ndarray of shape (K,)
        Trace of each covariance that was sent; NaN where it sent no strengths.
    """

    atoms: Columns
    owner: IntArray
    factors: tuple[Array, ...]
    halves: tuple[Array | None, ...]
    sizes: Array
    norms: Array
    totals: Array

    @property
    def bounds(self) -> IntArray:
        """Where each client's atoms begin, and R at the end: (K + 1,)."""
        return np.searchsorted(self.owner, np.arange(len(self.factors) + 1))

    @property
    def fit_memory(self) -> bool:
        """Whether the factors of all clients may be held at once."""
        return 8 * self.atoms.shape[0] * self.owner.size <= MAX_HELD_BYTES

    def leading(self, weights: Array, n_directions: int) -> tuple[Array, Array]:
        """Return the leading directions of the weighted mean projector, (d, q), and its eigenvalues, (q,).

        weights : (K,), sum one. Fewer than n_directions are returned where the clients have fewer in all.
        """
        n_wanted = min(n_directions, self.atoms.shape[0], sum(factor.shape[1] for factor in self.factors))
        if self.fit_memory:
            roots = [np.sqrt(w) * factor for w, factor in zip(weights, self.factors, strict=True)]
            found = leading_directions(columns_of(self.atoms.whole() @ block_diag(*roots)), n_wanted)
            vectors, values = found.axes.T, found.values
        else:
            start = np.random.default_rng(0).standard_normal((self.atoms.shape[0], n_wanted + SPARE))
            pairs = leading_eigenpairs(lambda basis: self._product(weights, basis), start, n_wanted, tol=1e-6)
            vectors, values = pairs.vectors[:, :n_wanted], pairs.values[:n_wanted]
        kept = values > SMALLEST * values[0]
        return vectors[:, kept], values[kept]

    def _product(self, weights: Array, basis: Array) -> Array:
        """Return the mean projector times a basis, (d, q), in one sweep."""
        turns = [w * factor @ factor.T for w, factor in zip(weights, self.factors, strict=True)]

        def of_block(block: Array, own: IntArray) -> tuple[Array]:
            inside = block.T @ basis
            for k, part in clients_of(own):
                inside[part] = turns[k] @ inside[part]
            return (block @ inside,)

        return self.atoms.total(of_block, self.owner)[0]

    def along(self, directions: Array) -> list[Array]:
        """Return every client's coordinates of directions, (d, q), in one sweep: ``directions' A_k``, (q, r_k) each."""
        (coordinates,) = self.atoms.each(lambda block: (directions.T @ block,))
        return np.split(coordinates, self.bounds[1:-1], axis=1)


def clients_of(own: IntArray) -> Iterator[tuple[int, slice]]:
    """Yield the clients of a block, each with its columns."""
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    for first, last in zip(starts, [*starts[1:], own.size], strict=True):
        yield int(own[first]), slice(int(first), int(last))


def spans_of(admitted: Admitted) -> Spans:
    """Return the projectors of all clients, shrunk where they sent strengths: one sweep."""

    def of_block(block: Array, own: IntArray) -> tuple[Array]:
        products = [(block[:, part].T @ block[:, part]).ravel() for _, part in clients_of(own)]
        return (np.concatenate(products),)

    atoms, owner = admitted.atoms, admitted.client_of_atom
    counts = np.bincount(owner)
    (flat,) = atoms.each(of_block, owner)
    products = np.split(flat, np.cumsum(counts**2)[:-1])
    products = [product.reshape(m, m) for product, m in zip(products, counts, strict=True)]
    factors, halves, totals = [], [], []
    for product, gram, floor in zip(products, admitted.grams, admitted.noise_floors, strict=True):
        scale = 1.0 if gram is None else float(np.abs(gram).max()) or 1.0  # a common factor changes nothing
        half = None if gram is None else _root(gram / scale)
        factors.append(_factor(product, half, floor / scale))
        halves.append(half)
        totals.append(np.nan if half is None else float(np.sum(half * (product @ half))))
    inner = [t.T @ product @ t for t, product in zip(factors, products, strict=True)]
    sizes, norms = np.array([[np.trace(x), np.linalg.norm(x)] for x in inner]).T
    return Spans(atoms, owner, tuple(factors), tuple(halves), sizes, norms, np.array(totals))


def _root(gram: Array) -> Array:
    """Return L with L L' = gram."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _factor(product: Array, half: Array | None, floor: float) -> Array:
    """Return T_k. product : A_k' A_k; half : L_k, ``None``: all directions count alike; floor : noise variance."""
    half = np.eye(len(product)) if half is None else half
    values, vectors = np.linalg.eigh(half.T @ product @ half)  # variances along the principal directions
    kept = values > max(SMALLEST * values[-1], floor)
    variances, vectors = values[kept], vectors[:, kept]
    return np.asarray(half @ vectors * np.sqrt((1 - floor / variances) / variances))  # (G2)

"""The clients' spans: a projector of each, shrunk by its noise, as thin factors of the atoms; never d x d.

With ``T_k`` of a few columns, ``P_k = A_k T_k T_k' A_k'`` (G2). The atoms are read in sweeps over blocks of whole
clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.blocks import Columns, clients_of, columns_of, leading_directions
from fedica.server.admission import Admitted

SMALLEST = 1e-10
"""Directions with less than this share of a client's largest variance are rounding."""
BURIED = 4
"""How fast a client's variances lose their say as less of its variance stands above its noise floor: a power."""
MAX_FLOOR = 1e300
"""Noise floors are taken for at most this many times a client's largest variance: a finite number."""
MAX_HELD_BYTES = 2**28
"""Factors of all clients up to this size are held in memory; of larger ones, what lies in a basis (`Spans.within`)."""
NEW = 1e-6
"""Directions of which less than this is outside a basis add nothing to it but rounding."""
MAX_DENSE = 1_500
"""Up to this many directions of all clients their square matrix of products is decomposed."""


@dataclass(frozen=True, eq=False)
class Spans:
    """The shrunk projectors of K clients.

    Parameters
    ----------
    atoms : Columns
        (d, R), all atoms; or (p, R), their coordinates in a basis.
    owner : ndarray of shape (R,)
        The client of each atom, ascending.
    factors : tuple of ndarray
        T_k of each client, (r_k, m_k): ``A_k T_k`` is a square root of its projector.
    products : tuple of ndarray
        ``A_k' A_k`` of each client, (r_k, r_k).
    sizes, norms : ndarray of shape (K,)
        Trace and Frobenius norm of each projector.
    basis : ndarray of shape (d, p), optional
        Orthonormal: what is looked for lies in its span; ``None``: in the space of the features.
    """

    atoms: Columns
    owner: IntArray
    factors: tuple[Array, ...]
    products: tuple[Array, ...]
    sizes: Array
    norms: Array
    basis: Array | None = None

    @property
    def n_features(self) -> int:
        """The number of features, d."""
        return self.atoms.shape[0] if self.basis is None else len(self.basis)

    @property
    def bounds(self) -> IntArray:
        """Where each client's atoms begin, and R at the end: (K + 1,)."""
        return np.searchsorted(self.owner, np.arange(len(self.factors) + 1))

    @property
    def fit_memory(self) -> bool:
        """Whether the factors of all clients may be held at once."""
        return self.basis is not None or 8 * self.atoms.shape[0] * self.owner.size <= MAX_HELD_BYTES

    def leading(self, weights: Array, n_directions: int) -> tuple[Array, Array]:
        """Return the leading directions of the weighted mean projector, (d, q), and its eigenvalues, (q,).

        weights : (K,), sum one. Fewer than n_directions are returned where the clients have fewer in all. The factors
        of all clients are held at once: see `within`.
        """
        atoms, counts = self.atoms.whole(), weights > 0
        parts = zip(pairwise(self.bounds), weights, self.factors, counts, strict=True)
        stacked = np.concatenate([atoms[:, a:b] @ (np.sqrt(w) * t) for (a, b), w, t, own in parts if own], axis=1)
        n_wanted = min(n_directions, *stacked.shape)
        if stacked.shape[1] < min(len(stacked), MAX_DENSE):  # through the smaller matrix of products
            values, turn = (x[..., : -n_wanted - 1 : -1] for x in np.linalg.eigh(stacked.T @ stacked))
            kept = values > SMALLEST * values[0]
            values, vectors = values[kept], stacked @ (turn[:, kept] / np.sqrt(values[kept]))
        else:
            found = leading_directions(columns_of(stacked), n_wanted)
            kept = found.values > SMALLEST * found.values[0]
            values, vectors = found.values[kept], found.axes.T[:, kept]
        return vectors if self.basis is None else self.basis @ vectors, values

    def within(self, basis: Array) -> Spans:
        """Return what lies in the span of an orthonormal basis, (d, p), small enough to be held; in one sweep."""
        (coordinates,) = self.atoms.each(lambda block: (basis.T @ block,))
        return replace(self, atoms=self.atoms.in_same_blocks(coordinates), basis=basis)

    def krylov(self, weights: Array, start: Array, n_sweeps: int) -> Array:
        """Return an orthonormal basis of the mean projector times start, (d, p), times that, and so on: n_sweeps times.

        Of directions that many clients share it holds all but little: unrelated ones have small eigenvalues.
        """
        basis = newest = np.linalg.qr(start)[0]
        for _ in range(n_sweeps):
            image = self._product(weights, newest)
            left, lengths, _ = np.linalg.svd(image - basis @ (basis.T @ image), full_matrices=False)
            newest = left[:, lengths > NEW * np.linalg.norm(image, 2)]  # the rest is in the basis, to rounding
            newest = np.linalg.qr(newest - basis @ (basis.T @ newest))[0]
            basis = np.column_stack([basis, newest])
        return basis

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
        seen = directions if self.basis is None else self.basis.T @ directions
        (coordinates,) = self.atoms.each(lambda block: (seen.T @ block,))
        return np.split(coordinates, self.bounds[1:-1], axis=1)


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
    factors = []
    for product, gram, floor in zip(products, admitted.grams, admitted.noise_floors, strict=True):
        scale = 1.0 if gram is None else float(np.abs(gram).max()) or 1.0  # a common factor changes nothing
        noise = min(floor / scale, MAX_FLOOR)
        factors.append(_factor(product, None if gram is None else _root(gram / scale), noise))
    inner = [t.T @ product @ t for t, product in zip(factors, products, strict=True)]
    sizes, norms = np.array([[np.trace(x), np.linalg.norm(x)] for x in inner]).T
    return Spans(atoms, owner, tuple(factors), tuple(products), sizes, norms)


def _root(gram: Array) -> Array:
    """Return L with L L' = gram."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _factor(product: Array, half: Array | None, floor: float) -> Array:
    """Return T_k. product : A_k' A_k; half : L_k, ``None``: all directions count alike; floor : noise variance."""
    half = np.eye(len(product)) if half is None else half
    values, vectors = np.linalg.eigh(half.T @ product @ half)  # variances along the principal directions
    noise = _noise(values, floor)
    kept = values > max(SMALLEST * values[-1], noise)
    variances, vectors = values[kept], vectors[:, kept]
    return np.asarray(half @ vectors * np.sqrt((1 - noise / variances) / variances))  # (G2)


def _noise(variances: Array, floor: float) -> float:
    """Return the variance that is taken for noise: the floor, and less of it where the signal is buried in noise.

    There the order of the variances is mostly chance, so that all directions count more alike.
    """
    above = float(np.maximum(variances - floor, 0.0).sum() / max(float(variances.sum()), 1e-300))
    return (1 - (1 - above) ** BURIED) * floor

"""Where the atoms lie: the leading directions of their scatter, which carry all that the grouping needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, unit
from fedica.blocks.columns import Columns
from fedica.blocks.eigen import leading_eigenpairs

DENSE_SCATTER = 1_500
"""Up to so many features, or atoms, their square matrix of products is reduced; above, a Krylov method is used."""

SPARE = 10
"""Directions beyond those that are wanted that the Krylov method works with: they make it converge."""


@dataclass(frozen=True, eq=False)
class Directions:
    """Leading directions of the scatter A A' of the atoms.

    Parameters
    ----------
    axes : ndarray of shape (p, d)
        Orthonormal rows.
    values : ndarray of shape (p,)
        Sum of the squared coordinates of all atoms along each, largest first.
    """

    axes: Array
    values: Array

    def coordinates(self, atoms: Columns) -> Columns:
        """See the atoms in these directions: (p, R)."""
        axes = self.axes
        return atoms.seen(lambda block: axes @ block, axes.shape[0])

    def whitened(self, atoms: Columns) -> Columns:
        """See the atoms stretched so that all directions are alike: unit columns, (p, R).

        A general mixing matrix squeezes its columns together and blurs the groups; where A has full rank,
        (A A')^(-1/2) A has orthonormal columns, which is what Algorithm 1 assumes.
        """
        scale = 1 / np.sqrt(np.maximum(self.values, 1e-9 * self.values[0]))
        stretch = scale[:, None] * self.axes
        return atoms.seen(lambda block: unit(stretch @ block), stretch.shape[0])


def leading_directions(atoms: Columns, n_directions: int, *, margin: int = 0) -> Directions:
    """Find the leading directions of the scatter, and ``margin`` more; all of them if that is d. atoms : (d, R).

    Where there are too many features and atoms to reduce a matrix of that size, the first n_directions are found to
    1e-6, and the others as far as that takes them.
    """
    d, n_atoms = atoms.shape
    keep = min(n_directions + margin, d)
    if d <= DENSE_SCATTER:
        (scatter,) = atoms.total(lambda block: (block @ block.T,))
        values, vectors = np.linalg.eigh(scatter)
        return Directions(vectors[:, : -keep - 1 : -1].T.copy(), np.maximum(values[: -keep - 1 : -1], 0))
    if n_atoms <= DENSE_SCATTER:  # fewer atoms than features: through the smaller Gram matrix
        whole = atoms.whole()
        values, vectors = np.linalg.eigh(whole.T @ whole)
        keep = min(keep, int((values > 1e-12 * values[-1]).sum()))
        leading = values[: -keep - 1 : -1]
        return Directions((whole @ (vectors[:, : -keep - 1 : -1] / np.sqrt(leading))).T, leading)
    found = leading_eigenpairs(
        lambda basis: atoms.total(lambda block: (block @ (block.T @ basis),))[0],
        np.random.default_rng(0).standard_normal((d, min(keep + SPARE, d))),
        min(n_directions, d),
        tol=1e-6,
    )
    return Directions(found.vectors[:, :keep].T.copy(), np.maximum(found.values[:keep], 0))

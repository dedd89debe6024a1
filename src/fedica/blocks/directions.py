"""The leading directions of the scatter of the atoms, which carry all that the grouping needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, unit
from fedica.blocks.columns import Columns
from fedica.blocks.eigen import leading_eigenpairs

MAX_DENSE_SCATTER = 1_500
"""Up to this many features, or atoms, their square matrix of products is decomposed; above, a Krylov method is used."""

SPARE = 10
"""Directions beyond the wanted ones in the Krylov method: they speed up its convergence."""


@dataclass(frozen=True, eq=False)
class Directions:
    """Leading directions of the scatter A A' of the atoms."""

    axes: Array  # (p, d), orthonormal rows
    values: Array  # (p,), sum of the squared coordinates of all atoms along each, largest first

    def first(self, n_directions: int) -> Directions:
        """Return the first of these directions."""
        return Directions(self.axes[:n_directions], self.values[:n_directions])

    def coordinates(self, atoms: Columns) -> Columns:
        """Return the coordinates of the atoms in these directions: (p, R)."""
        axes = self.axes
        return atoms.seen(lambda block: axes @ block, axes.shape[0])

    def whitened(self, atoms: Columns) -> Columns:
        """Return the atoms whitened, so that all directions have the same scatter: unit columns, (p, R).

        The columns of a general mixing matrix are close to one another, which blurs the groups; where A has full rank,
        (A A')^(-1/2) A has orthonormal columns, as Algorithm 1 assumes.
        """
        scale = 1 / np.sqrt(np.maximum(self.values, 1e-9 * self.values[0]))
        stretch = scale[:, None] * self.axes
        return atoms.seen(lambda block: unit(stretch @ block), stretch.shape[0])


def leading_directions(atoms: Columns, n_directions: int, *, margin: int = 0) -> Directions:
    """Find the leading directions of the scatter, and ``margin`` more; all of them if that is d. atoms : (d, R).

    With more than `MAX_DENSE_SCATTER` features and atoms a Krylov method finds the first n_directions to 1e-6, and the
    others to what accuracy they have by then.
    """
    d, n_atoms = atoms.shape
    keep = min(n_directions + margin, d)
    if d <= MAX_DENSE_SCATTER:
        (scatter,) = atoms.total(lambda block: (block @ block.T,))
        values, vectors = np.linalg.eigh(scatter)
        return Directions(vectors[:, : -keep - 1 : -1].T.copy(), np.maximum(values[: -keep - 1 : -1], 0))
    if n_atoms <= MAX_DENSE_SCATTER:  # fewer atoms than features: through the smaller Gram matrix
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

"""Step 5: align the signs of the atoms of each group."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, IntArray, fix_signs
from fedica.blocks import MAX_DENSE_SCATTER, Columns, leading_eigenpairs, split_by_group

MAX_SCATTER_FEATURES = 128
"""Up to this many features, and where groups have as many atoms as features, the scatter matrices of all groups are
summed at once; else one goes group by group."""
MAX_GROUP_BYTES = 2**27
"""Bytes up to which a group is loaded into memory."""


def align_signs(atoms: Columns, labels: IntArray, n_components: int) -> Array:
    """Sign of each atom against the leading left singular vector of its group, sgn(0) = 1, Eq. (14).

    atoms : (d, R); labels : (R,), -1 for an atom of no group; result : (R,), entries +1 or -1.
    """
    axes = leading_axes(atoms, labels, n_components)

    def of_block(block: Array, label: IntArray) -> tuple[Array]:
        projections = np.einsum("db,db->b", block, axes[:, label])
        return (np.where((projections < 0) & (label >= 0), -1.0, 1.0),)

    return np.asarray(atoms.each(of_block, labels)[0])


def leading_axes(atoms: Columns, labels: IntArray, n_components: int) -> Array:
    """Leading left singular vector of each group of atoms, its largest entry positive: (d, r). No group is empty."""
    d, n_atoms = atoms.shape
    if d <= MAX_SCATTER_FEATURES and n_atoms >= n_components * d:
        (scatters,) = atoms.total(lambda block, label: (_group_scatters(block, label, n_components),), labels)
        axes = np.linalg.eigh(scatters)[1][:, :, -1].T
    else:
        axes = np.stack([_leading_axis(atoms, labels, a) for a in range(n_components)], axis=1)
    return fix_signs(axes)[0]


def _group_scatters(block: Array, label: IntArray, n_components: int) -> Array:
    """Sum of a a' over the atoms of each group: (r, d, d)."""
    scatters = np.zeros((n_components, block.shape[0], block.shape[0]))
    for a, own in enumerate(split_by_group(block, label, n_components)):
        np.matmul(own, own.T, out=scatters[a])
    return scatters


def _leading_axis(atoms: Columns, labels: IntArray, a: int) -> Array:
    """Leading left singular vector of one group of long atoms."""
    own = np.flatnonzero(labels == a)
    d, n = atoms.shape[0], own.size
    if 8 * d * n <= MAX_GROUP_BYTES and min(d, n) <= MAX_DENSE_SCATTER:
        group = atoms.take(own)
        if d <= n:
            return np.asarray(np.linalg.eigh(group @ group.T)[1][:, -1])
        axis = group @ np.linalg.eigh(group.T @ group)[1][:, -1]  # fewer atoms than features: the smaller Gram matrix
        return np.asarray(axis / np.linalg.norm(axis))

    def product(basis: Array) -> Array:
        def of_block(block: Array, label: IntArray) -> tuple[Array]:
            group = block[:, label == a]
            return (group @ (group.T @ basis),)

        return np.asarray(atoms.total(of_block, labels)[0])

    start = np.random.default_rng(0).standard_normal((d, min(d, 8)))
    return leading_eigenpairs(product, start, 1, tol=1e-8).vectors[:, 0]

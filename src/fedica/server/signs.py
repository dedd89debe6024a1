"""Step 5: within each group, turn every atom the same way."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, IntArray, fix_signs


def align_signs(atoms: Array, labels: IntArray, n_components: int) -> Array:
    """Sign of each atom against the leading left singular vector of its group, sgn(0) = 1, Eq. (14).

    atoms : (d, R); labels : (R,), -1 for an atom of no group; result : (R,), entries +1 or -1.
    """
    axes = np.stack([leading_axis(atoms[:, labels == a]) for a in range(n_components)], axis=1)
    projections = np.einsum("dR,dR->R", atoms, axes[:, labels])
    return np.where((projections < 0) & (labels >= 0), -1.0, 1.0)


def leading_axis(group: Array) -> Array:
    """Leading left singular vector of a group of atoms, its largest entry positive. group : (d, n), n >= 1."""
    d, n = group.shape
    if d <= n:
        axis = np.linalg.eigh(group @ group.T)[1][:, -1:]
    else:  # fewer atoms than features: through the smaller Gram matrix
        axis = group @ np.linalg.eigh(group.T @ group)[1][:, -1:]
        axis /= np.linalg.norm(axis)
    return np.asarray(fix_signs(axis)[0][:, 0], dtype=np.float64)

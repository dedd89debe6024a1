"""Where single atoms agree little: all components turned together, instead of one atom for each component.

(C6) The atoms of the clients that count, whitened by their own scatter, are unit vectors y_i of weight v_i. The
     orthonormal basis Q that most of them point along, max sum_i v_i sum_a (q_a' y_i)^4, is a fixed point of
     Q <- polar(sum_i v_i y_i (y_i' Q)^3), from the consensus. Every atom then counts for every component with the cube
     of its cosine in whitened coordinates: an atom between two components, of which real clients have many, is not
     forced onto one of them.
"""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, polar, unit
from fedica.blocks import columns_of, leading_directions

MAX_STEPS = 30


def turned_jointly(atoms: Array, weights: Array, reference: Array) -> Array:
    """Return the components turned jointly from a reference: (p, r), unit columns. (C6).

    atoms : (p, n); weights : (n,), not negative; reference : (p, r).
    """
    r = reference.shape[1]
    counting = np.flatnonzero(weights > 0)
    x, v = atoms[:, counting], weights[counting]
    directions = leading_directions(columns_of(x * np.sqrt(v)), r)
    if directions.values.size < r or directions.values[-1] <= 1e-9 * directions.values[0]:
        return reference  # the atoms span fewer directions than there are components
    scale = np.sqrt(directions.values)[:, None]
    points = unit(directions.axes @ x / scale)
    basis = polar(directions.axes @ reference / scale)
    for _ in range(MAX_STEPS):
        before, basis = basis, polar(_cubes(points, v, basis))
        if np.abs(basis - before).max() < 1e-9:
            break
    return unit(directions.axes.T @ (scale * unit(_cubes(points, v, basis))))


def _cubes(points: Array, weights: Array, basis: Array) -> Array:
    """Sum the points, (p, n), each with the cube of its cosine to every column of a basis, (p, r)."""
    return np.asarray((points * weights) @ ((basis.T @ points) ** 3).T)

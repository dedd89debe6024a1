"""Assign every client's atoms to the components of a reference, and measure how far they are from them.

The errors of a local ICA are equivariant: with a general mixing matrix A an honest client finds about A (I + E), with E
of the same size in all directions. In the coordinates of a reference near A the errors are E again, round and alike for
all components, whatever the condition number of A. So all distances are measured in these coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.blocks import Columns
from fedica.matching import match_similarity

MAX_DISTANCE = 10.0
"""Distances end at this tangent, of 84 degrees: an atom that is farther away matters no less and no more."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """The component of every atom, at most one atom of a client for each, and the distance to it.

    A distance is the tangent of the angle between atom and component in the coordinates of the reference, at most
    ``MAX_DISTANCE``, which is also the distance of an atom without a component.
    """

    labels: IntArray  # (R,), -1 for an atom without a component
    signs: Array  # (R,), +1 or -1
    distance: Array  # (R,)


def assign_atoms(atoms: Columns, owner: IntArray, reference: Array) -> Assignment:
    """Assign the atoms of every client to components, at most one each, in one sweep.

    atoms : (d, R), unit columns; owner : (R,), the client of each atom, ascending; reference : (d, r), unit columns of
    full rank.
    """
    inverse = np.asarray(np.linalg.pinv(reference), dtype=np.float64)

    def of_block(block: Array, own: IntArray) -> tuple[IntArray, Array, Array]:
        coordinates = block.T @ inverse.T  # (b, r): an atom is reference @ its coordinates, and a rest
        rest = np.zeros(own.size)
        if reference.shape[0] > reference.shape[1]:
            outside = block - reference @ coordinates.T
            rest = np.einsum("db,db->b", outside, outside)
        length = np.sqrt(np.einsum("br,br->b", coordinates, coordinates) + rest)
        found = match_similarity(coordinates / np.maximum(length, 1e-300)[:, None], own - own[0])
        return found.labels, found.signs, _tangents(coordinates, rest, found.labels)

    return Assignment(*atoms.each(of_block, owner))


def _tangents(coordinates: Array, rest: Array, labels: IntArray) -> Array:
    """Tangent of the angle to the own axis. coordinates : (b, r), overwritten; rest : (b,), squared."""
    rows = np.flatnonzero(labels >= 0)
    along = np.abs(coordinates[rows, labels[rows]])
    coordinates[rows, labels[rows]] = 0  # the other coordinates point away from the component
    across = np.sqrt(np.einsum("br,br->b", coordinates, coordinates)[rows] + rest[rows])
    distance = np.full(labels.size, MAX_DISTANCE)
    distance[rows] = np.minimum(across / np.maximum(along, across / MAX_DISTANCE + 1e-300), MAX_DISTANCE)  # (D)
    return distance

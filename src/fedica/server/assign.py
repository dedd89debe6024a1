"""Where every atom stands relative to a reference, in the coordinates of that reference.

The errors of a local ICA are equivariant: with a general mixing matrix A an honest client finds about A (I + E) with E
of the same size in all directions. Seen in the coordinates of a reference near A the errors are E again, round and
alike for all components, whatever the condition number of A. So all distances here are measured there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.blocks.columns import Columns
from fedica.matching import match_similarity

FAR = 10.0
"""Distances end here: the tangent of 84 degrees is as far as an atom can matter."""


@dataclass(frozen=True, eq=False)
class Relative:
    """Each atom against its component of the reference.

    Parameters
    ----------
    labels : ndarray of shape (R,)
        Component of each atom, at most one atom of a client for each; -1 for an atom that got none.
    signs : ndarray of shape (R,)
        +1 or -1.
    distance : ndarray of shape (R,)
        Tangent of the angle between atom and component in the coordinates of the reference, at most ``FAR``; ``FAR``
        where the label is -1.
    """

    labels: IntArray
    signs: Array
    distance: Array


def standing_of(atoms: Columns, owner: IntArray, reference: Array) -> Relative:
    """Give every client's atoms to components, as `relative_to` does, in one sweep. atoms : (d, R)."""
    inverse = np.asarray(np.linalg.pinv(reference), dtype=np.float64)

    def of_block(block: Array, own: IntArray) -> tuple[IntArray, Array, Array]:
        found = _relative(block, own - own[0], reference, inverse)
        return found.labels, found.signs, found.distance

    labels, signs, distance = atoms.each(of_block, owner)
    return Relative(labels, signs, distance)


def relative_to(atoms: Array, client_of_atom: IntArray, reference: Array) -> Relative:
    """Give every client's atoms to components, at most one each, and measure how far they are.

    atoms : (d, R), unit columns, a client's side by side; reference : (d, r), unit columns of full rank.
    """
    return _relative(atoms, client_of_atom, reference, np.asarray(np.linalg.pinv(reference), dtype=np.float64))


def _relative(atoms: Array, client_of_atom: IntArray, reference: Array, inverse: Array) -> Relative:
    coordinates = atoms.T @ inverse.T  # (R, r): the atom is reference @ its row, and a rest
    squared = np.einsum("Rr,Rr->R", coordinates, coordinates)
    rest = np.zeros(squared.size)
    if reference.shape[0] > reference.shape[1]:
        outside = atoms - reference @ coordinates.T
        rest = np.einsum("dR,dR->R", outside, outside)
    length = np.sqrt(squared + rest)
    found = match_similarity(coordinates / np.maximum(length, 1e-300)[:, None], client_of_atom)

    rows = np.flatnonzero(found.labels >= 0)
    along = np.abs(coordinates[rows, found.labels[rows]])
    coordinates[rows, found.labels[rows]] = 0  # what is left points away from the component
    across = np.sqrt(np.einsum("Rr,Rr->R", coordinates, coordinates)[rows] + rest[rows])
    distance = np.full(squared.size, FAR)
    distance[rows] = np.minimum(across / np.maximum(along, across / FAR + 1e-300), FAR)
    return Relative(found.labels, found.signs, distance)

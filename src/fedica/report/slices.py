"""Slices of a brain, or of whatever else was scanned: three planes through the voxel where a component is largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, binary_fill_holes

from fedica.arrays import Array, BoolArray, IntArray
from fedica.readers.voxels import voxel_indices

FEWEST_VOXELS = 27
LONGEST_AXIS = 1024
"""Clients choose the names of their features: a grid larger than any scan is not drawn."""
MOST_WIDE = 512
"""Pixels of the three slices side by side; finer grids are thinned."""
GAP = 3
"""Pixels between two slices."""


@dataclass(frozen=True, eq=False)
class Voxels:
    """The features as voxels: their places (d, 3) in a box one voxel wider than the mask, its origin and its shape."""

    places: IntArray
    origin: IntArray
    shape: IntArray


def voxels_of(features: Sequence[str] | None) -> Voxels | None:
    """Return where the features lie if their names are the indices of voxels, otherwise None."""
    index = voxel_indices(features)
    if index is None or len(index) < FEWEST_VOXELS:
        return None
    origin = index.min(axis=0) - 1
    shape = index.max(axis=0) - origin + 2
    return Voxels(index - origin, origin, shape) if shape.max() <= LONGEST_AXIS else None


def peak_of(voxels: Voxels, values: Array) -> tuple[int, int, int]:
    """Return the indices, in the grid of the mask, of the voxel where a component (d,) is largest."""
    i, j, k = (voxels.places[int(np.argmax(np.abs(values)))] + voxels.origin).tolist()
    return i, j, k


def slices_through_peak(voxels: Voxels, values: Array) -> Array:
    """Lay the planes across the first, the second and the third axis side by side: (height, width).

    The third axis points up in the first two planes, the second axis in the last; NaN outside the mask. In a grid
    whose axes run to the right, to the front and up these are a sagittal, a coronal and an axial slice.

    values : (d,), a component.
    """
    peak = np.array(peak_of(voxels, values)) - voxels.origin
    planes = []
    for across, (right, up) in enumerate(((1, 2), (0, 2), (0, 1))):
        rows = np.flatnonzero(voxels.places[:, across] == peak[across])
        plane = np.full((voxels.shape[up], voxels.shape[right]), np.nan)
        plane[voxels.shape[up] - 1 - voxels.places[rows, up], voxels.places[rows, right]] = values[rows]
        planes.append(plane)
    step = -(-sum(plane.shape[1] + GAP for plane in planes) // MOST_WIDE)
    return _side_by_side([plane[::step, ::step] for plane in planes])


def silhouette(slices: Array) -> BoolArray:
    """Return the pixels inside what was scanned, without the holes in it."""
    return np.asarray(binary_fill_holes(np.isfinite(slices)), dtype=np.bool_)


def outline(slices: Array) -> BoolArray:
    """Return the pixels just around what was scanned."""
    inside = silhouette(slices)
    return np.asarray(binary_dilation(inside) & ~inside, dtype=np.bool_)


def _side_by_side(planes: list[Array]) -> Array:
    """Put pictures beside each other, each in the middle of a line as high as the highest."""
    height = max(plane.shape[0] for plane in planes)
    padded = []
    for plane in planes:
        above = (height - plane.shape[0]) // 2
        below = height - plane.shape[0] - above
        padded.append(np.pad(plane, ((above, below), (0, GAP)), constant_values=np.nan))
    return np.hstack(padded)[:, :-GAP]

"""Slices of a scanned volume: three planes through the voxel where a component is largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, binary_fill_holes

from fedica.arrays import Array, BoolArray, IntArray
from fedica.readers.voxels import voxel_indices

MIN_VOXELS = 27
MAX_AXIS = 1024
"""Feature names come from clients, so a grid larger than any scan is not drawn."""
MAX_WIDTH = 512
"""Pixels of the three slices side by side; finer grids are subsampled."""
GAP = 3
"""Pixels between two slices."""


@dataclass(frozen=True, eq=False)
class Voxels:
    """The features as voxels: positions (d, 3) in a box one voxel wider than the mask, its origin and shape."""

    places: IntArray
    origin: IntArray
    shape: IntArray


def voxels_of(features: Sequence[str] | None) -> Voxels | None:
    """Return the voxels of the features if their names are voxel indices, otherwise None."""
    index = voxel_indices(features)
    if index is None or len(index) < MIN_VOXELS:
        return None
    origin = index.min(axis=0) - 1
    shape = index.max(axis=0) - origin + 2
    return Voxels(index - origin, origin, shape) if shape.max() <= MAX_AXIS else None


def peak_of(voxels: Voxels, values: Array) -> tuple[int, int, int]:
    """Return the indices, in the grid of the mask, of the voxel where a component (d,) is largest."""
    i, j, k = (voxels.places[int(np.argmax(np.abs(values)))] + voxels.origin).tolist()
    return i, j, k


def slices_through_peak(voxels: Voxels, values: Array) -> Array:
    """Return the planes across the first, second and third axis side by side: (height, width).

    The third axis points up in the first two planes, the second axis in the last; NaN outside the mask. In a grid
    whose axes point right, forward and up, these are a sagittal, a coronal and an axial slice.

    values : (d,), a component.
    """
    peak = np.array(peak_of(voxels, values)) - voxels.origin
    planes = []
    for across, (right, up) in enumerate(((1, 2), (0, 2), (0, 1))):
        rows = np.flatnonzero(voxels.places[:, across] == peak[across])
        plane = np.full((voxels.shape[up], voxels.shape[right]), np.nan)
        plane[voxels.shape[up] - 1 - voxels.places[rows, up], voxels.places[rows, right]] = values[rows]
        planes.append(plane)
    step = -(-sum(plane.shape[1] + GAP for plane in planes) // MAX_WIDTH)
    return _side_by_side([plane[::step, ::step] for plane in planes])


def silhouette(slices: Array) -> BoolArray:
    """Return the pixels inside the outline of the mask, holes filled."""
    return np.asarray(binary_fill_holes(np.isfinite(slices)), dtype=np.bool_)


def outline(slices: Array) -> BoolArray:
    """Return the pixels directly around the mask."""
    inside = silhouette(slices)
    return np.asarray(binary_dilation(inside) & ~inside, dtype=np.bool_)


def _side_by_side(planes: list[Array]) -> Array:
    """Put pictures beside each other, each centred vertically."""
    height = max(plane.shape[0] for plane in planes)
    padded = []
    for plane in planes:
        spare = height - plane.shape[0]
        padded.append(np.pad(plane, ((spare // 2, spare - spare // 2), (0, GAP)), constant_values=np.nan))
    return np.hstack(padded)[:, :-GAP]

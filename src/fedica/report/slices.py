"""Slices of a scanned volume: three planes through the voxel where a component is largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, binary_fill_holes
from scipy.optimize import linear_sum_assignment

from fedica.arrays import Array, BoolArray, IntArray
from fedica.readers.grids import affine_of
from fedica.readers.voxels import voxel_indices

MIN_VOXELS = 27
MAX_AXIS = 1024
"""Feature names come from clients, so a grid larger than any scan is not drawn."""
MAX_STRETCH = 8.0
"""Most pixels along one axis for a voxel that is one pixel along another: thick slices."""
MAX_WIDTH = 512
"""Pixels of the three slices side by side; finer grids are subsampled."""
GAP = 3
"""Pixels between two slices."""
PLANES = ((1, 2), (0, 2), (0, 1))
"""Axes to the right and up of the planes across the first, second and third axis."""


@dataclass(frozen=True, eq=False)
class Voxels:
    """The features as voxels of a box one voxel wider than the mask.

    Where the affine of the grid is known, the axes of the box are those nearest to right, forward and up.
    """

    index: IntArray  # (d, 3), in the grid of the mask
    places: IntArray  # (d, 3), in the box
    shape: IntArray  # (3,), of the box
    stretch: Array  # (3,), pixels per voxel along the axes of the box
    affine: Array | None  # (3, 4), from indices in the grid to mm; None: not known

    @property
    def axes(self) -> str:
        """Names of the axes: those of space in mm, or those of the grid."""
        return "ijk" if self.affine is None else "xyz"

    def position(self, voxel: int) -> list[float]:
        """Return where a voxel is: in mm, or its indices in the grid."""
        index = self.index[voxel].astype(np.float64)
        return list(map(float, index if self.affine is None else self.affine @ np.append(index, 1.0)))


def voxels_of(features: Sequence[str] | None, grid: str | None = None) -> Voxels | None:
    """Return the voxels of the features if their names are voxel indices, otherwise None.

    grid : as `Contribution.grid` has it, if it is known.
    """
    index = voxel_indices(features)
    if index is None or len(index) < MIN_VOXELS or np.ptp(index, axis=0).max() + 3 > MAX_AXIS:
        return None
    affine = affine_of(grid)
    box, stretch = index, np.ones(3)
    if affine is not None:
        axes, backwards = _nearest_axes(affine)
        box = index[:, axes] * np.where(backwards, -1, 1)
        sizes = np.linalg.norm(affine[:, axes], axis=0)
        stretch = np.minimum(sizes / sizes.min(), MAX_STRETCH)
    places = box - box.min(axis=0) + 1
    return Voxels(index, places, places.max(axis=0) + 2, stretch, affine)


def _nearest_axes(affine: Array) -> tuple[IntArray, BoolArray]:
    """Return the axis of the grid nearest to x, y and z, each once, and whether it points the other way."""
    directions = affine[:, :3] / np.linalg.norm(affine[:, :3], axis=0)
    axes = linear_sum_assignment(-np.abs(directions))[1]
    return axes, directions[np.arange(3), axes] < 0


def peak_of(values: Array) -> int:
    """Return the voxel where a component (d,) is largest."""
    return int(np.argmax(np.abs(values)))


def slices_through(voxels: Voxels, values: Array, voxel: int) -> Array:
    """Return the planes through a voxel across the first, second and third axis side by side: (height, width).

    The third axis points up in the first two planes, the second axis in the last; NaN outside the mask. Where the
    axes point right, forward and up, these are a sagittal, a coronal and an axial slice.

    values : (d,), a component.
    """
    planes = []
    for across, (right, up) in enumerate(PLANES):
        rows = np.flatnonzero(voxels.places[:, across] == voxels.places[voxel, across])
        plane = np.full((voxels.shape[up], voxels.shape[right]), np.nan)
        plane[voxels.shape[up] - 1 - voxels.places[rows, up], voxels.places[rows, right]] = values[rows]
        planes.append(plane[_pixels(voxels, up)[:, None], _pixels(voxels, right)])
    return _side_by_side(planes)


def plane_edges(voxels: Voxels) -> list[tuple[float, float]]:
    """Return the left and right edge of each plane, as shares of the width of the picture."""
    widths = [len(_pixels(voxels, right)) for right, _ in PLANES]
    starts = np.cumsum([0, *(width + GAP for width in widths)])
    whole = float(starts[-1] - GAP)
    return [(start / whole, (start + width) / whole) for start, width in zip(starts.tolist(), widths, strict=False)]


def plane_labels(voxels: Voxels, voxel: int) -> list[tuple[str, str, str]]:
    """Return what stands below each plane: the side on its left, its position, the side on its right."""
    sides = [("", "")] * 3 if voxels.affine is None else [("P", "A"), ("L", "R"), ("L", "R")]
    position = (f"{name} = {_number(at)}" for name, at in zip(voxels.axes, voxels.position(voxel), strict=True))
    return [(left, at, right) for (left, right), at in zip(sides, position, strict=True)]


def where(voxels: Voxels, voxel: int) -> str:
    """Return the position of a voxel in words."""
    indices = ", ".join(map(str, voxels.index[voxel].tolist()))
    if voxels.affine is None:
        return f"i, j, k = {indices}"
    return f"x, y, z = {', '.join(map(_number, voxels.position(voxel)))} mm; voxel {indices}"


def _number(value: float) -> str:
    """Return a position with one decimal where it has one."""
    return f"{round(value, 1) + 0.0:g}".replace("-", "−")


def silhouette(slices: Array) -> BoolArray:
    """Return the pixels inside the outline of the mask, holes filled."""
    return np.asarray(binary_fill_holes(np.isfinite(slices)), dtype=np.bool_)


def outline(slices: Array) -> BoolArray:
    """Return the pixels directly around the mask."""
    inside = silhouette(slices)
    return np.asarray(binary_dilation(inside) & ~inside, dtype=np.bool_)


def _pixels(voxels: Voxels, axis: int) -> IntArray:
    """Return the place in the box of each pixel along an axis."""
    width = float(sum((voxels.shape * voxels.stretch)[right] + GAP for right, _ in PLANES))
    per_voxel = float(voxels.stretch[axis]) / max(1.0, np.ceil(width / MAX_WIDTH))
    n_pixels = max(1, int(np.ceil(voxels.shape[axis] * per_voxel - 1e-9)))
    return np.asarray(np.minimum(np.arange(n_pixels) / per_voxel, voxels.shape[axis] - 1), dtype=np.int64)


def _side_by_side(planes: list[Array]) -> Array:
    """Put pictures beside each other, each centred vertically."""
    height = max(plane.shape[0] for plane in planes)
    padded = []
    for plane in planes:
        spare = height - plane.shape[0]
        padded.append(np.pad(plane, ((spare // 2, spare - spare // 2), (0, GAP)), constant_values=np.nan))
    return np.hstack(padded)[:, :-GAP]

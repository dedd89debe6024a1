"""Voxels as features: each is named by its indices in the grid of the mask, such as "31,40,22"."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fedica.arrays import BoolArray, IntArray

SUFFIXES = (".nii", ".nii.gz")
"""Files whose features are voxels."""
_VOXEL = re.compile(r"(0|[1-9]\d{0,4}),(0|[1-9]\d{0,4}),(0|[1-9]\d{0,4})")


def voxel_names(mask: BoolArray) -> tuple[str, ...]:
    """Name the voxels inside a mask (nx, ny, nz), in the order in which ``volume[mask]`` takes them."""
    return tuple(f"{i},{j},{k}" for i, j, k in np.argwhere(mask).tolist())


def voxel_indices(features: Sequence[str] | None) -> IntArray | None:
    """Return the indices (d, 3) of features named so; None if one of the names is not that of a voxel."""
    if features is None:
        return None
    found = [_VOXEL.fullmatch(name) for name in features]
    places = [match.groups() for match in found if match is not None]
    if not places or len(places) < len(found):
        return None
    return np.array(places, dtype=np.int64)

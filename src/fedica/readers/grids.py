"""The grid of voxels that clients agree on: the same indices in another grid are other places, perhaps mirrored."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from fedica.arrays import Array
from fedica.errors import DataError
from fedica.readers.masks import MAX_SIDE, MAX_VOXELS, Mask
from fedica.readers.voxels import voxel_indices
from fedica.text import show_text

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_GRID = re.compile(rf"(\d+ x \d+ x \d+) voxels; ({_NUMBER}(?:[ ;]+{_NUMBER}){{11}})")
SAME_PLACE = 2e-3
"""Affines whose entries, written to three digits, differ by less are those of the same grid."""


def check_grid(own: str | None, agreed: str | None, source: str, whose: str) -> None:
    """Refuse voxels in another grid than was agreed on; where either is not known, nothing can be said.

    Parameters
    ----------
    own, agreed : str, optional
        Grids as `Contribution.grid` has them.
    source, whose : str
        Names used in the message: of what has the first, and of what has the second.
    """
    if own is None or agreed is None or own == agreed:
        return
    (size, affine), (agreed_size, agreed_affine) = _parse(own), _parse(agreed)
    if affine is None or agreed_affine is None or size != agreed_size:
        how = ""
    elif np.allclose(affine, agreed_affine, rtol=0, atol=SAME_PLACE):
        return
    else:
        mirrored = np.linalg.det(affine[:, :3]) * np.linalg.det(agreed_affine[:, :3]) < 0
        how = " Left and right, or another pair of sides, are swapped." if mirrored else ""
    raise DataError(
        f"{source}: its voxels must have the grid of {whose}, {show_text(agreed, 150)}; got {show_text(own, 150)}."
        f"{how} Give the mask of the study, and images resampled to it."
    )


def mask_of_voxels(names: Sequence[str], grid: str) -> Mask:
    """Return the mask that has these voxels inside, in a grid as `Mask.grid` writes it."""
    size, affine = _parse(grid)
    places = voxel_indices(names)
    if affine is None or places is None:
        raise DataError("the features of the study must be voxels of a known grid; give the mask with --mask.")
    shape = tuple(map(int, size.split(" x ")))
    if max(shape) > MAX_SIDE or math.prod(shape) > MAX_VOXELS or np.any(places >= shape):
        raise DataError(f"the study has a grid of {size} voxels, in which not all of its features lie.")
    inside = np.zeros(shape, dtype=bool)
    inside[tuple(places.T)] = True
    return Mask(inside, np.vstack([affine, [0.0, 0.0, 0.0, 1.0]]), "the study")


def affine_of(grid: str | None) -> Array | None:
    """Return the affine (3, 4), from indices to mm, of a grid as `Mask.grid` writes it; None where it is not known."""
    affine = None if grid is None else _parse(grid)[1]
    return affine if affine is not None and abs(np.linalg.det(affine[:, :3])) > 0 else None


def _parse(grid: str) -> tuple[str, Array | None]:
    """Return the size and the affine (3, 4) of a grid as `Mask.grid` writes it; no affine of another text."""
    found = _GRID.fullmatch(grid)
    if found is None:
        return grid, None
    return found[1], np.array(re.findall(_NUMBER, found[2]), dtype=np.float64).reshape(3, 4)

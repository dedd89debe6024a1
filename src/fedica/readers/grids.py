"""The grid of voxels that clients agree on: the same indices in another grid are other places, perhaps mirrored."""

from __future__ import annotations

import re

import numpy as np

from fedica.arrays import Array
from fedica.errors import DataError
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


def _parse(grid: str) -> tuple[str, Array | None]:
    """Return the size and the affine (3, 4) of a grid as `Mask.grid` writes it; no affine of another text."""
    found = _GRID.fullmatch(grid)
    if found is None:
        return grid, None
    return found[1], np.array(re.findall(_NUMBER, found[2]), dtype=np.float64).reshape(3, 4)

"""NIfTI images and masks: the grid of voxels, and one clear sentence for every fault of a file."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedica.arrays import Array, BoolArray, PathLike
from fedica.errors import DataError, FormatError, InputError
from fedica.extras import import_extra

_BROKEN = (OSError, EOFError, ValueError, OverflowError, zlib.error)
MAX_VOXELS = 100_000_000
MAX_SIDE = 2048
"""Most voxels of a mask, and along each axis: half a millimetre takes 58 million for a head."""
SAME_PLACE = 1e-3
"""Affines that differ by less, in mm per voxel, are those of the same grid."""


@dataclass(frozen=True, eq=False)
class Mask:
    """Which voxels of a grid are features."""

    inside: BoolArray  # (nx, ny, nz), true where a voxel is a feature
    affine: Array  # (4, 4), from indices to mm
    source: str  # its name in messages: the file

    @property
    def n_voxels(self) -> int:
        """How many voxels are features."""
        return int(self.inside.sum())

    @property
    def grid(self) -> str:
        """The grid as text, for `Contribution.grid`: the same voxel indices in another grid are other places."""
        rows = "; ".join(" ".join(f"{x:g}" for x in np.round(row, 3) + 0.0) for row in self.affine[:3])
        return f"{_size(self.inside.shape)} voxels; {rows}"


def nibabel(what: str) -> Any:
    """Import nibabel, or say how to install it; ``what`` needs it."""
    import_extra("nilearn", what, "fmri")
    return import_extra("nibabel", what, "fmri", "nilearn")


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Turn what nibabel raises on a damaged or foreign file into a FormatError."""
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        raise FormatError(f"{source}: the image does not fit into memory, or its header is damaged.") from error
    except Exception as error:
        if not (isinstance(error, _BROKEN) or type(error).__module__.startswith("nibabel.")):
            raise
        reason = str(error).split("\n", maxsplit=1)[0].rstrip(".")[:150] or type(error).__name__
        raise FormatError(f"{source}: it is no NIfTI image that can be read, or not all of one ({reason}).") from error


def open_image(path: PathLike) -> Any:
    """Open a NIfTI image; its values stay on the disk, and those of a compressed one are read from front to back."""
    shown = os.fspath(path)
    nib = nibabel(f"{shown}: reading a NIfTI image")
    with reading(shown):
        image = nib.load(shown, keep_file_open=True)
        kind = np.dtype(image.get_data_dtype()).kind
    if kind not in "biuf":
        raise DataError(f"{shown}: the values of an image must be real numbers, got {image.get_data_dtype()!s:.60}.")
    return image


def image_of(given: Any, name: str) -> tuple[Any, str]:
    """Return an image, opened if its path is given, and its name in messages: the path, or ``name``."""
    return (open_image(given), os.fspath(given)) if isinstance(given, str | os.PathLike) else (given, name)


def load_mask(mask: Any) -> Mask:
    """Return the mask in a file or an image: 3D, zero outside, one other value inside."""
    image, source = image_of(mask, "the mask")
    shape = tuple(image.shape)
    if len(shape) == 4 and shape[3] == 1:
        shape = shape[:3]
    if len(shape) != 3:
        raise DataError(f"{source}: a mask is one volume of three dimensions, got {_size(shape)} voxels.")
    if max(shape) > MAX_SIDE or math.prod(shape) > MAX_VOXELS:
        raise DataError(
            f"{source}: a mask has at most {MAX_VOXELS} voxels, and {MAX_SIDE} along each axis; got {_size(shape)}."
        )
    with reading(source):
        inside, low, high = _inside(image, shape)
        affine = np.asarray(image.affine, dtype=np.float64)
    if low > high:
        raise DataError(f"{source}: the mask is empty: no voxel of {_size(shape)} is inside.")
    if low < high:
        raise DataError(
            f"{source}: a mask has one value inside, and zero outside; got values other than zero from {low:.4g} to "
            f"{high:.4g}. Set it to 1 where a threshold is passed."
        )
    return Mask(inside, affine, source)


def _inside(image: Any, shape: tuple[int, ...]) -> tuple[BoolArray, float, float]:
    """Return where a mask is neither zero nor NaN, and the smallest and largest value there; plane by plane.

    A file of a few megabytes may hold gigabytes of zeros: of its numbers, those of one plane are in memory.
    """
    inside, low, high = np.zeros(shape, dtype=bool), np.inf, -np.inf
    for k in range(shape[2]):
        plane = np.asarray(image.dataobj[:, :, k], dtype=np.float64).reshape(shape[:2])
        inside[:, :, k] = np.isfinite(plane) & (plane != 0)
        low = min(low, float(plane.min(where=inside[:, :, k], initial=np.inf)))
        high = max(high, float(plane.max(where=inside[:, :, k], initial=-np.inf)))
    return inside, low, high


def check_same_grid(image: Any, mask: Mask, source: str) -> None:
    """Refuse an image whose voxels are not those of the mask: its voxel 31,40,22 would be another place."""
    shape = tuple(image.shape[:3])
    if shape != mask.inside.shape:
        how = f"it has {_size(shape)} voxels, {mask.source} has {_size(mask.inside.shape)}"
    elif not np.allclose(image.affine, mask.affine, rtol=0, atol=SAME_PLACE):
        apart = float(np.abs(_corners(image.affine, shape) - _corners(mask.affine, shape)).max())
        how = f"its affine is not that of {mask.source}: a corner lies {apart:.3g} mm off along one axis"
    else:
        return
    raise DataError(
        f"{source}: the image must have the grid of the mask, so that voxels agree across clients; {how}. If both are "
        "in the same space, resample it first: nilearn.image.resample_to_img(image, mask)."
    )


def image_values(image: Any, source: str, *, volume: int | None = None) -> Array:
    """Return the values of an image as float64: all, or those of one volume of a 4D image, (nx, ny, nz)."""
    with reading(source):
        return np.asarray(image.dataobj if volume is None else image.dataobj[..., volume], dtype=np.float64)


def _corners(affine: Array, shape: tuple[int, ...]) -> Array:
    """Places in mm of the corners of a grid."""
    ends = np.array(np.meshgrid(*[(0, n - 1) for n in shape])).reshape(3, -1)
    return np.asarray(affine[:3] @ np.vstack([ends, np.ones(ends.shape[1])]))


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))

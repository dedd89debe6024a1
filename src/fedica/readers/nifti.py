"""NIfTI images over time: one sample per volume, one feature per voxel inside the mask; needs nilearn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import BoolArray
from fedica.errors import DataError
from fedica.formats import ReadOptions
from fedica.progress import counting
from fedica.readers.grids import mask_of_voxels
from fedica.readers.masks import Mask, check_same_grid, image_values, load_mask, open_image
from fedica.readers.sheet import Sheet
from fedica.readers.voxels import voxel_names

SingleArray = NDArray[np.float32]
_BLOCK_VOXELS = 4096
CONSTANT = 1e-6
"""A voxel whose standard deviation is below this share of its largest value is constant up to rounding."""


def read_nifti(path: Path, columns: Sequence[str] | None, options: ReadOptions) -> Sheet:
    """Read the voxels inside the mask of a 4D image: (n_volumes, n_voxels), float32, volume by volume.

    Steps in the order of nilearn's maskers: smooth each volume, take the voxels, remove trends, scale to variance one.
    """
    return image_sheet(open_image(path), columns, options, str(path))


def image_sheet(image: Any, columns: Sequence[str] | None, options: ReadOptions, source: str) -> Sheet:
    """Return the same of an open image; ``source`` is its name in messages."""
    _check_volumes(image, source)
    mask, notes = _mask(image, source, columns, options)
    check_same_grid(image, mask, source)
    n_volumes = image.shape[3]
    notes.insert(0, f"{n_volumes} volumes; {mask.n_voxels} of {mask.inside.size} voxels are inside the mask.")
    values, n_outside = _series(image, mask, options.smoothing or None, source)
    if options.smoothing:
        notes.append(f"every volume was smoothed: a Gaussian of {options.smoothing:g} mm at half of its maximum.")
        if n_outside:
            notes.append("values outside the mask that are not finite were taken as zero before smoothing.")
    notes += _clean(values, remove_trend=options.detrend, scale=options.standardize)
    return Sheet(values, voxel_names(mask.inside), {}, tuple(notes), extra={"grid": mask.grid}, measured=True)


def _check_volumes(image: Any, source: str) -> None:
    if len(image.shape) == 4 and image.shape[3] > 1:
        return
    shape = " x ".join(map(str, image.shape))
    raise DataError(
        f"{source}: an image over time was expected, of four dimensions: x, y, z and volumes; got {shape}. One volume "
        "alone has no components: give the whole run."
    )


def _mask(image: Any, source: str, columns: Sequence[str] | None, options: ReadOptions) -> tuple[Mask, list[str]]:
    """Return the mask that was given; else compute one, unless the features are given and it would have to fit them."""
    if options.mask is not None:
        return load_mask(options.mask), []
    if columns is not None and options.grid is not None:
        return mask_of_voxels(columns, options.grid), []
    if columns is not None:
        raise DataError(
            f"{source}: the wanted features are voxels of a mask, and only the mask tells whether the grid is the "
            "same. Give it with --mask."
        )
    from nilearn.masking import compute_epi_mask  # noqa: PLC0415 - an extra

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty mask is refused below
        try:
            computed = compute_epi_mask(image)
        except (ValueError, IndexError) as error:
            raise DataError(
                f"{source}: no mask was given, and nilearn finds none in the image ({str(error)[:100]}). Give --mask."
            ) from error
    inside: BoolArray = np.asarray(computed.dataobj) != 0
    if not inside.any():
        raise DataError(f"{source}: no mask was given, and nilearn finds no brain in the image. Give one with --mask.")
    note = (
        "no mask was given: nilearn computed one from this image. It is this client's own: in a federation every "
        "client needs the same mask, or their voxels do not agree. Give it with --mask."
    )
    return Mask(inside, np.asarray(image.affine), "the mask computed from it"), [note]


def _series(image: Any, mask: Mask, smoothing: float | None, source: str) -> tuple[SingleArray, int]:
    """Return the voxels inside the mask of every volume, and how many values outside were not finite."""
    values = np.empty((image.shape[3], mask.n_voxels), dtype=np.float32)
    n_outside = 0
    for t in counting(range(image.shape[3]), image.shape[3]):
        one = image_values(image, source, volume=t)
        finite = np.isfinite(one)
        if not finite.all():
            _refuse_inside(finite, mask, t, source)
            n_outside += int((~finite).sum())
        if smoothing is not None:
            one = _smoothed(np.where(finite, one, 0.0), image, smoothing)
        values[t] = one[mask.inside]
    return values, n_outside


def _refuse_inside(finite: BoolArray, mask: Mask, t: int, source: str) -> None:
    bad = np.argwhere(mask.inside & ~finite)
    if len(bad):
        i, j, k = bad[0].tolist()
        raise DataError(
            f"{source}: {len(bad)} of the {mask.n_voxels} voxels inside the mask are NaN or infinite in volume {t}, "
            f"the first is {i},{j},{k}. Take them out of the mask, at every client, or correct the image."
        )


def _smoothed(one: NDArray[np.float64], image: Any, fwhm: float) -> NDArray[np.float64]:
    from nilearn.image import new_img_like, smooth_img  # noqa: PLC0415 - an extra

    return np.asarray(smooth_img(new_img_like(image, one, image.affine), fwhm).dataobj, dtype=np.float64)


def _clean(values: SingleArray, *, remove_trend: bool, scale: bool) -> list[str]:
    """Remove trends and scale, in place, as nilearn does; but a constant voxel becomes zero, not rounding."""
    if not (remove_trend or scale):
        return []
    n_constant, line = 0, np.linspace(-1, 1, len(values))
    for start in range(0, values.shape[1], _BLOCK_VOXELS):
        own = slice(start, start + _BLOCK_VOXELS)
        block = values[:, own].astype(np.float64)
        largest = np.abs(block).max(axis=0)
        block -= block.mean(axis=0)
        if remove_trend:
            block -= np.outer(line, line @ block / (line @ line))
        deviation = block.std(axis=0, ddof=1)
        flat = deviation <= CONSTANT * largest
        block[:, flat] = 0.0
        n_constant += int(flat.sum())
        if scale:
            block /= np.where(flat, 1.0, deviation)
        values[:, own] = block
    notes = ["the mean and the linear trend of every voxel were removed."] if remove_trend else []
    if scale:
        notes.append("the time course of every voxel was scaled to variance one.")
    if n_constant:
        notes.append(f"{n_constant} of {values.shape[1]} voxels do not vary over time; they are zero.")
    return notes

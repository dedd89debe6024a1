"""Component maps of the brain: nilearn's CanICA or an image as a contribution, and an aggregate as an image."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.errors import DataError, InputError
from fedica.exchange import PublicAggregate
from fedica.local.strengths import strengths_of
from fedica.readers.grids import check_grid
from fedica.readers.masks import Mask, check_same_grid, image_of, image_values, load_mask, nibabel
from fedica.readers.voxels import voxel_indices, voxel_names
from fedica.records import Aggregate, Contribution


def from_canica(
    canica: Any, client: str, *, imgs: Any = None, n_samples: int | None = None, study: str | None = None
) -> Contribution:
    """Take the maps of a fitted nilearn ``CanICA`` as a contribution, without refitting.

    Parameters
    ----------
    canica : nilearn.decomposition.CanICA
        Fitted to volumes, with the mask that all clients share. Any other estimator of nilearn's decompositions with
        ``components_`` and ``mask_img_`` will do, such as ``DictLearning``.
    client : str
        Name of the client.
    imgs : list of path-like or Nifti1Image, optional
        The images that it was fitted to: strengths are then computed from them, and sent, for ``method="group"`` of the
        server. A fitted CanICA does not store them. What strengths tell: `LocalICA.contribution`.
    n_samples : int, optional
        How many volumes it was fitted to, if the client tells; a fitted CanICA does not store it.
    study : str, optional
        Id of the study.

    Returns
    -------
    contribution : Contribution
        One atom per map, scaled to norm one. Its features are the voxels of the mask, named as the reader of NIfTI
        images names them.

    Warns
    -----
    UserWarning
        If maps are zero everywhere, as ``threshold`` can leave them: they are left out.

    Raises
    ------
    InputError
        If it is not fitted, or was fitted to surfaces.

    Notes
    -----
    Maps of CanICA have mean zero over the mask; those of `LocalICA` keep their mean. For networks that cover a small
    part of the mask the difference is small. ``threshold=None`` keeps small values, which makes the maps more alike.
    """
    maps, mask_img = getattr(canica, "components_", None), getattr(canica, "mask_img_", None)
    if maps is None or mask_img is None:
        raise InputError(
            f"client {client!r}: a fitted CanICA was expected, with components_ and mask_img_; got "
            f"{type(canica).__name__} without them. Call its fit first."
        )
    if not hasattr(mask_img, "affine"):
        raise InputError(f"client {client!r}: maps over volumes are needed; this one was fitted to surfaces.")
    mask = load_mask(mask_img)
    scans = None if imgs is None else np.concatenate(canica.masker_.transform(imgs))
    values = np.asarray(maps, dtype=np.float64).T
    return _contribution(values, mask, client, n_samples, study, type(canica).__name__, scans)


def from_nifti(
    maps: Any, mask: Any, client: str, *, scans: Any = None, n_samples: int | None = None, study: str | None = None
) -> Contribution:
    """Take component maps in an image, one per volume, as a contribution: those of `to_nifti`, MELODIC or GIFT.

    Parameters
    ----------
    maps : path-like or Nifti1Image
        4D, or 3D for one map alone.
    mask : path-like or Nifti1Image
        The mask that all clients share, in the same grid.
    scans : array-like of shape (n_samples, n_voxels), optional
        The data that the maps were found from, inside the mask, such as `fedica.readers.read_data` or a masker of
        nilearn gives: strengths are then computed from them, and sent, for ``method="group"`` of the server.
    client, n_samples, study
        As in `from_canica`.

    Returns
    -------
    contribution : Contribution
        One atom per map, scaled to norm one; its features are the voxels of the mask.

    Raises
    ------
    DataError
        If the image does not have the grid of the mask, or has values that are not finite inside it.
    FormatError
        If a file is not a NIfTI image.
    """
    nibabel("taking maps from a NIfTI image")
    (image, source), grid = image_of(maps, "the image of maps"), load_mask(mask)
    if len(image.shape) not in (3, 4):
        raise DataError(f"{source}: maps are volumes of three dimensions, one after the other; got {image.shape}.")
    check_same_grid(image, grid, source)
    values = image_values(image, source).reshape(*image.shape[:3], -1)[grid.inside]
    if not np.isfinite(values).all():
        n_bad = int((~np.isfinite(values)).any(axis=1).sum())
        raise DataError(
            f"{source}: {n_bad} of the {grid.n_voxels} voxels inside the mask are NaN or infinite. Take them out of "
            "the mask, or set them to zero."
        )
    return _contribution(values, grid, client, n_samples, study, None, scans)


def to_nifti(result: Aggregate | PublicAggregate | Contribution, mask: Any) -> Any:
    """Return components as an image that every neuroimaging tool opens: one volume per component.

    Parameters
    ----------
    result : Aggregate, PublicAggregate or Contribution
        With voxels as features: the columns of ``mixing``, or the atoms of one client.
    mask : path-like or Nifti1Image
        The mask of the study: it tells where the voxels are in space.

    Returns
    -------
    image : nibabel.Nifti1Image
        4D, float64, with the affine and the space of the mask; zero outside. ``image.to_filename("maps.nii.gz")``
        saves it.

    Raises
    ------
    InputError
        If the features are not voxels of the mask, or its grid is not that of the components.

    See Also
    --------
    from_nifti : The way back.
    """
    if isinstance(result, Contribution):
        values, features, grid = result.atoms, result.features, result.grid
    else:
        values, features, grid = result.mixing, result.terms.features, result.terms.grid
    return maps_image(values, features, mask, grid=grid)


def maps_image(values: Array, features: Sequence[str] | None, mask: Any, *, grid: str | None = None) -> Any:
    """Return maps as an image, one volume per map.

    values : (d, m). features : names of the voxels; ``None``: those of the mask, in order. grid : that of the voxels.
    """
    nib = nibabel("giving components as a NIfTI image")
    inside = load_mask(mask)
    check_grid(inside.grid, grid, inside.source, "the components")
    indices = _voxels(features, values.shape[0], inside)
    volume = np.zeros((*inside.inside.shape, values.shape[1]))
    volume[tuple(indices.T)] = values
    image = nib.Nifti1Image(volume, inside.affine)
    like, _ = image_of(mask, "the mask")
    if isinstance(like.header, nib.Nifti1Header):
        image.header.set_xyzt_units(*like.header.get_xyzt_units())
        codes = int(like.header["sform_code"]), int(like.header["qform_code"])
        if any(codes):  # which space the mask is in, such as MNI, and which of its two affines says so
            image.set_qform(like.get_qform(), code=codes[1])
            image.set_sform(inside.affine, code=codes[0])
    image.header["descrip"] = f"fedica: {values.shape[1]} components".encode()
    return image


def _contribution(
    maps: Array, mask: Mask, client: str, n_samples: int | None, study: str | None, solver: str | None, scans: Any
) -> Contribution:
    """Make a contribution of maps (d, r) without those that are zero, which have no direction; strengths of scans."""
    kept = np.linalg.norm(maps, axis=0) > 0
    if not kept.any():
        raise InputError(f"client {client!r}: every one of the {kept.size} maps is zero.")
    if not kept.all():
        warnings.warn(
            f"client {client!r}: {int((~kept).sum())} of {kept.size} maps are zero everywhere; they were left out.",
            UserWarning,
            stacklevel=3,
        )
        maps = maps[:, kept]
    gram, noise_floor = (None, None) if scans is None else strengths_of(scans, maps)
    return Contribution(
        client,
        maps,
        n_samples,
        gram=gram,
        noise_floor=noise_floor,
        features=voxel_names(mask.inside),
        solver=solver,
        independence="features",
        study=study,
        grid=mask.grid,
    )


def _voxels(features: Sequence[str] | None, n_features: int, mask: Mask) -> IntArray:
    """Return where the features lie in the mask, (d, 3); those without names are all of its voxels, in order."""
    if features is None:
        if n_features != mask.n_voxels:
            raise InputError(
                f"the components have {n_features} features without names; {mask.source} has {mask.n_voxels} voxels. "
                "Give the mask that the clients used."
            )
        return np.argwhere(mask.inside)
    indices = voxel_indices(features)
    if indices is None:
        raise InputError(
            f"the features must be voxels, named by their indices such as '31,40,22'; got {features[0]!r:.60}."
        )
    there = np.array((indices < mask.inside.shape).all(axis=1))
    there[there] = mask.inside[tuple(indices[there].T)]
    if not there.all():
        first = features[int(np.argmin(there))]
        raise InputError(
            f"{int((~there).sum())} of {n_features} voxels are not inside {mask.source}, the first is {first!r}. Give "
            "the mask that the clients used."
        )
    return indices

"""A client's own maps of the group's components, as files: their values, and their z-values beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedica.arrays import Array, IntArray, PathLike
from fedica.errors import OptionError
from fedica.exchange.files import PRIVATE, write_atomic
from fedica.exchange.tables import columns_table
from fedica.interop.nilearn_maps import maps_image
from fedica.local import DualRegression
from fedica.readers import ReadOptions, Table
from fedica.workflow.export import image_bytes

SUFFIXES = (".nii.gz", ".nii", ".csv")


def check_maps(maps: PathLike, independence: str | None, options: ReadOptions) -> tuple[Path, Path]:
    """Return the files of a client's own maps and of their z-values: own.nii.gz and own_Z.nii.gz."""
    path = Path(maps)
    suffix = next((ending for ending in SUFFIXES if path.name.lower().endswith(ending)), None)
    if suffix is None:
        raise OptionError(f"{path}: own maps are written as {', '.join(SUFFIXES)}. Let its name end in one of these.")
    if independence != "features":
        raise OptionError(
            f"{path}: own maps belong to components that are maps over features (spatial ICA); these are independent "
            f"over {independence or 'samples'}. Leave --maps out."
        )
    if suffix != ".csv" and options.mask is None:
        raise OptionError(f"{path}: an image of own maps needs --mask: where the voxels are in space.")
    stem = path.name[: -len(suffix)]
    return path, path.with_name(f"{stem}_Z{path.name[len(stem) :]}")


def write_own_maps(own: DualRegression, table: Table, paths: tuple[Path, Path], options: ReadOptions) -> None:
    """Write the maps and their z-values."""
    for path, values in zip(paths, (own.maps, own.z), strict=True):
        if path.suffix.lower() == ".csv":
            content = columns_table(_names(table.features, len(values)), _columns(own.labels), values)
        else:
            content = _image(values, table, path, options)
        write_atomic(path, [content], mode=PRIVATE)


def _image(values: Array, table: Table, path: Path, options: ReadOptions) -> bytes:
    return image_bytes(maps_image(values, table.features, options.mask, grid=table.extra.get("grid")), path)


def _names(features: Sequence[str] | None, n_features: int) -> Sequence[str]:
    return features or [f"feature_{i}" for i in range(n_features)]


def _columns(labels: IntArray) -> list[str]:
    return [f"component_{a}" for a in labels.tolist()]

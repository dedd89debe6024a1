"""The coordinator's first step: the file with what all clients agree on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedica.arrays import PathLike
from fedica.errors import InputError, OptionError
from fedica.exchange import write_study
from fedica.readers import read_data, read_names, suffix_of
from fedica.readers.masks import mask_features
from fedica.readers.voxels import SUFFIXES as IMAGES
from fedica.records import Study
from fedica.workflow.contribute import Progress


@dataclass(frozen=True)
class NewStudy:
    """A study that was written.

    Parameters
    ----------
    study : Study
        What all clients agree on.
    notes : tuple of str
        What was noticed in the data that the features were taken from.
    """

    study: Study
    notes: tuple[str, ...]


def new_study(
    output: PathLike,
    identifier: str,
    *,
    features: PathLike | None = None,
    data: PathLike | None = None,
    unit: str | None = None,
    scale: float | None = None,
    progress: Progress | None = None,
    **agreed: Any,
) -> NewStudy:
    """Write the file of a new study.

    Parameters
    ----------
    output : path-like
        The file; it must not exist yet.
    identifier : str
        Name of the study.
    features : path-like, optional
        A text file with the features in order, one name per line.
    data : path-like, optional
        Instead of `features`: a data file with named columns, or a mask of voxels.
    unit : str, optional
        Unit of all features; by default what the data file says.
    scale : float, optional
        Common factor of all features.
    progress : callable, optional
        Told what is being done.
    **agreed
        Other parameters of `Study`.

    Returns
    -------
    NewStudy
        The study.
    """
    tell = progress or (lambda text: None)
    if (features is None) == (data is None):
        raise OptionError("a study needs its features: give either --features FILE or --from DATA.")
    if Path(output).exists():
        raise InputError(f"{output}: there is a study already, which clients may have. Choose another name.")
    units: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    if features is not None:
        names = read_names(Path(features))
    elif data is not None:
        tell(f"reading {data}")
        names, units, notes = _features_in(data)
    study = Study(
        identifier,
        names,
        units=units if unit is None else [unit] * len(names),
        scales=None if scale is None else [scale] * len(names),
        **agreed,
    )
    tell(f"writing {output}")
    write_study(study, output)
    return NewStudy(study, notes)


def _features_in(data: PathLike) -> tuple[tuple[str, ...], tuple[str, ...] | None, tuple[str, ...]]:
    """Return names and units of the columns of a data file, and notes; or the voxels of a mask."""
    if suffix_of(data) in IMAGES:
        return mask_features(data), None, ()
    table = read_data(data, drop_missing=True)
    if table.features is None:
        raise InputError(f"{data}: its columns have no names. Give them with --features FILE.")
    return table.features, table.units, tuple(table.notes)

"""The coordinator's first step: the file with what all clients agree on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import PathLike
from fedica.errors import DataError, InputError, OptionError
from fedica.exchange import write_study
from fedica.readers import ReadOptions, Table, read_data, read_names, suffix_of
from fedica.readers.channels import MEG, NO_CHANNELS
from fedica.readers.masks import load_mask
from fedica.readers.select import suspicion
from fedica.readers.voxels import SUFFIXES as IMAGES
from fedica.readers.voxels import voxel_names
from fedica.records import Study
from fedica.workflow.preparation import preparation_of
from fedica.workflow.scales import choose_scales


def new_study(
    output: PathLike,
    identifier: str,
    *,
    names: PathLike | None = None,
    data: PathLike | None = None,
    independence: str | None = None,
    unit: str | None = None,
    scale: float | None = None,
    scales: str | None = None,
    other_preprocessing: str | None = None,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    **agreed: Any,
) -> tuple[Study, tuple[str, ...]]:
    """Write the file of a study, which must not exist yet; return the study, and notes on the data.

    Parameters
    ----------
    output : path-like
        The file to write.
    identifier : str
        Name of the study.
    names, data : path-like, optional
        Where the features come from: a text file with one name per line, or else the columns of a data file, or the
        voxels of a mask.
    independence : str, optional
        As in `Study`; by default "features" for voxels, as is usual for images of the brain, and else "samples".
    unit : str, optional
        Unit of all features; by default what the data file says.
    scale : float, optional
        Common factor of all features.
    scales : str, optional
        A factor for each feature: "robust", one over its spread in the data file; or the path of a text table with the
        names of the features and their factors.
    other_preprocessing : str, optional
        As in `Study`; by default "refuse" if the study says how data is prepared.
    options : ReadOptions
        How the data file is read, where its format leaves a choice: what concerns all clients becomes part of the
        study. A recording without EEG is read as MEG, and its own low-pass is taken over, unless they are given.
    **agreed
        Other parameters of `Study`.
    """
    if Path(output).exists():
        raise InputError(f"{output}: there is a study already, which clients may have. Choose another name.")
    if scale is not None and scales is not None:
        raise OptionError("--scale is one factor for all features, --scales one for each: give one of them.")
    found, values, notes = _features(names, data, options)
    n_features = len(found["features"])
    if unit is not None:
        found["units"] = [unit] * n_features
    factors, scale_notes = choose_scales(scales, found["features"], values)
    if scale is not None:
        factors = (scale,) * n_features
    over = independence or ("features" if found.get("grid") else "samples")
    if found.get("preprocessing") is not None:
        agreed["other_preprocessing"] = other_preprocessing or "refuse"
    elif other_preprocessing is not None:
        raise OptionError("the study says nothing of how data is prepared: --other-preprocessing needs --from DATA.")
    study = Study(identifier, scales=factors, independence=over, **found, **agreed)
    write_study(study, output)
    return study, (*notes, *scale_notes, *identifier_notes(study))


def identifier_notes(study: Study) -> tuple[str, ...]:
    """Name the features of a study that look like identifiers or dates: clients use them, because the study says so."""
    looks = {name: why for name in study.features if (why := suspicion(name, np.empty(0), first=False))}
    return tuple(
        f"study {study.id!r} has the feature {name!r}, which is {why}: every client would fit it, and its atoms could "
        "tell about single persons."
        for name, why in looks.items()
    )


def _features(
    names: PathLike | None, data: PathLike | None, options: ReadOptions
) -> tuple[dict[str, Any], NDArray[Any] | None, tuple[str, ...]]:
    """Return the features as fields of a study, with units or grid if the file says them; its values, and notes."""
    if names is not None and data is None:
        return {"features": read_names(Path(names))}, None, ()
    if data is None or names is not None:
        raise OptionError("a study needs its features: give either --features FILE or --from DATA.")
    if suffix_of(data) in IMAGES:
        mask = load_mask(data)
        prepared = preparation_of([data], options)
        return {"features": voxel_names(mask.inside), "grid": mask.grid, "preprocessing": prepared}, None, ()
    table, options, notes = _read(data, options)
    if table.features is None:
        raise InputError(f"{data}: its columns have no names. Give them with --features FILE.")
    fields: dict[str, Any] = {
        "features": table.features,
        "units": table.units,
        "preprocessing": preparation_of([data], options),
    }
    return fields, table.values, (*table.notes, *notes)


def _read(data: PathLike, options: ReadOptions) -> tuple[Table, ReadOptions, tuple[str, ...]]:
    """Read the data of a study; return it, the options with what its recording tells, and notes on that."""
    notes: list[str] = []
    try:
        table = read_data(data, drop_missing=True, options=options)
    except DataError as error:
        if error.kind != NO_CHANNELS or "channel_types" in options.changed() or not {*error.numbers["types"]} & {*MEG}:
            raise
        options = replace(options, channel_types="meg")
        table = read_data(data, drop_missing=True, options=options)
        notes.append("the recording has no EEG: the study is of MEG (channel_types meg).")
    lowpass = table.passband.lowpass if table.passband else 0.0
    if options.lowpass is None and lowpass > (options.highpass or 0.0):
        options = replace(options, lowpass=lowpass)
        notes.append(
            f"the recording was low-pass filtered at {lowpass:g} Hz, as it says itself: the study asks all "
            "clients for that. --lowpass 0 asks for none."
        )
    return table, options, tuple(notes)

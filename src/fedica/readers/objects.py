"""Objects in memory (DataFrames, AnnData, recordings, images) -> tables, exactly as files of them are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from fedica.errors import InputError, OptionError
from fedica.formats import READERS, Reader, ReadOptions
from fedica.readers.anndata_files import anndata_sheet
from fedica.readers.frames import frame_sheet
from fedica.readers.nifti import image_sheet
from fedica.readers.recording import recording_sheet
from fedica.readers.registry import DEFAULT_OPTIONS, check_options, to_table
from fedica.readers.select import Keep
from fedica.readers.sheet import Sheet, Table


def as_table(
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    lacking_ok: bool = False,
    drop_missing: bool = False,
    keep: Keep | None = None,
    units: Mapping[str, str] | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
) -> Table:
    """Turn a DataFrame, an AnnData, a recording of MNE or an image into data to fit, as a file of it is read.

    Parameters
    ----------
    data : pandas.DataFrame, anndata.AnnData, mne.io.Raw, mne.Epochs or nibabel.Nifti1Image
        A sample is a row, a point in time of a recording, a volume of a 4D image. The object is not changed. Epochs are
        put one after the other, and are not filtered.
    columns, lacking_ok, drop_missing, keep, units
        As in `read_data`. By default all columns of numbers that do not look like identifiers or dates, all
        ``var_names``, or all channels of the wanted types, in microvolts, femtotesla and femtotesla per cm.
        ``drop_missing`` and ``keep`` are not for recordings.
    options : ReadOptions
        Of an AnnData, the layer; of a recording, filter, reference, types of channels, bad channels; of an image, mask,
        smoothing, detrending and scaling.

    Returns
    -------
    Table
        ``values`` (n_samples, n_features), ``features`` their names, and ``notes`` on what was done.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedica.readers import as_table
    >>> frame = pd.DataFrame({"patient": [17, 4, 9], "age": [60, 54, 71], "sex": ["f", "f", "m"], "dose": [0.5, 1, 2]})
    >>> table = as_table(frame)
    >>> table.features
    ('age', 'dose')
    >>> table.left_out["patient"]
    'an identifier, by its name'
    """
    kind = next((kind for kind in _KINDS if _is_instance(data, kind.module, kind.name)), None)
    if kind is None:
        raise InputError(
            "as_table takes an mne.io.Raw or mne.Epochs, a pandas.DataFrame, an anndata.AnnData or a "
            f"nibabel.Nifti1Image, got {type(data).__name__}."
        )
    if kind.module == "mne" and (drop_missing or keep is not None):
        raise OptionError("drop_missing and keep say nothing about a recording: it has no missing values or texts.")
    check_options(kind.source, kind.reader, options)
    sheet = kind.to_sheet(data, columns, options, kind.source)
    return to_table(
        sheet, kind.source, columns=columns, lacking_ok=lacking_ok, drop_missing=drop_missing, keep=keep, units=units
    )


class _Kind(NamedTuple):
    """How objects of one library are read: the class, and the reader whose options it takes."""

    module: str
    name: str
    source: str
    reader: Reader
    to_sheet: Callable[[Any, Sequence[str] | None, ReadOptions, str], Sheet]


_KINDS = (
    _Kind("pandas", "DataFrame", "the DataFrame", Reader("", "DataFrame"), frame_sheet),
    _Kind("anndata", "AnnData", "the AnnData", READERS[".h5ad"], anndata_sheet),
    _Kind("mne", "io.BaseRaw", "the raw", READERS[".fif"], recording_sheet),
    _Kind("mne", "BaseEpochs", "the epochs", READERS[".fif"], recording_sheet),
    _Kind("nibabel", "Nifti1Image", "the image", READERS[".nii"], image_sheet),
)


def _is_instance(data: Any, module: str, name: str) -> bool:
    """Whether the object is of a class of a library, which is not imported to find that out."""
    library = sys.modules.get(module)
    return library is not None and isinstance(data, attrgetter(name)(library))

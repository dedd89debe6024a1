"""The formats of data that can be read, and their options with conventional defaults: declared once for all.

Readers, commands and Flower policies use the same declarations; the metadata of an option is what the commands show.
Nothing heavy is imported here, so that ``fedica --help`` stays quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fedica.errors import OptionError

REFERENCES = ("average", "keep")
HEADERS = ("auto", "yes", "no")
CHANNEL_TYPES = ("eeg", "meg", "mag", "grad", "seeg", "ecog", "dbs", "eog", "ecg", "emg", "misc")
"""Types of channels as MNE calls them; "meg" are magnetometers and gradiometers."""


def _option(default: Any, text: str, **shown: Any) -> Any:
    """Return a field with its default and what the commands show of it."""
    return field(default=default, metadata={"help": text, **shown})


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read, where its format leaves a choice; each option concerns some formats only.

    Parameters
    ----------
    highpass : float or None
        EEG and MEG: cut-off in Hz of the high-pass filter that removes slow drifts, as ICA needs it; ``None`` or 0: no
        filter.
    lowpass : float or None
        EEG and MEG: cut-off in Hz of a low-pass filter; ``None`` or 0: no filter. A study that is made from a recording
        takes over the recording's own low-pass where it is ``None``.
    reference : {"average", "keep"}
        EEG: subtract the mean over the channels that are used, or keep the reference of the recording.
    channel_types : str
        EEG and MEG: which types of channels are data, as MNE calls them, joined by commas: "eeg", "meg", "mag",
        "grad", "seeg", "ecog", "dbs", "eog", "ecg", "emg", "misc".
    keep_bads : bool
        EEG and MEG: also use channels that are marked as bad.
    mask : Path or None
        fMRI: an image that is not zero where voxels are data; ``None``: computed from the image.
    smoothing : float or None
        fMRI: full width at half maximum, in mm, of the Gaussian that images are smoothed with; ``None`` or 0: none.
    standardize : bool
        fMRI: scale every voxel's time course to variance one.
    detrend : bool
        fMRI: remove the linear trend of every voxel's time course.
    layer : str or None
        AnnData: which layer holds the data; ``None``: ``X``.
    header : {"auto", "yes", "no"}
        Text tables: whether the first line names the columns. With "auto", a line with text does; a line of numbers
        does if it differs in kind from those below, and is refused where it could be either.
    transpose : bool or None
        Text tables and arrays: whether rows are features and columns samples, as in expression tables. ``None``: rows
        are samples, and a text table that seems to be the other way round is refused.
    rename : Path or None
        Files with names of columns: a text file that has in each line the name of a column and what the study calls it.
    grid : str or None
        fMRI: the grid of the wanted voxels, as `fedica.Study` has it, in place of a mask.
    person : str or None
        Text tables: the column that tells which person a row is of. It is counted, and left out.

    Raises
    ------
    OptionError
        If a value is unknown or out of range.
    """

    highpass: float | None = _option(1.0, "EEG, MEG: filter out what is slower; 0: no filter.", metavar="HZ", min=0)
    lowpass: float | None = _option(None, "EEG, MEG: filter out what is faster; 0: no filter.", metavar="HZ", min=0)
    reference: str = _option(
        "average", "EEG: subtract the mean of the channels, or keep the recording's reference.", choices=REFERENCES
    )
    channel_types: str = _option(
        "eeg", "EEG, MEG: which channels are data: eeg, meg, mag, grad, seeg, eog ...", metavar="TYPES"
    )
    keep_bads: bool = _option(False, "EEG, MEG: also use channels marked as bad.")
    mask: Path | None = _option(None, "fMRI: image of the voxels to use; by default computed.", metavar="FILE")  # noqa: RUF009
    smoothing: float | None = _option(None, "fMRI: width of the smoothing; 0: none.", metavar="MM", min=0)
    standardize: bool = _option(True, "fMRI: scale every voxel's time course to variance one.")
    detrend: bool = _option(True, "fMRI: remove every voxel's linear trend.")
    layer: str | None = _option(None, "AnnData: the layer to use instead of X.", metavar="NAME")
    header: str = _option("auto", "Text tables: whether the first line names the columns.", choices=HEADERS)
    transpose: bool | None = _option(None, "Text tables, arrays: rows are features and columns are samples.")
    rename: Path | None = _option(  # noqa: RUF009
        None,
        "Text tables, EEG, MEG: FILE has a column's name and the study's name for it in each line.",
        metavar="FILE",
    )
    grid: str | None = _option(None, "fMRI: the grid of the study, in place of a mask.", metavar="GRID", hidden=True)
    person: str | None = _option(
        None, "Text tables: column that tells of whom a row is; persons are counted, it is left out.", metavar="COLUMN"
    )

    def __post_init__(self) -> None:
        from fedica.arrays import check_choice  # noqa: PLC0415 - it loads scikit-learn

        _check_positive(self.highpass, "highpass")
        _check_positive(self.lowpass, "lowpass")
        _check_positive(self.smoothing, "smoothing")
        if self.lowpass and self.highpass and self.lowpass <= self.highpass:
            raise OptionError(f"lowpass must be above highpass, {self.highpass:g} Hz; got {self.lowpass:g} Hz.")
        check_choice(self.reference, "reference", REFERENCES)
        check_choice(self.header, "header", HEADERS)
        object.__setattr__(self, "channel_types", ",".join(self.types))  # EEG is eeg
        for kind in self.types:
            check_choice(kind, "channel_types", CHANNEL_TYPES)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of channels, one by one."""
        return tuple(kind.strip().lower() for kind in self.channel_types.split(","))

    def changed(self) -> tuple[str, ...]:
        """Return the names of the options that differ from their default; 0 and ``None`` are the same."""
        return tuple(
            field.name for field in fields(self) if (getattr(self, field.name) or None) != (field.default or None)
        )


def option_name(name: str) -> str:
    """Return what an option is called on the command line."""
    return {"standardize": "--no-standardize", "detrend": "--no-detrend"}.get(name, f"--{name.replace('_', '-')}")


def _check_positive(value: float | None, what: str) -> None:
    from fedica.arrays import check_number  # noqa: PLC0415 - it loads scikit-learn

    if value is None or value == 0:
        return
    try:
        check_number(value, what, above=0)
    except OptionError as error:
        raise OptionError(f"{error} (0 or nothing: not at all.)") from None


@dataclass(frozen=True)
class Reader:
    """How one format is read.

    Parameters
    ----------
    how : callable or str
        From the path, the names of the wanted columns (``None``: all) and the options to a `fedica.readers.Sheet`. A
        text names a function of a module of `fedica.readers`, as in ``"numpy_files.read_npy"``, imported when used.
    what : str
        The format, in words.
    uses : tuple of str
        The options that this format uses; others are refused.
    extra : str, optional
        The extra of fedica that must be installed.
    """

    how: Callable[..., Any] | str
    what: str
    uses: tuple[str, ...] = ()
    extra: str | None = None


_NAMES = ("rename",)
_TEXT = ("header", "transpose", "person", *_NAMES)
_ARRAY = ("transpose", *_NAMES)
_FMRI = ("mask", "grid", "smoothing", "standardize", "detrend")
_EEG = ("highpass", "lowpass", "reference", "channel_types", "keep_bads", *_NAMES)

# A new format is one line here, and its function in a file of fedica/readers.
READERS: dict[str, Reader] = {
    ".npy": Reader("numpy_files.read_npy", "numpy array", ("transpose",)),
    ".npz": Reader("numpy_files.read_npz", "numpy archive", _ARRAY),
    ".mat": Reader("matlab.read_mat", "MATLAB file", _ARRAY),
    ".csv": Reader("delimited.read_delimited", "text table", _TEXT),
    ".tsv": Reader("delimited.read_delimited", "text table", _TEXT),
    ".txt": Reader("delimited.read_delimited", "text table", _TEXT),
    ".csv.gz": Reader("delimited.read_delimited", "text table", _TEXT),
    ".tsv.gz": Reader("delimited.read_delimited", "text table", _TEXT),
    ".txt.gz": Reader("delimited.read_delimited", "text table", _TEXT),
    ".xlsx": Reader("excel.read_xlsx", "Excel workbook", _TEXT, extra="excel"),
    ".parquet": Reader("arrow_files.read_parquet", "parquet table", _NAMES, extra="tables"),
    ".feather": Reader("arrow_files.read_feather", "feather table", _NAMES, extra="tables"),
    ".arrow": Reader("arrow_files.read_feather", "Arrow table", _NAMES, extra="tables"),
    ".h5ad": Reader("anndata_files.read_h5ad", "AnnData file", ("layer", *_NAMES), extra="tables"),
    ".edf": Reader("eeg_files.read_edf", "EDF recording", uses=_EEG, extra="eeg"),
    ".bdf": Reader("eeg_files.read_bdf", "BDF recording", uses=_EEG, extra="eeg"),
    ".fif": Reader("eeg_files.read_fif", "FIF recording", uses=_EEG, extra="eeg"),
    ".fif.gz": Reader("eeg_files.read_fif", "FIF recording", uses=_EEG, extra="eeg"),
    ".vhdr": Reader("eeg_files.read_brainvision", "BrainVision recording", uses=_EEG, extra="eeg"),
    ".set": Reader("eeg_files.read_eeglab", "EEGLAB recording", uses=_EEG, extra="eeg"),
    ".nii": Reader("nifti.read_nifti", "NIfTI image", uses=_FMRI, extra="fmri"),
    ".nii.gz": Reader("nifti.read_nifti", "NIfTI image", uses=_FMRI, extra="fmri"),
}
"""Suffix -> how a file with this suffix is read."""

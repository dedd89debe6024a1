"""What only some formats need to be told before they are read; everything has a default that its people expect."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from fedica.arrays import check_choice, check_number
from fedica.errors import OptionError

REFERENCES = ("average", "keep")
CHANNEL_TYPES = ("eeg", "meg", "mag", "grad", "seeg", "ecog", "dbs", "eog", "ecg", "emg", "misc")
"""Types of channels as MNE calls them; "meg" are magnetometers and gradiometers."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read, where its format leaves a choice; each option concerns some formats only.

    Parameters
    ----------
    highpass : float or None
        EEG and MEG: slow drifts below so many Hz are filtered out, as ICA needs it; ``None`` or 0: no filter.
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
        fMRI: width of the Gaussian that images are smoothed with, full width at half maximum in mm; ``None``: none.
    standardize : bool
        fMRI: scale every voxel's time course to variance one.
    detrend : bool
        fMRI: remove the linear trend of every voxel's time course.
    layer : str or None
        AnnData: which layer holds the data; ``None``: ``X``.

    Raises
    ------
    OptionError
        If a value is unknown or out of range.
    """

    highpass: float | None = 1.0
    reference: str = "average"
    channel_types: str = "eeg"
    keep_bads: bool = False
    mask: Path | None = None
    smoothing: float | None = None
    standardize: bool = True
    detrend: bool = True
    layer: str | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "highpass", _positive(self.highpass, "highpass"))
        check_choice(self.reference, "reference", REFERENCES)
        for kind in self.types:
            check_choice(kind, "channel_types", CHANNEL_TYPES)
        set_(self, "smoothing", _positive(self.smoothing, "smoothing"))
        set_(self, "mask", None if self.mask is None else Path(self.mask))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of channels, one by one."""
        return tuple(kind.strip() for kind in self.channel_types.split(","))

    def changed(self) -> tuple[str, ...]:
        """Return the names of the options that differ from their default."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) != field.default)


def option_name(name: str) -> str:
    """Return what an option is called on the command line."""
    return {"standardize": "--no-standardize", "detrend": "--no-detrend"}.get(name, f"--{name.replace('_', '-')}")


def _positive(value: float | None, what: str) -> float | None:
    """Return a number above zero; nothing for zero."""
    if value is None or value == 0:
        return None
    try:
        return check_number(value, what, above=0)
    except OptionError as error:
        raise OptionError(f"{error} (0 or nothing: not at all.)") from None

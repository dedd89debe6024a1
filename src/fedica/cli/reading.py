"""The options of how data is read: the same for every command that reads some."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DATA = (
    "The data: a table (.csv, .tsv, .txt, .parquet, .feather, .arrow), an array (.npy, .npz), EEG or MEG (.edf, .bdf, "
    ".fif, .vhdr, .set), fMRI (.nii, .nii.gz) or AnnData (.h5ad)."
)


class Reference(StrEnum):
    """What EEG is measured against."""

    average = "average"
    keep = "keep"


Highpass = Annotated[
    float, typer.Option(min=0, metavar="HZ", help="EEG, MEG: filter out what is slower; 0: no filter.")
]
EEGReference = Annotated[
    Reference, typer.Option(help="EEG: subtract the mean of the channels, or keep the recording's reference.")
]
ChannelTypes = Annotated[
    str, typer.Option(metavar="TYPES", help="EEG, MEG: which channels are data: eeg, meg, mag, grad, seeg, eog ...")
]
KeepBads = Annotated[bool, typer.Option("--keep-bads", help="EEG, MEG: also use channels marked as bad.")]
Mask = Annotated[
    Path | None, typer.Option(metavar="FILE", help="fMRI: image of the voxels to use; by default computed.")
]
Smoothing = Annotated[float, typer.Option(min=0, metavar="MM", help="fMRI: width of the smoothing; 0: none.")]
Standardize = Annotated[bool, typer.Option(help="fMRI: scale every voxel's time course to variance one.")]
Detrend = Annotated[bool, typer.Option(help="fMRI: remove every voxel's linear trend.")]
Layer = Annotated[str | None, typer.Option(metavar="NAME", help="AnnData: the layer to use instead of X.")]

"""Options that several commands share, each declared once: names to choose from, and how data is read."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

Command = Callable[..., None]

DATA = (
    "The data: a table (.csv, .tsv, .txt, .parquet, .feather, .arrow), an array (.npy, .npz), EEG or MEG (.edf, .bdf, "
    ".fif, .vhdr, .set), fMRI (.nii, .nii.gz) or AnnData (.h5ad)."
)


def bundled(name: str, make: Callable[..., Any]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the options of `make` in place of its parameter `name`.

    Parameters
    ----------
    name : str
        A parameter of the command. It is passed what `make` returns.
    make : callable
        Called with the values of its options, which are declared in its signature, as typer reads them.
    """
    options = signature(make, eval_str=True).parameters
    added = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options.values()]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**values: Any) -> None:
            made = make(**{option: values.pop(option) for option in options})
            command(**{name: made}, **values)

        own = signature(command, eval_str=True).parameters
        shown = [option for key, old in own.items() for option in (added if key == name else [old])]
        vars(run)["__signature__"] = Signature(shown)
        return run

    return decorate


class Choice(StrEnum):
    """Names to choose from: a member is a str, and is shown as one in messages."""

    def __repr__(self) -> str:
        return repr(str(self))


class Independence(Choice):
    """Over what sources are independent."""

    samples = "samples"
    features = "features"


class Mixing(Choice):
    """What is known of the mixing matrix."""

    general = "general"
    orthogonal = "orthogonal"


class Reference(Choice):
    """What EEG is measured against."""

    average = "average"
    keep = "keep"


def read_options(
    highpass: Annotated[
        float, typer.Option(min=0, metavar="HZ", help="EEG, MEG: filter out what is slower; 0: no filter.")
    ] = 1.0,
    reference: Annotated[
        Reference, typer.Option(help="EEG: subtract the mean of the channels, or keep the recording's reference.")
    ] = Reference.average,
    channel_types: Annotated[
        str, typer.Option(metavar="TYPES", help="EEG, MEG: which channels are data: eeg, meg, mag, grad, seeg, eog ...")
    ] = "eeg",
    keep_bads: Annotated[bool, typer.Option("--keep-bads", help="EEG, MEG: also use channels marked as bad.")] = False,
    mask: Annotated[
        Path | None, typer.Option(metavar="FILE", help="fMRI: image of the voxels to use; by default computed.")
    ] = None,
    smoothing: Annotated[float, typer.Option(min=0, metavar="MM", help="fMRI: width of the smoothing; 0: none.")] = 0.0,
    standardize: Annotated[bool, typer.Option(help="fMRI: scale every voxel's time course to variance one.")] = True,
    detrend: Annotated[bool, typer.Option(help="fMRI: remove every voxel's linear trend.")] = True,
    layer: Annotated[str | None, typer.Option(metavar="NAME", help="AnnData: the layer to use instead of X.")] = None,
) -> Any:
    """Return the `ReadOptions` of a command that reads data; a test compares the names and defaults of both."""
    values = dict(locals())
    from fedica.readers import ReadOptions

    return ReadOptions(**values)


with_read_options = bundled("options", read_options)

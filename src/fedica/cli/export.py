"""``fedica export``: the result for MNE, nilearn, BIDS or pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedica.cli.output import Json, Quiet, Verbose, Voice


def export(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="The result folder, or aggregate.safetensors of it.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="A name ending in .csv, .parquet, .feather, .nii.gz, -ica.fif or desc-ICA_mixing.tsv; or a folder.",
        ),
    ],
    mask: Annotated[
        Path | None, typer.Option(metavar="FILE", help="fMRI: the mask of the study; for .nii.gz and BIDS.")
    ] = None,
    like: Annotated[
        Path | None, typer.Option(metavar="RAW", help="EEG: a recording with the channels; for -ica.fif.")
    ] = None,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="EEG: the study, if there is one; for -ica.fif.")
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Write the result for other tools; the name of OUT tells the format.

    A table for pandas and spreadsheets (.csv, .parquet, .feather), component maps for neuroimaging (.nii.gz), a
    decomposition that MNE plots and applies (-ica.fif), or files of a BIDS derivative (a folder, or a name that ends in
    desc-ICA_mixing.tsv). Only the public part of the result is written: nothing of any single client.
    """
    from fedica.workflow import export as write

    with Voice(as_json=as_json, verbose=verbose, quiet=quiet) as voice:
        voice.progress(f"writing {output}")
        exported = write(result, output, mask=mask, like=like, study=study)
    voice.notes(exported.notes)
    if voice.result({"paths": list(exported.paths), "notes": list(exported.notes)}):
        for path in exported.paths:
            voice.out.print(path, soft_wrap=True)

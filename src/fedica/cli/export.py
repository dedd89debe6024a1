"""``fedica export``: the result for MNE, nilearn, BIDS or pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from fedica.cli.options import option
from fedica.cli.output import Output, with_output


@with_output
def export(
    *,
    result: Annotated[Path, Argument(metavar="RESULT", help="The result folder, or aggregate.safetensors of it.")],
    output: Annotated[
        Path,
        option(
            "OUT",
            "A folder, or a name that ends in .csv, .parquet, .feather, .nii.gz, -ica.fif or desc-ICA_mixing.tsv.",
            "--output",
            "-o",
        ),
    ],
    mask: Annotated[Path | None, option("FILE", "fMRI: the mask of the study; for .nii.gz and BIDS.")] = None,
    like: Annotated[Path | None, option("RAW", "EEG: a recording with the channels; for -ica.fif.")] = None,
    study: Annotated[Path | None, option("FILE", "EEG: the study, if there is one; for -ica.fif.")] = None,
    out: Output,
) -> None:
    """Write the result for other tools; the name of OUT tells the format.

    A table for pandas and spreadsheets (.csv, .parquet, .feather), component maps for neuroimaging (.nii.gz), a
    decomposition that MNE plots and applies (-ica.fif), or files of a BIDS derivative (a folder, or a name that ends in
    desc-ICA_mixing.tsv). Only the public part of the result is written: nothing of any single client.
    """
    from fedica.workflow import export as write

    with out:
        out.progress(f"writing {output}")
        exported = write(result, output, mask=mask, like=like, study=study)
    out.notes(exported.notes)
    if out.result({"paths": list(exported.paths), "notes": list(exported.notes)}):
        out.lines(*exported.paths)

"""``fedica study``: what all clients agree on before they fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedica.cli.console import examples
from fedica.cli.options import Choice, Independence, Mixing
from fedica.cli.output import Output, with_output

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class Declare(Choice):
    """How clients tell their number of samples."""

    exactly = "exactly"
    rounded = "rounded"
    no = "no"


@app.callback()
def study() -> None:
    """Write down what all clients must agree on."""


@app.command(
    "new",
    epilog=examples(
        "fedica study new --id rest-eeg-2025 --features channels.txt --components 20 -o study.json",
        "fedica study new --id cohort --from example.csv --unit uV --min-samples 5000 --declare-samples rounded",
        "fedica study new --id rest-fmri --from mask.nii.gz --independence features --components 20",
    ),
)
@with_output
def new(
    *,
    identifier: Annotated[
        str, typer.Option("--id", metavar="ID", help="Name of the study; it travels with the files.")
    ],
    features: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text file with the features in order, one name per line.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DATA",
            help="Take the features from the columns of a data file, or from a mask of voxels.",
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="Unit of all features; by default what --from DATA tells.")
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(metavar="FACTOR", help="Common factor for all features; single ones can be edited in the file."),
    ] = None,
    components: Annotated[
        int | None, typer.Option(min=1, metavar="R", help="Components that every client fits; free by default.")
    ] = None,
    independence: Annotated[Independence, typer.Option(help="Over what the sources are independent.")] = (
        Independence.samples
    ),
    mixing: Annotated[Mixing, typer.Option(help="What is known of the mixing matrix.")] = Mixing.general,
    min_samples: Annotated[
        int, typer.Option(min=2, metavar="N", help="A client with fewer samples sends nothing.")
    ] = 2,
    declare_samples: Annotated[Declare, typer.Option(help="How clients tell their number of samples.")] = (
        Declare.exactly
    ),
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The study's file.")] = Path(
        "study.json"
    ),
    out: Output,
) -> None:
    """Write the file that the coordinator sends to all clients first.

    It fixes the features, their order, units and common scale factors: cosines between atoms depend on units, so a
    client that scaled its own columns would send atoms that cannot be compared. An existing file is not replaced.
    """
    from fedica.workflow import new_study

    with out:
        made = new_study(
            output,
            identifier,
            features=features,
            data=source,
            unit=unit,
            scale=scale,
            independence=independence,
            mixing=mixing,
            n_components=components,
            min_samples=min_samples,
            declare_samples=declare_samples,
            progress=out.progress,
        )
    out.notes(made.notes)
    study, n_features = made.study, len(made.study.features)
    if out.result({"path": str(output), "id": study.id, "n_features": n_features}):
        out.lines(
            f"Study {study.id!r} with {n_features} features: {output}",
            f"Send it to all clients; each runs: fedica local DATA --study {output.name} -o CLIENT.safetensors",
        )

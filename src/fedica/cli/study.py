"""``fedica study``: what all clients agree on before they fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from fedica.cli.console import examples
from fedica.cli.options import Choice, Independence, Mixing, option, with_read_options
from fedica.cli.output import Output, with_output
from fedica.formats import READERS, ReadOptions
from fedica.text import counted

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class Declare(Choice):
    """How clients tell their number of samples."""

    exactly = "exactly"
    rounded = "rounded"
    no = "no"


class OtherPreprocessing(Choice):
    """What becomes of clients that prepare their data otherwise."""

    name = "name"
    refuse = "refuse"


@app.callback()
def study() -> None:
    """Write down what all clients must agree on."""


@app.command(
    "new",
    epilog=examples(
        "fedica study new --id rest-eeg-2025 --features channels.txt --components 20 -o study.json",
        "fedica study new --id cohort --from example.csv --unit uV --min-samples 5000 --declare-samples rounded",
        "fedica study new --id clinic --from example.csv --scales robust",
        "fedica study new --id rest-fmri --from mask.nii.gz --smoothing 6 --components 20",
    ),
)
@with_output
@with_read_options
def new(
    *,
    identifier: Annotated[str, option("ID", "Name of the study; it travels with the files.", "--id")],
    features: Annotated[Path | None, option("FILE", "Text file with the features in order, one name per line.")] = None,
    source: Annotated[
        Path | None,
        option("DATA", "Take the features from the columns of a data file, or from a mask of voxels.", "--from"),
    ] = None,
    unit: Annotated[str | None, option("UNIT", "Unit of all features; by default what --from DATA tells.")] = None,
    scale: Annotated[
        float | None, option("FACTOR", "Common factor for all features; --scales gives one for each.")
    ] = None,
    scales: Annotated[
        str | None,
        option("robust|FILE", "A factor for each feature: one over its spread in --from DATA, or a table of them."),
    ] = None,
    components: Annotated[int | None, option("R", "Components that every client fits; free by default.", min=1)] = None,
    independence: Annotated[
        Independence | None,
        Option(help="Over what the sources are independent; by default features for voxels, else samples."),
    ] = None,
    mixing: Annotated[Mixing, Option(help="What is known of the mixing matrix.")] = Mixing.general,
    min_samples: Annotated[int, option("N", "A client with fewer samples sends nothing.", min=2)] = 2,
    min_persons: Annotated[
        int | None,
        option("N", "A client with fewer persons (--person, --bids) sends nothing.", min=1),
    ] = None,
    declare_samples: Annotated[Declare, Option(help="How clients tell their number of samples.")] = Declare.exactly,
    strengths: Annotated[
        bool, Option("--strengths", help="Clients send covariances too, for aggregate --method group.")
    ] = False,
    options: ReadOptions,
    other_preprocessing: Annotated[
        OtherPreprocessing | None,
        Option(help="Clients that prepare their data otherwise are named or refused; by default refused."),
    ] = None,
    output: Annotated[Path, option("FILE", "The study's file.", "--output", "-o")] = Path("study.json"),
    out: Output,
) -> None:
    """Write the file that the coordinator sends to all clients first.

    It fixes the features, their order, units and common scale factors: cosines between atoms depend on units, so a
    client that scaled its own columns would send atoms that cannot be compared. With --from DATA it also fixes how the
    data is prepared (reference, filter, types of channels, detrending, transposition, ...), which clients then follow
    without options of their own. An existing file is not replaced.
    """
    from fedica.readers import suffix_of
    from fedica.workflow import new_study

    with out:
        out.progress(f"reading {source or features}")
        study, notes = new_study(
            output,
            identifier,
            names=features,
            data=source,
            unit=unit,
            scale=scale,
            scales=scales,
            independence=independence,
            mixing=mixing,
            n_components=components,
            min_samples=min_samples,
            min_persons=min_persons,
            declare_samples=declare_samples,
            other_preprocessing=other_preprocessing,
            options=options,
            strengths="yes" if strengths else None,
        )
    out.notes(notes)
    n_features = len(study.features)
    is_table = source is None or "person" in READERS[suffix_of(source)].uses
    persons = "" if min_persons is None else " --person COLUMN" if is_table else " --bids"
    if out.result({"path": str(output), "id": study.id, "n_features": n_features}):
        out.lines(
            f"Study {study.id!r} with {counted(n_features, 'feature')}: {output}",
            f"Send it to all clients; each runs: fedica local DATA --study {output.name}{persons} "
            "-o CLIENT.safetensors",
        )

"""``fedica study``: what all clients agree on before they fit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedica.cli.console import examples
from fedica.cli.output import Json, Quiet, Verbose, Voice

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class Independence(StrEnum):
    """Over what sources are independent."""

    samples = "samples"
    features = "features"


class Mixing(StrEnum):
    """What is known of the mixing matrix."""

    general = "general"
    orthogonal = "orthogonal"


class Declare(StrEnum):
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
def new(
    identifier: Annotated[
        str, typer.Option("--id", metavar="ID", help="Name of the study; it travels with the files.")
    ],
    features: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text file with the features in order, one name a line.")
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
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Write the file that the coordinator sends to all clients first.

    It fixes the features, their order, units and common scale factors: cosines between atoms depend on units, so a
    client that scaled its own columns would send atoms that cannot be compared. An existing file is not replaced.
    """
    from fedica.errors import InputError, OptionError
    from fedica.exchange import write_study
    from fedica.readers import read_names
    from fedica.records import Study

    voice = Voice(as_json=as_json, verbose=verbose, quiet=quiet)
    if (features is None) == (source is None):
        raise OptionError("a study needs its features: give either --features FILE or --from DATA.")
    if output.exists():
        raise InputError(f"{output}: there is a study already, which clients may have. Choose another name.")
    with voice:
        units: tuple[str, ...] | None = None
        if features is not None:
            names: tuple[str, ...] = read_names(features)
        else:
            assert source is not None
            voice.progress(f"reading {source}")
            names, units = _features_in(source, voice)
        record = Study(
            identifier,
            names,
            units=units if unit is None else [unit] * len(names),
            scales=None if scale is None else [scale] * len(names),
            independence=independence.value,
            mixing=mixing.value,
            n_components=components,
            min_samples=min_samples,
            declare_samples=declare_samples.value,
        )
        voice.progress(f"writing {output}")
        write_study(record, output)
    if voice.result({"path": str(output), "id": record.id, "n_features": len(names)}):
        voice.out.print(
            f"Study {record.id!r} with {len(names)} features: {output}\nSend it to all clients; each runs: "
            f"fedica local DATA --study {output.name} -o CLIENT.safetensors",
            soft_wrap=True,
        )


def _features_in(source: Path, voice: Voice) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the names of the columns of a data file, and their units if it tells; or the voxels of a mask."""
    from fedica.errors import InputError
    from fedica.readers import read_data, suffix_of
    from fedica.readers.masks import mask_features
    from fedica.readers.voxels import SUFFIXES

    if suffix_of(source) in SUFFIXES:
        return mask_features(source), None
    table = read_data(source, drop_missing=True)
    voice.notes(table.notes)
    if table.features is None:
        raise InputError(f"{source}: its columns have no names. Give them with --features FILE.")
    return table.features, table.units

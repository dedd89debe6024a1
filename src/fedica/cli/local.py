"""``fedica local``: a client's data in, the one small file that leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedica.cli.console import print_table
from fedica.cli.output import Json, Quiet, Verbose, Voice
from fedica.cli.reading import (
    DATA,
    ChannelTypes,
    Detrend,
    EEGReference,
    Highpass,
    KeepBads,
    Layer,
    Mask,
    Reference,
    Smoothing,
    Standardize,
)
from fedica.cli.study import Independence, Mixing


def local(
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA)],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The contribution to write: CLIENT.safetensors.")
    ],
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The study to follow; what does not fit it is refused.")
    ] = None,
    client: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of this client; by default that of its key or of FILE.")
    ] = None,
    components: Annotated[
        int | None, typer.Option(min=1, metavar="R", help="Components; by default the study's, or the data's rank.")
    ] = None,
    solver: Annotated[
        str, typer.Option(metavar="NAME", help="auto, l4, kurtosis, deflation, fastica or picard.")
    ] = "auto",
    independence: Annotated[
        Independence | None,
        typer.Option(help="Over what the sources are independent; by default the study's, or samples."),
    ] = None,
    mixing: Annotated[
        Mixing | None, typer.Option(help="What is known of the mixing matrix; by default the study's, or general.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Which columns, in which order: one name a line.")
    ] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Drop rows with missing values.")] = False,
    highpass: Highpass = 1.0,
    reference: EEGReference = Reference.average,
    channel_types: ChannelTypes = "eeg",
    keep_bads: KeepBads = False,
    mask: Mask = None,
    smoothing: Smoothing = 0.0,
    standardize: Standardize = True,
    detrend: Detrend = True,
    layer: Layer = None,
    min_samples: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Refuse fewer samples; the study's number holds too.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key to sign with, from keygen.")] = None,
    random_state: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the fit.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would leave, and write nothing.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Run ICA on this client's data and write its contribution.

    Then lists everything that is in the file, and what is not. Identifiers and dates are left out with a note (on a
    terminal you are asked); missing values are refused, with counts, unless --drop-missing is given.
    """
    from fedica.readers import ReadOptions, read_names
    from fedica.workflow import contribute

    with Voice(as_json=as_json, verbose=verbose, quiet=quiet) as voice:
        sent = contribute(
            data,
            output,
            client=client,
            study=study,
            n_components=components,
            solver=solver,
            independence=None if independence is None else independence.value,
            mixing=None if mixing is None else mixing.value,
            features=None if features is None else read_names(features),
            drop_missing=drop_missing,
            min_samples=min_samples,
            key=key,
            random_state=random_state,
            keep=(lambda name, why: voice.ask(f"Column {name!r} holds {why}. Use it all the same?"))
            if voice.may_ask
            else None,
            options=ReadOptions(
                highpass=highpass,
                reference=reference.value,
                channel_types=channel_types,
                keep_bads=keep_bads,
                mask=mask,
                smoothing=smoothing,
                standardize=standardize,
                detrend=detrend,
                layer=layer,
            ),
            write=not dry_run,
            progress=voice.progress,
        )
    voice.notes(sent.notes)
    shown = {
        "client": sent.contribution.client,
        "path": sent.path,
        "n_bytes": len(sent.data),
        "leaves": {field.name: {"n_bytes": field.n_bytes, "value": field.value} for field in sent.leaves},
        "stays": list(sent.stays),
        "notes": list(sent.notes),
    }
    if voice.result(shown):
        out = voice.out
        out.print("What leaves:" if sent.path else "What would leave (nothing was written):")
        print_table(
            out, ["field", "bytes", "<value"], [[field.name, str(field.n_bytes), field.value] for field in sent.leaves]
        )
        out.print("What does not leave:")
        for line in sent.stays:
            out.print(f"  - {line}", soft_wrap=True)
        if sent.path:
            out.print(f"\n{sent.path}: {len(sent.data)} bytes. Send this file to the coordinator.", soft_wrap=True)

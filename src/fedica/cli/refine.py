"""``fedica refine``: a client's second message, at the global matrix that came back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedica.cli.inspect import show_message
from fedica.cli.options import DATA, option, with_read_options
from fedica.cli.output import Output, with_output
from fedica.formats import ReadOptions


@with_output
@with_read_options
def refine(
    *,
    aggregate: Annotated[
        Path, Argument(metavar="AGGREGATE", help="aggregate.safetensors from the coordinator, or its folder.")
    ],
    data: Annotated[Path, Argument(metavar="DATA", help=DATA)],
    output: Annotated[Path, option("FILE", "The second message to write: CLIENT.safetensors.", "--output", "-o")],
    study: Annotated[Path | None, option("FILE", "The study, if the aggregate is of one.")] = None,
    client: Annotated[str | None, option("NAME", "Name of this client; by default that of its key or of FILE.")] = None,
    component: Annotated[
        list[int] | None, option("N", "A component that this client has, if not all; may be repeated.", min=0)
    ] = None,
    drop_missing: Annotated[bool, Option("--drop-missing", help="Drop rows with missing values.")] = False,
    options: ReadOptions,
    key: Annotated[Path | None, option("FILE", "Private key to sign with, from keygen.")] = None,
    serial: Annotated[
        int | None, option("N", "Number of this message; by default one more than FILE has, if it is replaced.", min=0)
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would leave, and write nothing.")] = False,
    out: Output,
) -> None:
    """Score this client's data at the global matrix and write its second message.

    From the second messages the coordinator takes the step towards the answer of the pooled data: fedica aggregate
    --refine. It pays where clients are weak. A client that is too small to fit an ICA may send this message alone.
    Then lists everything that is in the file, and what is not.
    """
    from fedica.workflow import send_scores

    with out:
        sent = send_scores(
            aggregate,
            data,
            output,
            client=client,
            study=study,
            components=component,
            drop_missing=drop_missing,
            key=key,
            serial=serial,
            options=options,
            write=not dry_run,
            progress=out.progress,
        )
    show_message(out, sent.scores.client, sent)

"""``fedica local``: a client's data in, the one small file that leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from fedica.cli.inspect import show_message
from fedica.cli.options import DATA, Independence, Mixing, option, with_read_options
from fedica.cli.output import Output, with_output
from fedica.formats import ReadOptions


@with_output
@with_read_options
def local(
    *,
    data: Annotated[list[Path], Argument(metavar="DATA...", help=f"{DATA} Several files are joined.")],
    output: Annotated[Path, option("FILE", "The contribution to write: CLIENT.safetensors.", "--output", "-o")],
    study: Annotated[Path | None, option("FILE", "The study to follow; what does not fit it is refused.")] = None,
    client: Annotated[str | None, option("NAME", "Name of this client; by default that of its key or of FILE.")] = None,
    components: Annotated[
        int | None,
        option("R", "Components; by default the study's, or the data's rank (half, of maps with strengths).", min=1),
    ] = None,
    solver: Annotated[str, option("NAME", "{fedica.local.SOLVERS}.")] = "auto",
    independence: Annotated[
        Independence | None, Option(help="Over what the sources are independent; by default the study's, or samples.")
    ] = None,
    mixing: Annotated[
        Mixing | None, Option(help="What is known of the mixing matrix; by default the study's, or general.")
    ] = None,
    bids: Annotated[
        bool,
        Option("--bids", help="DATA are folders of BIDS, such as sub-01: join their recordings, count subjects."),
    ] = False,
    features: Annotated[Path | None, option("FILE", "Which columns, in which order: one name per line.")] = None,
    drop_missing: Annotated[bool, Option("--drop-missing", help="Drop rows with missing values.")] = False,
    options: ReadOptions,
    min_samples: Annotated[
        int | None, option("N", "Refuse fewer samples; the study's number holds too.", min=2)
    ] = None,
    strengths: Annotated[
        bool,
        Option("--strengths", help="Send covariances too, for aggregate --method group; by default as the study says."),
    ] = False,
    float32: Annotated[
        bool, Option("--float32", help="Send the atoms in single precision: half the size, as of large images.")
    ] = False,
    key: Annotated[Path | None, option("FILE", "Private key to sign with, from keygen.")] = None,
    serial: Annotated[
        int | None, option("N", "Number of this message; by default one more than FILE has, if it is replaced.", min=0)
    ] = None,
    random_state: Annotated[int, option("N", "Seed of the fit.", min=0)] = 0,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would leave, and write nothing.")] = False,
    out: Output,
) -> None:
    """Run ICA on this client's data and write its contribution.

    Then lists everything that is in the file, and what is not. Identifiers and dates are left out with a note (on a
    terminal you are asked); missing values are refused, with counts, unless --drop-missing is given.
    """
    from fedica.exchange.files import check_output
    from fedica.readers import read_names
    from fedica.text import counted, list_names
    from fedica.workflow import contribute

    def use_column(name: str, why: str) -> bool:
        return out.ask(f"Column {name!r} holds {why}. Use it all the same?")

    check_output(output, [features])
    with out:
        sent = contribute(
            data,
            output,
            client=client,
            study=study,
            n_components=components,
            bids=bids,
            solver=solver,
            independence=independence,
            mixing=mixing,
            features=None if features is None else read_names(features),
            drop_missing=drop_missing,
            min_samples=min_samples,
            strengths=True if strengths else None,
            float32=float32,
            key=key,
            serial=serial,
            random_state=random_state,
            keep=use_column if out.may_ask else None,
            options=options,
            write=not dry_run,
            progress=out.progress,
            show_names=lambda names: out.notes(
                [f"the names of {counted(len(names), 'feature')} leave: {list_names(names, 10)}."]
            ),
        )
    show_message(out, sent.contribution.client, sent)

"""``fedica reproduce``: experiments of the paper, with one command each."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedica.cli.console import examples
from fedica.cli.output import Json, Quiet, Verbose, Voice

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class WhichPreset(StrEnum):
    """Whose settings."""

    paper = "paper"
    code = "code"


@app.callback()
def reproduce() -> None:
    """Run an experiment of the paper again."""


@app.command(
    "figure-1",
    epilog=examples(
        "fedica reproduce figure-1",
        "fedica reproduce figure-1 --preset code -o figures",
        "fedica reproduce figure-1 --also consensus --trials 2",
    ),
)
def figure_1(
    preset: Annotated[
        WhichPreset, typer.Option(help="The settings of the paper's text, or of its authors' code.")
    ] = WhichPreset.paper,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A method of fedica aggregate beside the paper's; may be repeated."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Trials per setting; by default 20 (paper) or 10 (code).")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the rows and the figure.")
    ] = Path("fedica-figure-1"),
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes; one per core by default.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Draw the paper's Figure 1: error against clients, samples and share of the corrupted ones.

    Twenty settings, five ways to aggregate, and one line more than the paper: ICA on all data in one place. Ctrl-C
    stops it; the same command again goes on where it stopped.
    """
    from fedica.simulate.figure1 import draw_figure1, reproduce_figure1, table_figure1

    voice = Voice(as_json=as_json, verbose=verbose, quiet=quiet)
    table = output / f"figure-1-{preset.value}.csv"
    voice.progress(f"measuring; rows go to {table}")
    rows = reproduce_figure1(
        preset.value, folder=output, also=also or (), trials=trials, n_jobs=jobs, progress=not (quiet or as_json)
    )
    headings, lines = table_figure1(rows, preset.value)
    voice.progress(f"drawing {len(rows)} rows")
    files, missing = draw_figure1(rows, preset.value, folder=output)
    voice.table(headings, lines, [table, *files], missing)

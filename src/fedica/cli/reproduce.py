"""``fedica reproduce``: experiments of the paper, with one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from fedica.cli.console import examples
from fedica.cli.options import Choice, option
from fedica.cli.output import Output, with_output

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class PresetName(Choice):
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
@with_output
def figure_1(
    *,
    preset: Annotated[
        PresetName, Option(help="The settings of the paper's text, or of its authors' code.")
    ] = PresetName.paper,
    also: Annotated[
        list[str] | None, option("NAME", "A method of fedica aggregate beside the paper's; may be repeated.")
    ] = None,
    trials: Annotated[int | None, option("N", "Trials per setting; by default 20 (paper) or 10 (code).", min=1)] = None,
    output: Annotated[Path, option("DIR", "Folder for the rows and the figure.", "--output", "-o")] = Path(
        "fedica-figure-1"
    ),
    jobs: Annotated[int | None, option("N", "Processes; one per core by default.", min=1)] = None,
    out: Output,
) -> None:
    """Draw the paper's Figure 1: error against clients, samples and share of the corrupted ones.

    Twenty settings, five ways to aggregate, and one line more than the paper: ICA on all data in one place. Ctrl-C
    stops it; the same command again goes on where it stopped.
    """
    from fedica.simulate.figure1 import draw_figure1, reproduce_figure1, table_figure1

    table = output / f"figure-1-{preset}.csv"
    out.progress(f"measuring; rows go to {table}")
    rows = reproduce_figure1(preset, folder=output, also=also or (), trials=trials, n_jobs=jobs, progress=out.bar)
    headings, lines = table_figure1(rows, preset)
    out.progress(f"drawing {len(rows)} rows")
    files, missing = draw_figure1(rows, preset, folder=output)
    out.measured(headings, lines, [table, *files], missing)

"""``fedica demo``: six mixed photographs, twelve clients, a table and a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedica.cli.console import print_table
from fedica.cli.output import Json, Quiet, Verbose, Voice

if TYPE_CHECKING:
    from rich.console import Console

    from fedica.simulate.demo import DemoResult


def demo(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for contributions, picture, result and report."),
    ] = Path("fedica-demo"),
    condition: Annotated[
        float, typer.Option(min=1, metavar="C", help="Condition number of the mixing matrix; 1: orthogonal.")
    ] = 3.0,
    random_state: Annotated[
        int, typer.Option(min=0, metavar="N", help="Draws the mixing matrix and the clients' faults.")
    ] = 0,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Recover six mixed photographs from twelve clients, five of them bad.

    Six photographs are mixed by one matrix that nobody knows. Every client holds a tile of the mixtures, runs ICA on it
    and sends one small file; the server puts the files together. Prints the error of every client alone and of every
    way to aggregate, and saves a picture of what was recovered, the result and its report. Needs no network and less
    than half a minute.
    """
    from fedica.exchange import Received, read_contributions, write_folder
    from fedica.report import write_report
    from fedica.simulate.demo import run_demo

    with Voice(as_json=as_json, verbose=verbose, quiet=quiet) as voice:
        result = run_demo(output, condition=condition, random_state=random_state, progress=voice.progress)
        voice.progress("the report is written")
        received = [x for x in read_contributions(result.contributions) if isinstance(x, Received)]
        write_folder(result.aggregate, output / "result", provenance=[x.provenance for x in received])
        page = write_report(output / "result", image="no")  # six mixtures are channels, not pixels
    if voice.result(_fields(result, page)):
        _print(voice.out, result, page)


def _fields(result: DemoResult, page: Path) -> dict[str, Any]:
    return {
        "clients": [asdict(row) for row in result.clients],
        "methods": [asdict(row) for row in result.methods],
        "default": result.default,
        "pooled": result.pooled,
        "pooled_honest": result.pooled_honest,
        "picture": str(result.picture),
        "report": str(page),
        "contributions": str(result.contributions),
        "seconds": result.seconds,
    }


def _print(out: Console, result: DemoResult, page: Path) -> None:
    out.print(f"Six photographs, mixed by one unknown matrix. {len(result.clients)} clients hold a tile each.\n")
    print_table(
        out,
        ["client", "<holds", "<fault", "error alone", "bytes sent", "<server's verdict"],
        [
            [
                c.client,
                f"{c.height} x {c.width} pixels",
                "" if c.fault == "none" else c.fault,
                _four(c.error),
                str(c.sent),
                c.verdict,
            ]
            for c in result.clients
        ],
    )
    print_table(
        out,
        ["aggregated by", "error", "seconds"],
        [[row.method, _four(row.error), f"{row.seconds:.3f}"] for row in result.methods],
        strong=[k for k, row in enumerate(result.methods) if row.method == result.default],
    )
    out.print(_conclusion(result))
    out.print(f"\nPicture: {result.picture}", soft_wrap=True)
    out.print(f"Report: {page}", soft_wrap=True)
    out.print(f"Contributions: {result.contributions}", soft_wrap=True)
    out.print(f"Done in {result.seconds:.1f} s.")


def _conclusion(result: DemoResult) -> str:
    """Say in plain words what the numbers mean; every statement is computed, so it holds for any random state."""
    error = result.error_of(result.default)
    n_clients = len(result.clients)
    n_bad = sum(c.fault != "none" for c in result.clients)
    n_beaten = sum(error < c.error for c in result.clients)
    return (
        "An error of 0 is the exact mixing matrix; about 1, nothing of it. No pixel left its client: each sent one "
        f"file of {max(c.sent for c in result.clients)} bytes or less, once. From these {result.default} finds the "
        f"matrix with an error of {_four(error)}, smaller than what {n_beaten} of the {n_clients} clients find alone, "
        f"though {n_bad} of them are bad. One ICA on all pixels in one place, the wrong ones among them, has "
        f"{_four(result.pooled)}; had somebody known which pixels are right, and pooled only those, "
        f"{_four(result.pooled_honest)}."
    )


def _four(error: float) -> str:
    return f"{error:.4f}"

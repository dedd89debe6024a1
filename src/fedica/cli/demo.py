"""``fedica demo``: six mixed photographs, twelve clients, a table and a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fedica.cli.options import option
from fedica.cli.output import Output, with_output

if TYPE_CHECKING:
    from fedica.simulate.demo import DemoResult


@with_output
def demo(
    *,
    output: Annotated[
        Path, option("DIR", "Folder for contributions, picture, result and report.", "--output", "-o")
    ] = Path("fedica-demo"),
    condition: Annotated[float, option("C", "Condition number of the mixing matrix; 1: orthogonal.", min=1)] = 3.0,
    random_state: Annotated[int, option("N", "Draws the mixing matrix and the clients' faults.", min=0)] = 0,
    out: Output,
) -> None:
    """Recover six mixed photographs from twelve clients, five of them bad.

    Six photographs are mixed by one unknown matrix. Every client holds a tile of the mixtures, runs ICA on it
    and sends one small file; the server puts the files together. Prints the error of every client alone and of every
    way to aggregate, and saves a picture of what was recovered, the result and its report. Needs no network and less
    than half a minute.
    """
    from fedica.simulate.demo import run_demo

    with out:
        result = run_demo(output, condition=condition, random_state=random_state, progress=out.progress)
        out.progress("the report is written")
        page = _write_result(result, output / "result")
    if out.result(_fields(result, page)):
        _print_clients(out, result)
        _print_methods(out, result)
        out.text(_conclusion(result))
        out.lines("", f"Picture: {result.picture}", f"Report: {page}", f"Contributions: {result.contributions}")
        out.lines(f"Done in {result.seconds:.1f} s.")


def _write_result(result: DemoResult, folder: Path) -> Path:
    """Write the result folder with its report; return the report's path."""
    from fedica.exchange import Received, read_contributions, write_folder
    from fedica.report import write_report

    received = [x for x in read_contributions(result.contributions) if isinstance(x, Received)]
    write_folder(result.aggregate, folder, provenance=[x.provenance for x in received])
    return write_report(folder, image="no")  # six mixtures are channels, not pixels


def _fields(result: DemoResult, page: Path) -> dict[str, Any]:
    return {
        "clients": [asdict(row) for row in result.clients],
        "methods": [asdict(row) for row in result.methods],
        **{name: getattr(result, name) for name in ("default", "pooled", "pooled_honest", "seconds")},
        "picture": str(result.picture),
        "report": str(page),
        "contributions": str(result.contributions),
    }


def _print_clients(out: Output, result: DemoResult) -> None:
    out.text(f"Six photographs, mixed by one unknown matrix. {len(result.clients)} clients hold a tile each.")
    out.lines("")
    rows = [
        [
            c.client,
            f"{c.height} x {c.width} pixels",
            "" if c.fault == "none" else c.fault,
            f"{c.error:.4f}",
            str(c.sent),
            c.verdict,
        ]
        for c in result.clients
    ]
    out.table(["client", "<holds", "<fault", "error alone", "bytes sent", "<server's verdict"], rows)


def _print_methods(out: Output, result: DemoResult) -> None:
    rows = [[row.method, f"{row.error:.4f}", f"{row.seconds:.3f}"] for row in result.methods]
    default = [k for k, row in enumerate(result.methods) if row.method == result.default]
    out.table(["aggregated by", "error", "seconds"], rows, strong=default)


def _conclusion(result: DemoResult) -> str:
    """Return what the numbers mean in plain words; every statement is computed, so it holds for any random state."""
    error = result.error_of(result.default)
    n_clients = len(result.clients)
    n_bad = sum(c.fault != "none" for c in result.clients)
    n_beaten = sum(error < c.error for c in result.clients)
    return (
        "An error of 0 is exact; about 1 means no recovery. No pixel left its client: each sent one file of "
        f"{max(c.sent for c in result.clients)} bytes or less, once. From these {result.default} finds the matrix with "
        f"an error of {error:.4f}, smaller than what {n_beaten} of the {n_clients} clients find alone, though {n_bad} "
        f"of them are bad. One ICA on all pixels in one place, the bad ones included, has {result.pooled:.4f}; on the "
        f"good pixels alone, which nobody can pick without knowing the truth, {result.pooled_honest:.4f}."
    )

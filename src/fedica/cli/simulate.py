"""``fedica simulate``: what a share of bad clients costs each method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedica.cli.output import Output, with_output

if TYPE_CHECKING:
    from fedica.simulate.grid import Row


@with_output
def simulate(
    *,
    attack: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:STRENGTH]", help="An attack, e.g. rotation:15; may be repeated; all by default."),
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(min=0, max=1, metavar="P", help="Share of clients that attack; may be repeated. [0.1 ... 0.45]"),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A method of fedica aggregate; may be repeated.")
    ] = None,
    clients: Annotated[list[int], typer.Option(min=2, metavar="K", help="Clients; may be repeated.")] = [30],  # noqa: B006
    components: Annotated[list[int], typer.Option(min=1, metavar="R", help="Components; may be repeated.")] = [10],  # noqa: B006
    features: Annotated[int, typer.Option(min=0, metavar="D", help="Features; 0: as many as components.")] = 0,
    condition: Annotated[
        list[float],
        typer.Option(
            min=1, metavar="C", help="Condition number of the mixing matrix, 1: orthonormal; may be repeated."
        ),
    ] = [1.0],  # noqa: B006
    components_per_client: Annotated[
        int, typer.Option(min=0, metavar="R_K", help="Components that a client sees; 0: all.")
    ] = 0,
    skew: Annotated[
        float, typer.Option(min=1, metavar="S", help="How many times as often the commonest component is seen.")
    ] = 1.0,
    leak: Annotated[
        float, typer.Option(min=0, metavar="E", help="Leak between the sources of an honest client's atoms.")
    ] = 0.03,
    samples: Annotated[
        int, typer.Option(min=0, metavar="N", help="Fit ICA to N samples per client instead of drawing atoms.")
    ] = 0,
    law: Annotated[
        str, typer.Option(metavar="NAME", help="Law of the sources that are fitted, e.g. laplace, student-t:3.")
    ] = "bernoulli-gaussian",
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Seeds per setting.")] = 10,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes; one per core by default.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the rows, the table and the figure.")
    ] = Path("fedica-simulate"),
    list_attacks: Annotated[bool, typer.Option("--list", help="List the attacks and stop.")] = False,
    out: Output,
) -> None:
    """Measure what a share of bad clients costs each way to aggregate.

    Runs every federation x attack x share x method over the seeds, and writes flat rows (CSV), a table (Markdown) and
    a figure (PNG and HTML). The line "honest" is the mean of the honest clients' atoms with the true labels. Ctrl-C
    stops it; the same command again goes on where it stopped.
    """
    from fedica.simulate.attacks import ATTACKS
    from fedica.simulate.robustness import COMPARED, SHARES, Setting, run_robustness

    if list_attacks:
        _list(out)
        return
    settings = [
        Setting(k, r, features, components_per_client, skew, c, leak, samples, law)
        for k in clients
        for r in components
        for c in condition
    ]
    out.progress(f"measuring; rows go to {output / 'simulate.csv'}")
    rows = run_robustness(
        settings,
        path=output / "simulate.csv",
        attacks=attack or tuple(ATTACKS),
        shares=share or SHARES,
        methods=method or COMPARED,
        trials=trials,
        n_jobs=jobs,
        progress=out.bar,
    )
    _show(out, rows, output)


def _show(out: Output, rows: list[Row], folder: Path) -> None:
    from fedica.exchange.files import write_atomic
    from fedica.simulate.robustness import draw_robustness, markdown, table_robustness

    columns, lines = table_robustness(rows)
    write_atomic(folder / "simulate.md", [markdown(columns, lines).encode()])
    out.progress(f"drawing {len(rows)} rows")
    files, missing = draw_robustness(rows, folder / "simulate")
    out.measured(columns, lines, [folder / "simulate.csv", folder / "simulate.md", *files], missing)


def _list(out: Output) -> None:
    from fedica.simulate.attacks import ATTACKS

    fields = ("strength", "meaning", "colluding", "beyond_spread", "mistake")
    shown = [{"attack": name, **{field: getattr(a, field) for field in fields}} for name, a in ATTACKS.items()]
    if out.result({"attacks": shown}):
        out.table(
            ["attack", "<strength", "colluding", "beyond the spread", "honest mistake"],
            [
                [name, f"{a.strength:g} ({a.meaning})", _yes(a.colluding), _yes(a.beyond_spread), _yes(a.mistake)]
                for name, a in ATTACKS.items()
            ],
        )


def _yes(fact: bool) -> str:
    return "yes" if fact else ""

"""``fedica simulate``: what a share of bad clients costs each method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from fedica.cli.options import option
from fedica.cli.output import Output, with_output

if TYPE_CHECKING:
    from fedica.simulate.grid import Row


@with_output
def simulate(
    *,
    attack: Annotated[
        list[str] | None, option("NAME[:STRENGTH]", "An attack, e.g. rotation:15; may be repeated; all by default.")
    ] = None,
    share: Annotated[
        list[float] | None, option("P", "Share of clients that attack; may be repeated. [0.1 ... 0.45]", min=0, max=1)
    ] = None,
    method: Annotated[list[str] | None, option("NAME", "A method of fedica aggregate; may be repeated.")] = None,
    clients: Annotated[list[int], option("K", "Clients; may be repeated.", min=2)] = [30],  # noqa: B006
    components: Annotated[list[int], option("R", "Components; may be repeated.", min=1)] = [10],  # noqa: B006
    features: Annotated[int, option("D", "Features; 0: as many as components.", min=0)] = 0,
    condition: Annotated[
        list[float], option("C", "Condition number of the mixing matrix, 1: orthonormal; may be repeated.", min=1)
    ] = [1.0],  # noqa: B006
    components_per_client: Annotated[int, option("R_K", "Components that a client sees; 0: all.", min=0)] = 0,
    skew: Annotated[float, option("S", "How many times as often the commonest component is seen.", min=1)] = 1.0,
    leak: Annotated[float, option("E", "Leak between the sources of an honest client's atoms.", min=0)] = 0.03,
    error_law: Annotated[
        str, option("NAME", "Which errors vary: equal, clients, components, both, heavy-tailed.")
    ] = "equal",
    samples: Annotated[int, option("N", "Fit ICA to N samples per client instead of drawing atoms.", min=0)] = 0,
    law: Annotated[
        str, option("NAME", "Law of the sources that are fitted, e.g. laplace, student-t:3.")
    ] = "bernoulli-gaussian",
    trials: Annotated[int, option("N", "Seeds per setting.", min=1)] = 10,
    jobs: Annotated[int | None, option("N", "Processes; one per core by default.", min=1)] = None,
    output: Annotated[Path, option("DIR", "Folder for the rows, the table and the figure.", "--output", "-o")] = Path(
        "fedica-simulate"
    ),
    list_attacks: Annotated[bool, Option("--list", help="List the attacks and stop.")] = False,
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
        Setting(k, r, features, components_per_client, skew, c, leak, samples, law, error_law)
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

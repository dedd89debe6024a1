"""``fedica simulate``: what a share of bad clients costs each method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    rounds: Annotated[int, option("N", "Messages of each client; from 2 on its data is needed: --samples.", min=1)] = 1,
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
    stops it; the same command again goes on where it stopped. With --rounds 2 it measures consensus after one message
    and after two, under attacks on second messages; "honest" is then the last answer of the honest clients alone.
    """
    from fedica.errors import OptionError
    from fedica.simulate.attacks import ATTACKS
    from fedica.simulate.robustness import COMPARED, SHARES, Setting, run_robustness
    from fedica.simulate.second_attacks import SECOND_ATTACKS
    from fedica.simulate.second_study import run_second

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
    common: dict[str, Any] = {
        "path": output / "simulate.csv",
        "shares": share or SHARES,
        "n_jobs": jobs,
        "progress": out.bar,
    }
    if rounds > 1:
        if method:
            raise OptionError("--rounds refines the answer of consensus; leave --method out.")
        names = attack or tuple(SECOND_ATTACKS)
        rows = run_second(settings, attacks=names, seeds=range(trials), rounds=rounds, **common)
    else:
        names = attack or tuple(ATTACKS)
        rows = run_robustness(settings, attacks=names, methods=method or COMPARED, trials=trials, **common)
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
    from fedica.simulate.second_attacks import SECOND_ATTACKS

    fields = ("strength", "meaning", "colluding", "beyond_spread", "mistake")
    shown = [{"attack": name, **{field: getattr(a, field) for field in fields}} for name, a in ATTACKS.items()]
    second = [
        {"attack": name, **{field: getattr(a, field) for field in ("strength", "meaning", "both")}}
        for name, a in SECOND_ATTACKS.items()
    ]
    if out.result({"attacks": shown, "second_attacks": second}):
        out.table(
            ["attack", "<strength", "colluding", "beyond the spread", "honest mistake"],
            [
                [name, f"{a.strength:g} ({a.meaning})", _yes(a.colluding), _yes(a.beyond_spread), _yes(a.mistake)]
                for name, a in ATTACKS.items()
            ],
        )
        out.table(
            ["attack, with --rounds 2", "<strength", "messages"],
            [
                [name, f"{a.strength:g} ({a.meaning})", "both" if a.both else "the second"]
                for name, a in SECOND_ATTACKS.items()
            ],
        )


def _yes(fact: bool) -> str:
    return "yes" if fact else ""

"""The cost of a share of bad clients for each method: federation x attack x share x method, as rows and a figure.

One line is added to the methods: "honest", the mean of the honest clients' atoms with the true labels, an oracle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fedica.arrays import Array, check_choice, check_int
from fedica.errors import OptionError
from fedica.evaluate import misclustering, recovery_error
from fedica.local import LocalICA
from fedica.records import Aggregate, Contribution
from fedica.server import METHODS, aggregate
from fedica.simulate.atoms import AtomFederation, atoms_federation, scramble, with_truth
from fedica.simulate.attacks import ATTACKS, NO_ATTACK, find_attack
from fedica.simulate.federation import Federation, federation
from fedica.simulate.grid import Job, Row, Value, attempt, run_grid
from fedica.simulate.plots import draw_both, lines_of, make_panel, summarise
from fedica.simulate.settings import share_of
from fedica.simulate.streams import stream

HONEST = "honest"
SHARES = (0.1, 0.2, 0.3, 0.4, 0.45)
COMPARED = tuple(name for name, method in METHODS.items() if method.centres_groups)
"""The methods compared by default."""


@dataclass(frozen=True)
class Setting:
    """A kind of federation; what is not described is as in `fedica.simulate.atoms_federation`."""

    n_clients: int = 30  # K
    n_components: int = 10  # r
    n_features: int = 0  # d; 0: r
    components_per_client: int = 0  # r_k; 0: all
    coverage_skew: float = 1.0
    condition: float = 1.0
    leak: float = 0.03  # its "error": leakage from one source into another in an honest client's atoms
    n_samples: int = 0  # 0: atoms are drawn, with errors of size leak; else every client fits ICA to this many samples
    law: str = "bernoulli-gaussian"  # distribution of the sources, if clients fit
    error_law: str = "equal"  # which errors vary between clients or components, if atoms are drawn
    declare_mixing: bool = True  # whether clients declare what kind of mixing matrix it is, if atoms are drawn


def robustness_jobs(
    settings: Sequence[Setting], *, attacks: Sequence[str], shares: Sequence[float] = SHARES, trials: int = 10
) -> list[Job]:
    """Return all jobs of a study: settings x attacks x shares x seeds. Without an attack the share is zero.

    attacks : names, with a strength after a colon if it is not the default. shares : of clients that attack. trials :
    number of seeds.
    """
    n_trials = check_int(trials, "trials", minimum=1)
    for setting in settings:
        for share in shares:
            if share_of(share, setting.n_clients, "share") >= setting.n_clients:
                raise OptionError(f"share must leave an honest client; got {share:g} of {setting.n_clients}.")
    for attack in attacks:
        find_attack(attack)
    return [
        {**vars(setting), "attack": attack, "share": share, "x": share, "seed": seed}
        for setting, attack in product(dict.fromkeys(settings), dict.fromkeys(attacks))
        for share in ((0.0,) if attack == NO_ATTACK else dict.fromkeys(map(float, shares)))
        for seed in range(n_trials)
    ]


def robustness_trial(job: Job, methods: Sequence[str] = COMPARED) -> list[Row]:
    """Attack one federation and measure every method on it; an attack that searches does so against each method."""
    seed, r = int(job["seed"]), int(job["n_components"])
    drawn = draw_setting(Setting(**{name: job[name] for name in vars(Setting())}), seed)  # type: ignore[arg-type]
    attack = find_attack(str(job["attack"]))

    def serve(method: str, contributions: Sequence[Contribution]) -> Aggregate:
        return aggregate(contributions, r, method=method, on_bad="reject", random_state=seed)

    def attack_on(method: str) -> AtomFederation:
        def server(contributions: Sequence[Contribution]) -> Array:
            return serve(method, contributions).mixing

        return attack(drawn, float(job["share"]), server=server, random_state=seed)

    common = None if attack.needs_server else attack_on(methods[0])
    rows: list[Row] = []
    for method in methods:
        faced = attack_on(method) if common is None else common
        honest = recovery_error(faced.honest_mean(), drawn.mixing)
        result, status, seconds = attempt(partial(serve, method, faced.contributions))
        numbers = (np.nan,) * 5 if result is None else _numbers(result, faced)
        rows.append(result_row(method, numbers, honest.relative, seconds, status))
    rows.append(result_row(HONEST, (honest.relative, honest.frobenius, 0.0, 1.0, 0.0), honest.relative, 0.0, "ok"))
    return rows


def run_robustness(
    settings: Sequence[Setting],
    *,
    path: Path,
    attacks: Sequence[str] = tuple(ATTACKS),
    shares: Sequence[float] = SHARES,
    methods: Sequence[str] = COMPARED,
    trials: int = 10,
    n_jobs: int | None = None,
    progress: bool = False,
) -> list[Row]:
    """Run a study, or what is missing from an earlier run into the same file, and return its rows.

    settings, attacks, shares, trials : as in `robustness_jobs`. path : the CSV file of rows. methods : of
    `fedica.aggregate`. n_jobs, progress : as in `fedica.simulate.grid.run_grid`.
    """
    compared = tuple(dict.fromkeys(check_choice(method, "method", METHODS) for method in methods))
    jobs = robustness_jobs(settings, attacks=attacks, shares=shares, trials=trials)
    work = partial(robustness_trial, methods=compared)
    return run_grid(jobs, work, path, lines=(*compared, HONEST), n_jobs=n_jobs, progress=progress)


@lru_cache(maxsize=4)
def draw_setting(setting: Setting, seed: int) -> AtomFederation:
    """Draw a federation of atoms, or of data that every client fits; cached for the next attack on it."""
    if not setting.n_samples:
        return atoms_federation(
            setting.n_clients,
            setting.n_components,
            error=setting.leak,
            error_law=setting.error_law,
            declare_mixing=setting.declare_mixing,
            **_options(setting, seed),
        )
    drawn = draw_data(setting, seed)
    contributions = [
        scramble(fit_client(setting, seed, client.X, client.name, client.components.size), stream(seed, "scramble", k))
        for k, client in enumerate(drawn.clients)
    ]
    return with_truth(contributions, drawn.mixing, [client.components for client in drawn.clients])


def draw_data(setting: Setting, seed: int) -> Federation:
    """Draw a federation of data."""
    return federation(
        setting.n_clients,
        setting.n_components,
        n_samples=setting.n_samples,
        law=setting.law,
        **_options(setting, seed),
    )


def fit_client(setting: Setting, seed: int, X: Array, name: str, n_components: int) -> Contribution:
    """Return the first message of one client of data."""
    kind = "orthogonal" if setting.condition == 1 else "general"
    return LocalICA(n_components, mixing=kind, random_state=seed).fit(X).contribution(name)


def _options(setting: Setting, seed: int) -> dict[str, Any]:
    return {
        "n_features": setting.n_features or None,
        "components_per_client": setting.components_per_client or None,
        "coverage_skew": setting.coverage_skew,
        "condition": setting.condition,
        "random_state": seed,
    }


def draw_robustness(rows: Sequence[Row], stem: Path) -> tuple[list[Path], str]:
    """Draw error against share, one panel per federation and attack; returns what `draw_both` returns."""
    panels = [
        make_panel(group, lines_of(rows), title, "share of clients that attack", centre="median")
        for title, group in _groups(rows)
        if len({row["share"] for row in group}) > 1
    ]
    n_trials = len({row["seed"] for row in rows})
    title = f"Cost of a share of bad clients: medians and quartiles of {n_trials} trials"
    return draw_both(panels, stem, title=title, y_label="error / sqrt(r)") if panels else ([], "")


def table_robustness(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines of a table: median errors, and in brackets their ratio to the honest one."""
    names = lines_of(rows)
    lines = []
    for title, group in _groups(rows):
        columns = {name: summarise(group, name, centre="median") for name in names}
        for share in sorted({float(row["share"]) for row in group}):
            honest = columns[HONEST].at(share)
            cells = [f"{columns[m].at(share):.4f} ({columns[m].at(share) / honest:.2f})" for m in names if m != HONEST]
            lines.append([title, f"{share:g}", f"{honest:.4f}", *cells])
    return ["attack", "share", HONEST, *(name for name in names if name != HONEST)], lines


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    table = [headings, ["---"] * len(headings), *lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def result_row(method: str, numbers: tuple[float, ...], honest: float, seconds: float, status: str) -> Row:
    """Return the row of a method: errors, the misclustered share, recall and false alarms, beside the honest error."""
    error, frobenius, misclustered, recall, false_alarms = map(float, numbers)
    return {
        "method": method,
        "error": error,
        "frobenius": frobenius,
        "over_honest": error / honest if honest > 0 else np.nan,
        "misclustered": misclustered,
        "recall": recall,
        "false_alarms": false_alarms,
        "seconds": seconds,
        "status": status,
    }


def _numbers(result: Aggregate, faced: AtomFederation) -> tuple[float, ...]:
    """Return both errors, the misclustered share of honest atoms, and the outlying shares of attackers and honest.

    A client that was refused counts as outlying. The share of attackers is 1 if there are none.
    """
    error = recovery_error(result.mixing, faced.mixing)
    number = {contribution.client: k for k, contribution in enumerate(faced.contributions)}
    truth = np.concatenate([faced.labels[number[client]] for client in result.clients])
    wrong = misclustering(result.labels, truth, faced.mixing.shape[1]).overall
    assert result.trust is not None
    outlying = np.ones(len(number), dtype=bool)
    outlying[[number[client] for client in result.trust.clients]] = np.array(result.trust.verdict) == "outlying"
    recall = 1.0 if faced.honest.all() else outlying[~faced.honest].mean()
    return error.relative, error.frobenius, wrong, recall, outlying[faced.honest].mean()


def _short(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each federation and attack, with a title that names the settings that vary."""
    names = list(vars(Setting()))
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = (str(row["attack"]), *(f"{name.replace('_', ' ')} {_short(row[name])}" for name in varied))
        groups.setdefault(key, []).append(row)
    for key, group in groups.items():
        yield ", ".join(key), group

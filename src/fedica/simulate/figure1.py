"""Figure 1 of the paper: errors of five methods against the numbers of clients, samples and corrupted clients.

One line is added: the same solver on the pooled data, a limit for any federation.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fedica.arrays import Array, check_choice, check_int, pick
from fedica.evaluate import recovery_error
from fedica.local import LocalICA
from fedica.records import Contribution
from fedica.server import METHODS, aggregate
from fedica.simulate.atoms import scramble
from fedica.simulate.federation import Federation, federation
from fedica.simulate.grid import Job, Row, attempt, run_grid
from fedica.simulate.plots import draw_both, lines_of, make_panel, summarise
from fedica.simulate.streams import stream

N_COMPONENTS = 10
N_CLIENTS = 30
CLIENTS = (10, 30, 50, 70, 100)
SAMPLES = (50, 70, 100, 300, 500, 1000)
RATIOS = tuple(i / 20 for i in range(9))
COMPARED = tuple(name for name, method in METHODS.items() if method.in_paper)
POOLED = "pooled"


@dataclass(frozen=True)
class Preset:
    """Settings in which the paper's text and the authors' code differ."""

    corrupted_samples: int  # samples of a corrupted client, where they are not varied
    ratio: float  # share of corrupted clients, where it is not varied
    trials: int  # independent trials per setting
    n_init: int  # random starts of k-means
    centre: str  # {"mean", "median"}: what the lines show; a median has a band between the quartiles


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "paper": Preset(corrupted_samples=300, ratio=0.1, trials=20, n_init=10, centre="mean"),
        "code": Preset(corrupted_samples=100, ratio=0.3, trials=10, n_init=20, centre="median"),
    }
)


def figure1_jobs(preset: str, trials: int | None = None) -> list[Job]:
    """Return the 20 settings of the figure's three panels, times the trials.

    A trial's seed is its number: settings share mixing matrices and clients' data as far as possible, so that
    differences along a line are not due to different draws. By default there are as many trials as in the preset.
    """
    chosen = pick(preset, "preset", PRESETS)
    n_trials = chosen.trials if trials is None else check_int(trials, "trials", minimum=1)
    settings: list[tuple[str, float, int, int, float]] = [
        *(("clients", k, k, chosen.corrupted_samples, chosen.ratio) for k in CLIENTS),
        *(("samples", n, N_CLIENTS, n, chosen.ratio) for n in SAMPLES),
        *(("ratio", share, N_CLIENTS, chosen.corrupted_samples, share) for share in RATIOS),
    ]
    return [
        {
            "preset": preset,
            "panel": panel,
            "x": x,
            "n_clients": n_clients,
            "corrupted_samples": samples,
            "ratio": ratio,
            "n_init": chosen.n_init,
            "seed": seed,
        }
        for panel, x, n_clients, samples, ratio in settings
        for seed in range(n_trials)
    ]


def figure1_trial(job: Job, methods: Sequence[str] = COMPARED) -> list[Row]:
    """Draw one federation, fit every client once, and measure all lines on the same contributions."""
    seed = int(job["seed"])
    drawn = federation(
        int(job["n_clients"]),
        N_COMPONENTS,
        corrupted_share=float(job["ratio"]),
        corrupted_samples=int(job["corrupted_samples"]),
        random_state=seed,
    )
    start = time.perf_counter()
    contributions = fit_clients(drawn, seed)
    local_seconds = round((time.perf_counter() - start) / len(contributions), 6)
    estimates: dict[str, Callable[[], Array]] = {
        method: partial(_mixing, contributions, method, int(job["n_init"]), seed) for method in methods
    }
    estimates[POOLED] = partial(fit_atoms, drawn.X, seed)
    rows: list[Row] = []
    for line, estimate in estimates.items():
        found, status, seconds = attempt(estimate)
        error = None if found is None else recovery_error(found, drawn.mixing)
        rows.append(
            {
                "method": line,
                "error": np.nan if error is None else float(error.relative),
                "frobenius": np.nan if error is None else float(error.frobenius),
                "seconds": seconds,
                "local_seconds": local_seconds,
                "status": status,
            }
        )
    return rows


def _mixing(contributions: Sequence[Contribution], method: str, n_init: int, seed: int) -> Array:
    return aggregate(contributions, N_COMPONENTS, method=method, n_init=n_init, random_state=seed).mixing


def fit_clients(drawn: Federation, seed: int) -> list[Contribution]:
    """Run the paper's local solver at every client, and apply a random signed permutation to its atoms.

    Without the permutation, the solver's convention for order and signs, shared by all clients, would help the methods
    that align nothing.
    """
    return [
        scramble(
            Contribution(client.name, fit_atoms(client.X, seed), len(client.X), solver="l4", mixing="orthogonal"),
            stream(seed, "scramble", k),
        )
        for k, client in enumerate(drawn.clients)
    ]


def fit_atoms(X: Array, seed: int) -> Array:
    """Return the atoms of the paper's solver, Eq. (2): (d, r), or fewer where the data has lower rank.

    At 50 samples one source in 200 is zero in all of them (0.9 ** 50), and its client then has nine atoms. Poor fits
    from few samples are part of the experiment, so warnings are suppressed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = LocalICA(n_components=None, solver="l4", mixing="orthogonal", random_state=seed).fit(X)
    return np.asarray(fitted.atoms_, dtype=np.float64)


def reproduce_figure1(
    preset: str = "paper",
    *,
    folder: Path,
    also: Sequence[str] = (),
    trials: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> list[Row]:
    """Run the figure's settings, or those missing from an earlier run into the same folder, and return all rows.

    preset : settings of the paper's text ("paper") or of its authors' code ("code"). folder : that of
    ``figure-1-PRESET.csv``. also : methods of `fedica.aggregate` in addition to the paper's five, on the same
    contributions. trials, n_jobs, progress : as in `figure1_jobs` and `fedica.simulate.grid.run_grid`.
    """
    jobs = figure1_jobs(preset, trials)
    methods = tuple(dict.fromkeys((*(check_choice(method, "method", METHODS) for method in also), *COMPARED)))
    path = folder / f"figure-1-{preset}.csv"
    work = partial(figure1_trial, methods=methods)
    return run_grid(jobs, work, path, lines=(*methods, POOLED), n_jobs=n_jobs, progress=progress)


PANELS = {
    "clients": ("More clients", "clients", False),
    "samples": ("More samples at the corrupted clients", "samples of a corrupted client", True),
    "ratio": ("More corrupted clients", "share of corrupted clients", False),
}


def draw_figure1(rows: Sequence[Row], preset: str, *, folder: Path) -> tuple[list[Path], str]:
    """Draw the three panels as a PNG and as an interactive page; returns what `draw_both` returns."""
    centre = pick(preset, "preset", PRESETS).centre
    panels = [
        make_panel(
            [row for row in rows if row["panel"] == name], lines_of(rows), title, x_label, centre=centre, log_x=log_x
        )
        for name, (title, x_label, log_x) in PANELS.items()
    ]
    n_trials = len({row["seed"] for row in rows})
    shown = "medians and quartiles" if centre == "median" else "means"
    whose = {"paper": "the paper's text", "code": "its authors' code"}[preset]
    title = f"Figure 1, settings of {whose}: {shown} of {n_trials} trials"
    return draw_both(panels, folder / f"figure-1-{preset}", title=title, y_label="error / sqrt(r)")


def table_figure1(rows: Sequence[Row], preset: str) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines of a table: the mean or median error of every method in every setting."""
    centre = pick(preset, "preset", PRESETS).centre
    lines = []
    for name in PANELS:
        of_panel = [row for row in rows if row["panel"] == name]
        columns = [summarise(of_panel, line, centre=centre) for line in lines_of(rows)]
        lines += [
            [f"{name} {x:g}", *(f"{column.at(x):.4f}" for column in columns)]
            for x in sorted({float(row["x"]) for row in of_panel})
        ]
    return [f"{centre} error", *(line.removeprefix("srf-ica-") for line in lines_of(rows))], lines

"""Figure 1 of the paper: the error of five ways to aggregate, against clients, samples and share of corrupted ones.

One line more than the paper: the same solver on all data in one place, the limit of what any federation can reach.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fedica.arrays import Array, check_choice, check_int, pick
from fedica.errors import FedicaError
from fedica.evaluate import recovery_error
from fedica.local import LocalICA
from fedica.records import Contribution
from fedica.server import METHODS, aggregate
from fedica.simulate.atoms import scramble
from fedica.simulate.federation import Federation, federation
from fedica.simulate.grid import Job, Row, run_grid
from fedica.simulate.plots import Panel, draw_both, lines_of, summarise
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
    """What the paper's text and the authors' code do not agree on.

    Parameters
    ----------
    corrupted_samples : int
        Samples of a corrupted client, where they are not what is varied.
    ratio : float
        Share of corrupted clients, where it is not what is varied.
    trials : int
        Independent trials per setting.
    n_init : int
        Random starts of k-means.
    centre : {"mean", "median"}
        What the lines show; a median comes with a band between the quartiles.
    """

    corrupted_samples: int
    ratio: float
    trials: int
    n_init: int
    centre: str


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "paper": Preset(corrupted_samples=300, ratio=0.1, trials=20, n_init=10, centre="mean"),
        "code": Preset(corrupted_samples=100, ratio=0.3, trials=10, n_init=20, centre="median"),
    }
)


def figure1_jobs(preset: str, trials: int | None = None) -> list[Job]:
    """Return the 20 settings of the figure's three panels, times the trials.

    A trial's seed is its number: the settings share their mixing matrices and their clients' data as far as they can,
    so that differences along a line are not between different draws.

    Parameters
    ----------
    preset : {"paper", "code"}
        A name of ``PRESETS``.
    trials : int, optional
        How many seeds; what the preset says by default.
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
    local_seconds = (time.perf_counter() - start) / len(contributions)

    def by_method(method: str) -> Array:
        n_init = int(job["n_init"])
        result = aggregate(contributions, N_COMPONENTS, method=method, n_init=n_init, random_state=seed)
        return result.mixing

    rows: list[Row] = []
    for line in (*methods, POOLED):
        start = time.perf_counter()
        try:
            estimate = fit_atoms(drawn.X, seed) if line == POOLED else by_method(line)
            status, error = "ok", recovery_error(estimate, drawn.mixing)
            relative, frobenius = error.relative, error.frobenius
        except FedicaError as failure:
            status, relative, frobenius = f"{type(failure).__name__}: {failure}", np.nan, np.nan
        seconds = time.perf_counter() - start
        rows.append(
            {
                "method": line,
                "error": float(relative),
                "frobenius": float(frobenius),
                "seconds": round(seconds, 6),
                "local_seconds": round(local_seconds, 6),
                "status": status,
            }
        )
    return rows


def fit_clients(drawn: Federation, seed: int) -> list[Contribution]:
    """Run the paper's local solver at every client, and give its atoms a random signed permutation.

    The permutation matters: the solver's own order and signs are a convention that clients would share, and that
    would help the methods that align nothing.
    """
    return [
        scramble(
            Contribution(client.name, fit_atoms(client.X, seed), len(client.X), solver="l4", mixing="orthogonal"),
            stream(seed, "scramble", k),
        )
        for k, client in enumerate(drawn.clients)
    ]


def fit_atoms(X: Array, seed: int) -> Array:
    """Return the atoms of the paper's solver, Eq. (2): (d, r), or fewer where the data has fewer directions.

    At 50 samples one source in 200 is zero in all of them (0.9 ** 50), and its client then has nine atoms. A bad fit of
    few samples is part of the experiment: nobody is to be warned of it.
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
    """Run the figure's settings, or what an earlier run into the same folder left undone, and return all rows.

    Parameters
    ----------
    preset : {"paper", "code"}
        Whose settings.
    folder : Path
        Where ``figure-1-PRESET.csv`` is kept.
    also : sequence of str
        Methods of `fedica.aggregate` beside the paper's five, on the same contributions.
    trials, n_jobs, progress
        As in `figure1_jobs` and `fedica.simulate.grid.run_grid`.
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
    """Draw the three panels as a PNG and as an interactive page.

    Returns
    -------
    files : list of Path
        What was written.
    missing : str
        Why there is no PNG, if there is none.
    """
    centre = pick(preset, "preset", PRESETS).centre
    panels = [
        Panel(
            title,
            x_label,
            tuple(
                summarise([row for row in rows if row["panel"] == name], line, centre=centre) for line in lines_of(rows)
            ),
            log_x,
        )
        for name, (title, x_label, log_x) in PANELS.items()
    ]
    n_trials = len({row["seed"] for row in rows})
    shown = "medians and quartiles" if centre == "median" else "means"
    whose = {"paper": "the paper's text", "code": "its authors' code"}[preset]
    title = f"Figure 1, settings of {whose}: {shown} of {n_trials} trials"
    return draw_both(panels, folder / f"figure-1-{preset}", title=title, y_label="error / sqrt(r)")


def table_figure1(rows: Sequence[Row], preset: str) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines of a table: the centre of every method's errors in every setting."""
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

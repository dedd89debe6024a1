"""Attacks by clients that have read the server's code: the second part of docs/robustness.md."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from seeds import geometric_mean, parallel, table

from fedica import Contribution, aggregate
from fedica.evaluate import recovery_error
from fedica.evaluate.recovery import RecoveryError
from fedica.simulate import AtomFederation, atoms_federation, find_attack
from fedica.simulate.lean import Lean, search_lean
from fedica.simulate.robustness import Setting, draw_setting

METHODS = ("consensus", "srf-ica", "sf-ica")
KEPT = Path("out/robustness")
LEAN_LIMITS = {0.1: 1.5, 0.2: 2.0, 0.3: 2.5, 0.4: 3.0}
SEARCH_SEEDS = range(1000, 1002)
"""Federations on which a lean is searched; it is reported on others."""


@dataclass(frozen=True)
class Case:
    """One row: a federation, an attack on it, and what it may cost."""

    federation: str
    setting: Setting
    attack: str
    share: float
    limit: float
    component: int | None = None


def cases() -> list[Case]:
    """Return all rows."""
    some, common = partial(Setting, leak=0.05, declare_mixing=False), {"condition": 10.0}
    partly = [
        Case("K = 60, d = 64, r_k = 6, condition 10", some(60, 10, 64, 6, **common), "outside-span:64", 1 / 60, 1.15),
        Case(
            "K = 30, d = 64, r_k = 8, condition 30", some(30, 10, 64, 8, condition=30.0), "outside-span:10", 0.1, 1.15
        ),
        Case("r_k = 4 of 10", some(components_per_client=4), "tight-basis", 0.3, 1.15),
        Case("r_k = 6 of 10", some(components_per_client=6), "tight-basis", 0.4, 1.15),
        Case("r_k = 8 of 20", some(30, 20, 0, 8), "tight-basis", 0.4, 1.15),
    ]
    claims = [
        Case(f"condition {c:g}, nobody else declares", some(condition=c), "claims-orthogonal", 1 / 30, 1.15)
        for c in (3.0, 30.0)
    ]
    weak = [
        Case(f"K = {k}, r = {r}, error 0.3", some(k, r, leak=0.3), "tight-basis", share, 1.3)
        for k, r, share in ((30, 10, 0.3), (30, 10, 0.4), (60, 5, 0.4))
    ]
    leans = [
        Case("condition 10", some(**common), "lean", share, limit)
        for share, limit in (*LEAN_LIMITS.items(), (0.45, np.inf))
    ]
    one = [
        Case("condition 10, error of that component", some(**common), "lean-one", share, limit, 0)
        for share, limit in ((0.2, 2.0), (0.4, np.inf))
    ]
    bent = [
        Case(f"error {leak:g}", some(leak=leak), f"bent-atoms:{n}", share, 1.15)
        for leak in (0.06, 0.1)
        for n in (1, 2)
        for share in (0.3, 0.4)
    ]
    unequal = [
        Case("error log-normal over clients", some(error_law="clients"), "lean", share, 1.3)
        for share in (0.2, 0.3, 0.4)
    ]
    return [*partly, *claims, *weak, *leans, *one, *bent, *unequal]


def known_code(options: argparse.Namespace) -> str:
    """Return the section with every row of the table."""
    rows = cases()
    jobs = [(row, seed) for row in rows for seed in range(options.trials)]
    costs = np.array(parallel(_cost, jobs, options.jobs, "attacks that know the code", KEPT))
    medians = np.median(costs.reshape(len(rows), options.trials, len(METHODS)), axis=1)
    lines = [
        [row.attack, row.federation, f"{row.share:.2g}", "" if np.isinf(row.limit) else f"{row.limit:g}", *cells]
        for row, cells in zip(rows, [[f"{x:.2f}" for x in own] for own in medians], strict=True)
    ]
    held = sum(own[0] <= row.limit for row, own in zip(rows, medians, strict=True))
    return "\n".join(
        [
            "Error over that of the same method on the honest clients alone, medians over seeds; K = 30, r = 10, error "
            "0.05 and condition 1 unless said otherwise, and no client declares what the mixing is. *lean*, *lean-one* "
            "and *outside-span* search their size against the method itself.\n",
            table(["attack", "federation", "share", "limit", *METHODS], lines),
            f"Consensus is within the limit in {held} of {len(rows)} rows.\n",
        ]
    )


def _cost(job: tuple[Case, int]) -> list[float]:
    row, seed = job
    drawn, attack = draw_setting(row.setting, seed), find_attack(row.attack)
    costs = []
    for method in METHODS:
        serve = _server(method, row.setting.n_components)
        faced = attack(drawn, row.share, server=serve, random_state=seed)
        costs.append(_over_alone(serve, faced, row.component))
    return costs


def _server(method: str, n_components: int) -> Callable[[Sequence[Contribution]], np.ndarray]:
    return lambda c: aggregate(c, n_components, method=method, on_bad="reject").mixing


def _over_alone(serve: Callable[..., Any], faced: AtomFederation, component: int | None = None) -> float:
    """Error over that on the honest clients alone, of one component or of all."""
    attacked, alone = _attacked(serve, faced), _alone(serve, faced)
    if component is None:
        return attacked.relative / alone.relative
    return float(attacked.per_component[component] / alone.per_component[component])


def _attacked(serve: Callable[..., Any], faced: AtomFederation) -> RecoveryError:
    return recovery_error(serve(faced.contributions), faced.mixing)


def _alone(serve: Callable[..., Any], faced: AtomFederation) -> RecoveryError:
    """Error of a server that gets the honest contributions alone."""
    return recovery_error(serve([faced.contributions[k] for k in np.flatnonzero(faced.honest)]), faced.mixing)


def searched_leans(options: argparse.Namespace) -> str:
    """Return the section on the lean that an optimiser found against consensus."""
    sizes = [(30, 10), (30, 20), (100, 10), (100, 20)]
    jobs = [(k, r, share, options.evaluations, options.fresh) for k, r in sizes for share in LEAN_LIMITS]
    found = parallel(_search, jobs, options.jobs, "leans searched by an optimiser", KEPT)
    lines = [
        [k, r, f"{share:g}", f"{LEAN_LIMITS[share]:g}", *(f"{x:.2f}" for x in costs), _describe(Lean(**lean))]
        for (k, r, share, *_), (lean, *costs) in zip(jobs, found, strict=True)
    ]
    return "\n".join(
        [
            f"Length, scatter, number of components, steps and direction of a common lean, {options.evaluations} "
            f"evaluations against consensus on {len(SEARCH_SEEDS)} federations, reported on {options.fresh} fresh "
            "ones: error over that of the same method on the honest clients alone, medians; condition 10, error "
            "0.05. *Consensus over srf-ica* is the geometric mean of the ratio of their errors under that lean.\n",
            table(
                ["K", "r", "share", "limit", "consensus", "srf-ica", "consensus over srf-ica", "the lean found"], lines
            ),
        ]
    )


def _search(job: tuple[int, int, float, int, int]) -> tuple[dict[str, float], float, float, float]:
    k, r, share, evaluations, fresh = job

    def faced(lean: Lean, seed: int) -> AtomFederation:
        drawn = draw_setting(Setting(k, r, condition=10.0, leak=0.05, declare_mixing=False), seed)
        return lean(drawn, share, random_state=seed)

    @cache  # the honest clients of a seed are the same, however the others lean
    def alone(method: str, seed: int) -> float:
        return _alone(_server(method, r), faced(Lean(), seed)).relative

    def error(lean: Lean, method: str, seed: int) -> float:
        return _attacked(_server(method, r), faced(lean, seed)).relative

    def harm(lean: Lean) -> float:
        return geometric_mean([error(lean, "consensus", s) / alone("consensus", s) for s in SEARCH_SEEDS])

    best = search_lean(harm, evaluations)
    ours, srf = ([error(best, method, seed) for seed in range(fresh)] for method in METHODS[:2])
    over_alone = (
        float(np.median(np.divide(errors, [alone(method, seed) for seed in range(fresh)])))
        for method, errors in zip(METHODS, (ours, srf), strict=False)
    )
    return asdict(best), *over_alone, geometric_mean(np.divide(ours, srf))


def _describe(lean: Lean) -> str:
    return (
        f"{lean.size:.2f} typical errors, scatter {lean.scatter:.2f}, {100 * lean.share:.0f}% of the components, "
        f"{lean.steps} step{'s' if lean.steps > 1 else ''}, {100 * lean.along:.0f}% along the honest error"
    )


COUNTED = {
    "two phantoms added": "added-phantoms:2",
    "d random atoms": "outside-span",
    "two components merged": "merged-components",
}


def attacked_counts(options: argparse.Namespace) -> str:
    """``n_components=None`` when 20% of the clients aim at it."""
    n_runs = 3 * options.trials
    settings = [(r, condition, per) for r in (5, 10, 20) for condition in (1.0, 10.0) for per in (r, round(0.6 * r))]
    cells = [(attack, *setting) for setting in settings for attack in COUNTED.values()]
    jobs = [(*cell, seed) for cell in cells for seed in range(n_runs)]
    right = np.reshape(parallel(_is_counted, jobs, options.jobs, "numbers of components", KEPT), (len(cells), n_runs))
    shares = [f"{100 * own.mean():.0f}%" for own in right]
    lines = [[r, f"{condition:g}", per, *shares[3 * i : 3 * i + 3]] for i, (r, condition, per) in enumerate(settings)]
    return "\n".join(
        [
            f"`n_components=None`, K = 30, d = 2 r, 20% of clients attack; how often r is found in {n_runs} runs.\n",
            table(["r", "condition", "r_k", *COUNTED], lines),
        ]
    )


def _is_counted(job: tuple[str, int, float, int, int]) -> bool:
    name, r, condition, per_client, seed = job
    drawn = atoms_federation(
        30, r, n_features=2 * r, condition=condition, components_per_client=per_client, random_state=seed
    )
    attack = replace(find_attack(name), needs_server=False)
    return aggregate(attack(drawn, 0.2, random_state=seed).contributions, n_init=3).n_components == r

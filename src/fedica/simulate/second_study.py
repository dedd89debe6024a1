"""What attackers cost where clients send a second message: federation x attack x share, as rows of `robustness`.

The lines are the answers after one message, after two and so on; "honest" is the last of these with the honest clients
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

import numpy as np

from fedica.arrays import check_int
from fedica.errors import DataError, OptionError
from fedica.evaluate import recovery_error
from fedica.records import Aggregate, Contribution
from fedica.server import aggregate, refine
from fedica.simulate.federation import Federation
from fedica.simulate.grid import Job, Row, attempt, run_grid
from fedica.simulate.robustness import HONEST, SHARES, Setting, draw_data, fit_client, result_row
from fedica.simulate.second_attacks import SECOND_ATTACKS, AttackedData, find_second_attack
from fedica.simulate.settings import share_of


def lines_of_rounds(rounds: int) -> tuple[str, ...]:
    """Return the names of the answers after 1, 2, ... messages."""
    return ("one message", *(f"{n} messages" for n in range(2, rounds + 1)))


def second_jobs(
    settings: Sequence[Setting],
    *,
    attacks: Sequence[str] = tuple(SECOND_ATTACKS),
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = range(10),
    rounds: int = 2,
) -> list[Job]:
    """Return all jobs of a study: settings x seeds x shares x attacks, in this order; no share may leave nobody honest.

    attacks : names of `SECOND_ATTACKS`, with a strength after a colon if it is not the usual one. rounds : messages.
    """
    n_rounds = check_int(rounds, "rounds", minimum=2)
    for setting, share in product(settings, shares):
        if not setting.n_samples:
            raise OptionError("second messages are of data: give the number of samples of a client (n_samples).")
        if share_of(share, setting.n_clients, "share") >= setting.n_clients:
            raise OptionError(f"share must leave an honest client; got {share:g} of {setting.n_clients}.")
    for attack in attacks:
        find_second_attack(attack)
    return [
        {**vars(setting), "rounds": n_rounds, "attack": attack, "share": share, "x": share, "seed": int(seed)}
        for setting, seed in product(dict.fromkeys(settings), dict.fromkeys(seeds))
        for share, attack in product(dict.fromkeys(map(float, shares)), dict.fromkeys(attacks))
    ]


def second_trial(job: Job) -> list[Row]:
    """Attack one federation and measure the answer after each message, beside that of the honest clients alone."""
    seed, rounds, share = int(job["seed"]), int(job["rounds"]), float(job["share"])
    setting = Setting(**{name: job[name] for name in vars(Setting())})  # type: ignore[arg-type]
    faced = find_second_attack(str(job["attack"]))(_drawn(setting, seed), share, random_state=seed)
    alone, _, spent = attempt(partial(_alone, setting, seed, share, rounds))
    truth = faced.federation.mixing
    honest = np.nan if alone is None else recovery_error(alone.mixing, truth).relative
    rows, result = [], None
    for number, line in enumerate(lines_of_rounds(rounds)):
        work = partial(_first, faced, setting, seed) if number == 0 else partial(_next, faced, result)
        result, status, seconds = attempt(work)
        numbers = (np.nan,) * 5 if result is None else _numbers(result, faced)
        rows.append(result_row(line, numbers, honest, seconds, status))
    last = (np.nan,) * 5 if alone is None else (honest, recovery_error(alone.mixing, truth).frobenius, 0.0, 1.0, 0.0)
    return [*rows, result_row(HONEST, last, honest, spent, "ok")]


def run_second(
    settings: Sequence[Setting],
    *,
    path: Path,
    attacks: Sequence[str] = tuple(SECOND_ATTACKS),
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = range(10),
    rounds: int = 2,
    n_jobs: int | None = None,
    progress: bool = False,
) -> list[Row]:
    """Run a study, or what is missing from an earlier run into the same file, and return its rows.

    settings, attacks, shares, seeds, rounds : as in `second_jobs`. path : the CSV file of rows. n_jobs, progress : as
    in `fedica.simulate.grid.run_grid`.
    """
    jobs = second_jobs(settings, attacks=attacks, shares=shares, seeds=seeds, rounds=rounds)
    lines = (*lines_of_rounds(rounds), HONEST)
    return run_grid(jobs, second_trial, path, lines=lines, n_jobs=n_jobs, progress=progress)


@lru_cache(maxsize=2)
def _drawn(setting: Setting, seed: int) -> Federation:
    return draw_data(setting, seed)


@lru_cache(maxsize=2)
def _sent(setting: Setting, seed: int) -> tuple[Contribution | None, ...]:
    """Return the honest first messages; none of a client whose few samples do not span its components."""
    clients = _drawn(setting, seed).clients
    return tuple(_fit(setting, seed, c.X, c.name, c.components.size) for c in clients)


def _fit(setting: Setting, seed: int, *client: object) -> Contribution | None:
    try:
        return fit_client(setting, seed, *client)  # type: ignore[arg-type]
    except DataError:
        return None


@lru_cache(maxsize=4)
def _together(setting: Setting, seed: int) -> Aggregate:
    """Return the answer of one message where nobody attacks."""
    return aggregate([one for one in _sent(setting, seed) if one is not None], setting.n_components)


@lru_cache(maxsize=8)
def _alone(setting: Setting, seed: int, share: float, rounds: int) -> Aggregate:
    """Return the last answer of the honest clients alone."""
    faced = find_second_attack("extreme-scores")(_drawn(setting, seed), share, random_state=seed)
    honest = np.flatnonzero(faced.honest).tolist()
    sent = [_sent(setting, seed)[k] for k in honest]
    result = aggregate([one for one in sent if one is not None], setting.n_components)
    for _ in range(rounds - 1):
        result = refine(result, [faced.scores(k, result) for k in honest])
    return result


def _first(faced: AttackedData, setting: Setting, seed: int) -> Aggregate:
    """Return the answer of one message under attack."""
    if not faced.attack.both:
        return _together(setting, seed)
    clients, honest = faced.federation.clients, _sent(setting, seed)

    def fit(X: np.ndarray, name: str) -> Contribution:
        return fit_client(setting, seed, X, name, setting.n_components)

    sent = [honest[k] if faced.honest[k] else faced.contribution(k, fit) for k in range(len(clients))]
    return aggregate([one for one in sent if one is not None], setting.n_components, on_bad="reject")


def _next(faced: AttackedData, result: Aggregate | None) -> Aggregate:
    """Return the answer of one more message."""
    if result is None:
        raise DataError("there is no answer to refine.")
    return refine(result, [faced.scores(k, result) for k in range(faced.honest.size)], on_bad="reject")


def _numbers(result: Aggregate, faced: AttackedData) -> tuple[float, ...]:
    """Return both errors, not a number for what is misclustered, and the shares of attackers and honest left out."""
    error = recovery_error(result.mixing, faced.federation.mixing)
    if result.refinement is not None:
        counted = set(result.refinement.counted)
    else:
        counted = {c.name for c in faced.federation.clients} - set(
            result.trust.named("outlying") if result.trust else ()
        )
    out = np.array([client.name not in counted for client in faced.federation.clients])
    recall = 1.0 if faced.honest.all() else float(out[~faced.honest].mean())
    return error.relative, error.frobenius, np.nan, recall, float(out[faced.honest].mean())

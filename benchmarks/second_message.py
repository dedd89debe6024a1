"""Measure what a second message brings: error beside pooled FastICA and consensus, and under attack.

``python benchmarks/second_message.py`` prints two tables of medians; ``--quick`` for a look at small federations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from scipy.linalg import expm
from seeds import parallel, table

from fedica import Aggregate, Contribution, LocalICA, Scores, aggregate, refine, score
from fedica.arrays import Array
from fedica.errors import DataError
from fedica.evaluate import recovery_error
from fedica.simulate import federation
from fedica.simulate.mixing import random_mixing

R = 10
LAWS = ("laplace", "uniform", "bernoulli-gaussian")
SIZES = ((30, 2000), (100, 200), (200, 100), (500, 50))
"""Clients, and samples of each."""
CONDITIONS = (1.0, 5.0, 30.0)
SHARES = (0.1, 0.2, 0.3, 0.4)
ATTACKED = ((30, 2000), (100, 200))
INFLATED = 10**6


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="federations of each cell")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one seed, the smaller federations")
    parser.add_argument("--only", choices=("accuracy", "attacks"))
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + (1 if options.quick else options.seeds))
    sizes = SIZES[:2] if options.quick else SIZES
    if options.only != "attacks":
        accuracy(sizes, seeds, options.jobs)
    if options.only != "accuracy":
        print(attacks(ATTACKED[:1] if options.quick else ATTACKED, seeds, options.jobs))


def accuracy(sizes: Sequence[tuple[int, int]], seeds: range, jobs: int) -> None:
    """Print errors without an attack, row by row, as medians over seeds of ratios within one federation."""
    heads = ("consensus", "pooled", "two / pooled", "three / pooled", "two / consensus", "three / consensus")
    print(table(("clients x samples", "sources", "condition", *heads), []), end="", flush=True)
    for size, law, condition in product(sizes, LAWS, CONDITIONS):
        errors = parallel(_errors, [(law, size, condition, seed) for seed in seeds], jobs)
        first, second, third, pooled = np.array(errors).T
        ratios = (second / pooled, third / pooled, second / first, third / first)
        numbers = [f"{np.median(first):.4f}", f"{np.median(pooled):.4f}", *(f"{np.median(x):.2f}" for x in ratios)]
        row = (f"{size[0]} x {size[1]}", law, f"{condition:g}", *numbers)
        print("| " + " | ".join(row) + " |", flush=True)


def _errors(job: tuple[str, tuple[int, int], float, int]) -> list[float]:
    """Error of consensus, after a second and after a third message, and of pooled FastICA."""
    data, truth = _draw(*job)
    sent = [_fit(X, name) for name, X in data.items()]
    first = aggregate([message for message in sent if message is not None], R)
    second = refine(first, [score(X, first, client=name) for name, X in data.items()])
    third = refine(second, [score(X, second, client=name) for name, X in data.items()])
    pooled = LocalICA(R, tol=1e-8, random_state=0).fit(np.concatenate([X - X.mean(axis=0) for X in data.values()]))
    found = (first.mixing, second.mixing, third.mixing, pooled.atoms_)
    return [recovery_error(mixing, truth).relative for mixing in found]


def _draw(law: str, size: tuple[int, int], condition: float, seed: int) -> tuple[dict[str, Array], Array]:
    fed = federation(size[0], R, n_samples=size[1], law=law, condition=condition, random_state=seed)
    return {client.name: client.X for client in fed.clients}, fed.mixing


def _fit(X: Array, name: str) -> Contribution | None:
    """Return a first message; none of a client whose few samples do not span the components."""
    try:
        return LocalICA(R, random_state=0).fit(X).contribution(name)
    except DataError:
        return None


@dataclass(frozen=True)
class Attack:
    """What corrupted clients do: their data in both messages, and what they change in each."""

    turn: Callable[[Array], Array] = lambda mixing: mixing  # from the true mixing matrix to that of their data
    samples: int = 1  # their declared samples are so many times the true ones
    lie: Callable[[Scores], Scores] = lambda scores: scores
    honest_first: bool = False  # whether their first message is that of honest data


def _common_turn(degrees: float, mixing: Array) -> Array:
    """Every component turned by about so many degrees in the coordinates of the others."""
    skew = np.random.default_rng(0).standard_normal((R, R))
    return mixing @ expm(np.radians(degrees) * (skew - skew.T) / np.sqrt(2 * (R - 1)))


def _one_plane(degrees: float, mixing: Array) -> Array:
    skew = np.zeros((R, R))
    skew[0, 1] = np.radians(degrees)
    return mixing @ expm(skew - skew.T)


def _other_basis(mixing: Array) -> Array:
    return random_mixing(*mixing.shape, condition=5.0, rng=np.random.default_rng(1))


def _extremes(scores: Scores) -> Scores:
    ones = np.ones((R, R))
    return replace(scores, covariance=1e12 * ones, products=1e6 * ones, slopes=np.ones(R), n_samples=10**12)


ATTACKS = {
    **{f"common turn of {a} degrees": Attack(partial(_common_turn, float(a))) for a in (5, 10, 20)},
    **{
        f"common turn of {a} degrees, second message alone": Attack(partial(_common_turn, float(a)), honest_first=True)
        for a in (5, 10, 20)
    },
    "statistics of another basis, second message alone": Attack(_other_basis, honest_first=True),
    "another basis": Attack(_other_basis),
    "inflated samples, turn of 10 degrees": Attack(partial(_common_turn, 10.0), samples=INFLATED),
    "extremes, second message alone": Attack(lie=_extremes, honest_first=True),
    "one plane turned by 20 degrees": Attack(partial(_one_plane, 20.0)),
}


def attacks(sizes: Sequence[tuple[int, int]], seeds: range, jobs: int) -> str:
    """Errors under attack, Laplace, condition 5: medians of ratios to honest clients alone and to consensus."""
    cells = list(product(sizes, seeds))
    found = parallel(_attacked, cells, jobs, "attacks")
    rows = []
    for size in sizes:
        own = [errors for (one, _), errors in zip(cells, found, strict=True) if one == size]
        for name, share in product(ATTACKS, SHARES):
            first, second, honest = np.array([errors[name, share] for errors in own]).T
            numbers = (f"{np.median(first):.4f}", *(f"{np.median(second / x):.2f}" for x in (honest, first)))
            rows.append([f"{size[0]} x {size[1]}", name, f"{share:.0%}", *numbers])
    heads = ("consensus", "two / honest alone", "two / consensus")
    return table(("clients x samples", "attack", "share", *heads), rows)


def _attacked(job: tuple[tuple[int, int], int]) -> dict[tuple[str, float], tuple[float, float, float]]:
    """Of each attack and share the error of consensus, after a second message, and so with honest clients alone."""
    size, seed = job
    data, truth = _draw("laplace", size, 5.0, seed)
    sent = {name: _fit(X, name) for name, X in data.items()}
    turned = {name: _turned(attack, data, truth) for name, attack in ATTACKS.items()}
    found = {}
    for (name, attack), share in product(ATTACKS.items(), SHARES):
        bad, honest = np.split(np.array(list(data)), [round(share * size[0])])
        wrong = {client: turned[name][client] for client in bad}
        messages = [sent[c] if attack.honest_first else _loud(_fit(wrong[c], c), attack) for c in bad]
        first = aggregate([*messages, *(sent[c] for c in honest)], R)
        lies = [attack.lie(_loud(score(X, first, client=c), attack)) for c, X in wrong.items()]
        second = refine(first, [*lies, *_scores(data, honest, first)])
        alone = aggregate([sent[c] for c in honest], R)
        alone = refine(alone, _scores(data, honest, alone))
        found[name, share] = tuple(recovery_error(x.mixing, truth).relative for x in (first, second, alone))
    return found


def _turned(attack: Attack, data: dict[str, Array], truth: Array) -> dict[str, Array]:
    back = np.linalg.pinv(truth).T @ attack.turn(truth).T
    return {name: X @ back for name, X in data.items()}


def _loud(message: Contribution | Scores, attack: Attack) -> Contribution | Scores:
    return replace(message, n_samples=attack.samples * message.n_samples)


def _scores(data: dict[str, Array], clients: Sequence[str], result: Aggregate) -> list[Scores]:
    return [score(data[client], result, client=client) for client in clients]


if __name__ == "__main__":
    main()

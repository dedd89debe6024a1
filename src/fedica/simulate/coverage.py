"""Which clients have which components: every component at least once, some more often than others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedica.arrays import Array, IntArray, check_int, check_number
from fedica.errors import OptionError
from fedica.simulate.settings import per_client as values_per_client

SWAPS_PER_ATOM = 10
"""Random exchanges between two clients, per atom: enough to remove the effect of the order of the clients."""


def draw_coverage(
    n_clients: int,
    n_components: int,
    per_client: int | Sequence[int] | None,
    *,
    skew: float,
    rng: np.random.Generator,
) -> tuple[IntArray, ...]:
    """Draw the components of each client, in ascending order.

    per_client : r_k, the number of components of a client; None: all. skew : ratio of the numbers of clients of the
    commonest component (0) and the rarest (r - 1), geometric in between; approximated with integers between 1 and K.
    """
    sizes = _sizes(n_clients, n_components, per_client)
    wanted = component_counts(int(sizes.sum()), n_clients, n_components, skew)
    has = _choose(sizes, wanted, rng)
    _mix(has, SWAPS_PER_ATOM * int(sizes.sum()), rng)
    return tuple(np.flatnonzero(row).astype(np.int64) for row in has)


def component_counts(n_atoms: int, n_clients: int, n_components: int, skew: float) -> IntArray:
    """Split R atoms over r components in geometric proportion: descending counts between 1 and K with sum R."""
    ratio = check_number(skew, "coverage_skew", above=np.nextafter(1, 0))
    weights = ratio ** -np.linspace(0, 1, n_components)
    low, high = 0.0, float(n_clients) * ratio
    for _ in range(200):  # bisection: the sum of the clipped counts rises with the scale
        middle = (low + high) / 2
        low, high = (middle, high) if _clipped(middle, weights, n_clients).sum() < n_atoms else (low, middle)
    exact = _clipped(high, weights, n_clients)
    counts = np.floor(exact + 1e-9).astype(np.int64)
    short = n_atoms - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:short]] += 1  # largest remainders
    return counts


def _clipped(scale: float, weights: Array, n_clients: int) -> Array:
    return np.asarray(np.clip(scale * weights, 1, n_clients))


def _sizes(n_clients: int, n_components: int, per_client: int | Sequence[int] | None) -> IntArray:
    name = "components_per_client"
    values = values_per_client(n_components if per_client is None else per_client, n_clients, name)
    sizes = [check_int(m, name, minimum=1, maximum=n_components) for m in values]
    if sum(sizes) < n_components:
        raise OptionError(
            f"every component must belong to a client: {n_components} components need at least as many atoms; "
            f"got {sum(sizes)} with these {name}. Raise {name}, or the number of clients."
        )
    return np.array(sizes, dtype=np.int64)


def _choose(sizes: IntArray, wanted: IntArray, rng: np.random.Generator) -> Array:
    """Let each client, the largest first, take the components with most places left: (K, r) of 0 and 1.

    Every component is taken: one that nobody took would have most places left.
    """
    has = np.zeros((sizes.size, wanted.size))
    left = wanted.astype(np.float64)
    for k in np.lexsort((rng.random(sizes.size), -sizes)):
        taken = np.lexsort((rng.random(wanted.size), -left))[: sizes[k]]
        has[k, taken] = 1
        left[taken] -= 1
    return has


def _mix(has: Array, n_swaps: int, rng: np.random.Generator) -> None:
    """Let random pairs of clients exchange a component that only one has for one that only the other has."""
    pairs = rng.integers(len(has), size=(n_swaps, 2))
    for one, other in pairs:
        mine, theirs = np.flatnonzero(has[one] > has[other]), np.flatnonzero(has[other] > has[one])
        if mine.size and theirs.size:
            swapped = [rng.choice(mine), rng.choice(theirs)]
            has[one, swapped], has[other, swapped] = has[other, swapped], has[one, swapped].copy()

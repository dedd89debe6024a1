"""Which client sees which components: every component at least once, some more often than others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedica.arrays import Array, IntArray, check_int, check_number
from fedica.errors import OptionError

SWAPS_PER_ATOM = 10
"""Random exchanges between two clients, per atom: enough to forget the order in which the clients chose."""


def draw_coverage(
    n_clients: int,
    n_components: int,
    per_client: int | Sequence[int] | None,
    *,
    skew: float,
    rng: np.random.Generator,
) -> tuple[IntArray, ...]:
    """Draw the components that each client sees, in rising order.

    Parameters
    ----------
    n_clients, n_components : int
        K and r.
    per_client : int or sequence of int, optional
        r_k: how many components a client sees; all, by default.
    skew : float
        How many times as often the commonest component (0) is seen as the rarest (r - 1); geometric in between. It is
        met as nearly as whole numbers, at least one client and at most K clients per component allow.
    rng : Generator
        Where the randomness comes from.

    Returns
    -------
    tuple of ndarray
        For each client the indices of its components.
    """
    sizes = _sizes(n_clients, n_components, per_client)
    wanted = component_counts(int(sizes.sum()), n_clients, n_components, skew)
    sees = _choose(sizes, wanted, rng)
    _mix(sees, SWAPS_PER_ATOM * int(sizes.sum()), rng)
    return tuple(np.flatnonzero(row).astype(np.int64) for row in sees)


def component_counts(n_atoms: int, n_clients: int, n_components: int, skew: float) -> IntArray:
    """Split R atoms over r components in geometric proportion: each between 1 and K, falling, with sum R."""
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
    if per_client is None:
        return np.full(n_clients, n_components, dtype=np.int64)
    if isinstance(per_client, int | np.integer):
        per_client = [int(per_client)] * n_clients
    if len(per_client) != n_clients:
        raise OptionError(
            f"components_per_client must be one number, or one for each of the {n_clients} clients; "
            f"{len(per_client)} came."
        )
    sizes = [check_int(m, "components_per_client", minimum=1, maximum=n_components) for m in per_client]
    if sum(sizes) < n_components:
        raise OptionError(
            f"every component must be seen by a client: {n_components} components need at least as many atoms; "
            f"components_per_client makes {sum(sizes)}. Raise it, or the number of clients."
        )
    return np.array(sizes, dtype=np.int64)


def _choose(sizes: IntArray, wanted: IntArray, rng: np.random.Generator) -> Array:
    """Let each client, the largest first, take the components that are most wanted still. Returns (K, r) of 0 and 1.

    A component that nobody took would still be wanted, and nobody took one wanted less: so everyone is taken.
    """
    sees = np.zeros((sizes.size, wanted.size))
    left = wanted.astype(np.float64)
    for k in np.lexsort((rng.random(sizes.size), -sizes)):
        taken = np.lexsort((rng.random(wanted.size), -left))[: sizes[k]]
        sees[k, taken] = 1
        left[taken] -= 1
    return sees


def _mix(sees: Array, n_swaps: int, rng: np.random.Generator) -> None:
    """Let random pairs of clients exchange a component that only one has for one that only the other has."""
    pairs = rng.integers(len(sees), size=(n_swaps, 2))
    for one, other in pairs:
        mine, theirs = np.flatnonzero(sees[one] > sees[other]), np.flatnonzero(sees[other] > sees[one])
        if mine.size and theirs.size:
            swapped = [rng.choice(mine), rng.choice(theirs)]
            sees[one, swapped], sees[other, swapped] = sees[other, swapped], sees[one, swapped].copy()

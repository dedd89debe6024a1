"""How the errors of honest clients are distributed: over clients, over components, and in their tails."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from fedica.arrays import Array, IntArray, pick
from fedica.simulate.streams import stream

LOG_DEVIATION = 0.6
"""Standard deviation of the logarithm of an error level, where levels differ: half of them within a factor of 1.5."""
DEGREES_OF_FREEDOM = 3.0
"""Of Student's t, for heavy tails."""

ERROR_LAWS: Mapping[str, tuple[bool, bool, bool]] = MappingProxyType(
    {
        "equal": (False, False, False),
        "clients": (True, False, False),
        "components": (False, True, False),
        "both": (True, True, False),
        "heavy-tailed": (False, False, True),
    }
)
"""Whether error levels are log-normal over clients; whether they are over components; whether tails are heavy."""


def draw_errors(law: str, k: int, seen: IntArray, n_components: int, *, seed: int, rng: np.random.Generator) -> Array:
    """Draw the errors of client k: (r, r_k), leakage from each source (row) into each atom (column).

    Parameters
    ----------
    law : str
        A name of `ERROR_LAWS`. Errors have variance one where levels are equal and where tails are heavy; log-normal
        levels have median one.
    k : int
        The client.
    seen : ndarray of shape (r_k,)
        The components that its atoms are of.
    n_components : int
        r.
    seed : int
        Of the federation: the levels of components are the same at all clients.
    rng : Generator
        Of the client.
    """
    levels = error_levels(law, k, seen, n_components, seed=seed)
    errors = rng.standard_normal((n_components, seen.size)) * levels
    if ERROR_LAWS[law][2]:  # one chi-square variable per atom: a multivariate t, scaled to variance one
        chi_square = stream(seed, "tails", k).chisquare(DEGREES_OF_FREEDOM, seen.size)
        errors *= np.sqrt((DEGREES_OF_FREEDOM - 2) / chi_square)
    return errors


def error_levels(law: str, k: int, seen: IntArray, n_components: int, *, seed: int) -> Array:
    """Return the true standard deviations of client k's errors, as `draw_errors` draws them: (r_k,), one per atom."""
    over_clients, over_components, _ = pick(law, "error_law", ERROR_LAWS)
    levels = np.ones(seen.size)
    if over_clients:
        levels *= np.exp(LOG_DEVIATION * stream(seed, "level of a client", k).standard_normal())
    if over_components:
        levels *= np.exp(LOG_DEVIATION * stream(seed, "levels of components").standard_normal(n_components))[seen]
    return levels

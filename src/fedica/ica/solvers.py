"""The solvers by name, with what each of them needs and can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedica.errors import OptionError
from fedica.ica.adapters import fastica, picard
from fedica.ica.deflation import INITS, deflation
from fedica.ica.fast import fast
from fedica.ica.kurtosis import kurtosis
from fedica.ica.l4 import l4
from fedica.ica.rotation import Rotation

MAX_WHOLE_BYTES = 2**30
"""Data on disk or on a cluster is loaded whole up to this size, for a solver that needs it so."""

Solve = Callable[..., Rotation]
"""Every solver is called as ``solve(data, n_init=, tol=, max_iter=, rng=)``; one with `inits` takes ``init=`` too.

data : (n, r), white; of solvers with ``on_moments`` also their fourth moments, for any r. n_init : random starts, the
best of which is kept. tol : angle, in radians, by which a column may still move at the end. max_iter : iterations of
each start. rng : draws the starts and the subsamples.
"""


@dataclass(frozen=True)
class Solver:
    """A solver, its defaults and its needs.

    Parameters
    ----------
    solve : callable
        The function.
    n_init : int
        Default number of starts.
    tol : float or None
        Default tolerance; ``None``: it depends on the data.
    finds_subgaussian : bool
        Whether it separates sources of negative excess kurtosis.
    inits : tuple of str
        Names of its initialisations, if there is a choice; the first is the default.
    on_moments : str or None
        Name of the solver that replaces it where only fourth moments are kept of the data.
    holds_all : bool
        Whether it needs all whitened data in memory at once.
    """

    solve: Solve
    n_init: int
    tol: float | None
    finds_subgaussian: bool
    inits: tuple[str, ...] = ()
    on_moments: str | None = None
    holds_all: bool = False


SOLVERS = {
    "auto": Solver(fast, n_init=1, tol=None, finds_subgaussian=True, on_moments="kurtosis"),
    "l4": Solver(l4, n_init=3, tol=1e-10, finds_subgaussian=False, on_moments="l4"),
    "kurtosis": Solver(kurtosis, n_init=3, tol=1e-10, finds_subgaussian=True, on_moments="kurtosis"),
    "deflation": Solver(
        deflation, n_init=3, tol=1e-7, finds_subgaussian=True, inits=tuple(INITS), on_moments="deflation"
    ),
    "fastica": Solver(fastica, n_init=1, tol=None, finds_subgaussian=True, holds_all=True),
    "picard": Solver(picard, n_init=1, tol=None, finds_subgaussian=True, holds_all=True),
}


def check_fits_memory(name: str, n_samples: int, n_components: int) -> None:
    """Refuse to load data above `MAX_WHOLE_BYTES` for a solver that holds all of it."""
    size = 8 * n_samples * n_components
    if size > MAX_WHOLE_BYTES:
        raise OptionError(
            f"solver={name!r} would hold all whitened data in memory, {size / 1e9:.1f} GB; at most "
            f"{MAX_WHOLE_BYTES / 1e9:.1f} GB are loaded. Use solver='auto', which reads it in blocks."
        )

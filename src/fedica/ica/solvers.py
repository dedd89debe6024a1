"""The solvers by name, with what each needs and can do beside it."""

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
"""Data that lies on disk or on a cluster is loaded whole up to this size, for a solver that cannot do otherwise."""

Solve = Callable[..., Rotation]
"""Every solver is called as ``solve(data, n_init=, tol=, max_iter=, rng=)``, data white; one with `inits` takes
``init=`` too."""


@dataclass(frozen=True)
class Solver:
    """A solver and what is known of it.

    Parameters
    ----------
    solve : callable
        The solver itself.
    n_init : int
        Starts that suit it.
    tol : float or None
        Tolerance that suits it; ``None``: it chooses one for the data at hand.
    finds_subgaussian : bool
        Whether it separates sources of negative excess kurtosis.
    inits : tuple of str
        Names of its initialisations, if there is a choice; the first is the default.
    on_moments : str or None
        Name of the solver that stands in for it where fourth moments are all that is left of the data.
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


def check_fits(name: str, n_samples: int, n_components: int) -> None:
    """Refuse data that is not in memory for a solver that would load it, when that is large."""
    size = 8 * n_samples * n_components
    if size > MAX_WHOLE_BYTES:
        raise OptionError(
            f"solver={name!r} would hold all whitened data in memory, {size / 1e9:.1f} GB; data that is not there "
            f"already may take {MAX_WHOLE_BYTES / 1e9:.1f} GB. Use solver='auto', which reads it in blocks."
        )

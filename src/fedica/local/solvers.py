"""The solvers by name, with what each needs and can do beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedica.local.adapters import fastica, picard
from fedica.local.deflation import INITS, deflation
from fedica.local.fast import fast
from fedica.local.l4 import l4
from fedica.local.rotation import Rotation

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
    """

    solve: Solve
    n_init: int
    tol: float | None
    finds_subgaussian: bool
    inits: tuple[str, ...] = ()


SOLVERS = {
    "auto": Solver(fast, n_init=1, tol=None, finds_subgaussian=True),
    "l4": Solver(l4, n_init=3, tol=1e-10, finds_subgaussian=False),
    "deflation": Solver(deflation, n_init=3, tol=1e-7, finds_subgaussian=True, inits=tuple(INITS)),
    "fastica": Solver(fastica, n_init=1, tol=None, finds_subgaussian=True),
    "picard": Solver(picard, n_init=1, tol=None, finds_subgaussian=True),
}

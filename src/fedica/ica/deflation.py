"""Deflation: one column at a time, each followed from a start in the complement of those already found.

``q <- normalise(E[z (q'z)^3] - 3q)`` climbs the excess kurtosis of q'z in absolute value, so that sub-Gaussian sources
are found too. Two ways to start are known to suffice with about r^2 samples: the method of moments [1] and random
directions [2].

References
----------
.. [1] A. Auddy and M. Yuan, "Large dimensional independent component analysis", 2023.
.. [2] X. Bing, X. Jin and Y. Zhang, "Optimal vintage factor analysis with deflation varimax", 2025.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from fedica.arrays import Array, polar, unit
from fedica.errors import OptionError
from fedica.ica.moments import FourthMoments, gather_moments, moments_if_cheaper
from fedica.ica.one_unit import Gradient, follow, gradient_over
from fedica.ica.rotation import Rotation, convergence_warning
from fedica.ica.whitened import Whitened

MAX_MOMENTS_START = 100
"""Above this many components the fourth moments that the method-of-moments start needs exceed 200 MB."""
MAX_SLICES = 400
"""At most this many random slices of the fourth cumulant are compared (the theory asks for about r^2)."""
ALREADY_FOUND = np.sqrt(0.5)
"""A direction with a larger absolute cosine to a column found before has run into that column."""


Starts = Callable[[Array, int], Array]
"""From the complement of what was found, (r, m) orthonormal, and a number s, to at most s unit directions in it."""


def deflation(
    data: Whitened | FourthMoments,
    *,
    n_init: int,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    init: str = "moments",
) -> Rotation:
    """Find the stationary directions of the excess kurtosis one at a time. data : (n, r), white.

    Samples are read once where r <= `MAX_COMPONENTS_ON_MOMENTS`. The ``n_init`` starts of each column, by "moments" or
    "random", run side by side; the largest absolute excess kurtosis is kept. ``max_iter`` counts for each column.
    """
    r = data.n_components
    moments = moments_if_cheaper(data)
    if moments is not None:
        gradient: Gradient = moments.gradient
    else:
        assert isinstance(data, Whitened)
        gradient = gradient_over(data.hold())
        moments = gather_moments(data) if init == "moments" and _moments_fit(r) else None
    starts = INITS[init](moments, rng)
    found = np.empty((r, 0))
    n_iter, worst = 0, 0.0
    for _ in range(r):
        complement = np.eye(r) if not found.size else null_space(found.T)
        column = _next_column(gradient, starts(complement, n_init), found, complement, tol=tol, max_iter=max_iter)
        found = np.column_stack([found, column.direction])
        n_iter, worst = max(n_iter, column.n_iter), max(worst, column.step)
    warned = () if worst <= tol else (convergence_warning("deflation", worst, tol, max_iter),)
    return Rotation(polar(found), n_iter, worst, worst <= tol, warned)


@dataclass(frozen=True, eq=False)
class _Column:
    """One column that was found: its direction (r,), iterations, and last change in radians."""

    direction: Array
    n_iter: int
    step: float


def _next_column(
    gradient: Gradient, starts: Array, found: Array, complement: Array, *, tol: float, max_iter: int
) -> _Column:
    """Follow the starts on the whole sphere; if all run into columns found before, follow them in the complement."""
    ends = follow(gradient, starts, tol=tol, max_iter=max_iter)
    fresh = np.all(np.abs(found.T @ ends.directions) < ALREADY_FOUND, axis=0)
    if not fresh.any():
        ends = follow(gradient, starts, tol=tol, max_iter=max_iter, within=complement)
        fresh = np.ones(ends.excess.size, dtype=np.bool_)
    best = int(np.argmax(np.where(fresh, np.abs(ends.excess), -1.0)))
    return _Column(ends.directions[:, best], ends.n_iter, float(ends.steps[best]))


def _random_starts(_: FourthMoments | None, rng: np.random.Generator) -> Starts:
    """Directions uniform on the sphere of the complement."""

    def starts(complement: Array, n_starts: int) -> Array:
        return unit(complement @ rng.standard_normal((complement.shape[1], n_starts)))

    return starts


def _moment_starts(moments: FourthMoments | None, rng: np.random.Generator) -> Starts:
    """Leading eigenvectors of those random slices of the fourth cumulant that have the largest gap.

    ``M(G) = m4(G) - (G + G') - tr(G) I`` is a combination of the q q' of the sources; where one source weighs much more
    than the others its leading eigenvector is near that source.
    """
    assert moments is not None
    r = moments.n_components
    raw = rng.standard_normal((min(r * r, MAX_SLICES), r, r))
    symmetric = (raw + np.swapaxes(raw, 1, 2)) / 2
    trace = np.trace(symmetric, axis1=1, axis2=2)
    slices = moments.contract(symmetric) - 2 * symmetric - trace[:, None, None] * np.eye(r)

    def starts(complement: Array, n_starts: int) -> Array:
        if complement.shape[1] == 1:
            return complement
        values, vectors = np.linalg.eigh(complement.T @ slices @ complement)
        size = np.sort(np.abs(values), axis=1)
        widest = np.argsort(size[:, -2] - size[:, -1], kind="stable")[:n_starts]
        leading = np.argmax(np.abs(values[widest]), axis=1)
        return np.asarray(complement @ vectors[widest, :, leading].T)

    return starts


INITS = {"moments": _moment_starts, "random": _random_starts}


def _moments_fit(r: int) -> bool:
    """Refuse the method-of-moments start where its fourth moments would not fit."""
    if r > MAX_MOMENTS_START:
        raise OptionError(
            f"init='moments' keeps all fourth moments and takes at most {MAX_MOMENTS_START} components; got {r}. "
            "Use init='random' or another solver."
        )
    return True

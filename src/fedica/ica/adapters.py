"""Solvers of other libraries, run on whitened data: scikit-learn's FastICA and picard."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fedica.arrays import Array, polar
from fedica.errors import MissingExtraError
from fedica.ica.fast import negentropy
from fedica.ica.rotation import Rotation, random_rotation
from fedica.ica.whitened import Whitened

Run = Callable[[Array, Array], tuple[Array, int, bool]]
"""From Z (n, r) and a start (r, r) to the rotation, its iterations, and whether it converged."""


def fastica(data: Whitened, *, n_init: int, tol: float | None, max_iter: int, rng: np.random.Generator) -> Rotation:
    """Run scikit-learn's FastICA (parallel, logcosh) on data (n, r) that is white.

    tol : as everywhere an angle in radians; scikit-learn compares cosines, so it gets tol^2 / 2. ``None``: its default.
    """
    FastICA = import_module("sklearn.decomposition").FastICA  # imported on demand: it loads a hundred modules
    sklearn_tol = 1e-4 if tol is None else tol * tol / 2

    def run(Z: Array, start: Array) -> tuple[Array, int, bool]:
        solver = FastICA(whiten=False, fun="logcosh", tol=sklearn_tol, max_iter=max_iter, w_init=start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solver.fit(Z)
        return np.asarray(solver.components_).T, int(solver.n_iter_), int(solver.n_iter_) < max_iter

    return _best_of("fastica", run, data, n_init=n_init, tol=np.sqrt(2 * sklearn_tol), max_iter=max_iter, rng=rng)


def picard(data: Whitened, *, n_init: int, tol: float | None, max_iter: int, rng: np.random.Generator) -> Rotation:
    """Run picard (orthogonal, extended: sources of either sign of kurtosis) on data (n, r) that is white.

    tol : picard compares the largest entry of its gradient, which near the end is of the size of the angle that is
    left. ``None``: its default.
    """
    try:
        solve = import_module("picard").picard
    except ImportError as error:
        raise MissingExtraError("solver='picard' needs picard: pip install 'fedica[picard]'.") from error
    picard_tol = 1e-7 if tol is None else tol

    def run(Z: Array, start: Array) -> tuple[Array, int, bool]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, W, _, n_iter = solve(
                Z.T,
                whiten=False,
                centering=False,
                ortho=True,
                extended=True,
                w_init=start.T,
                tol=picard_tol,
                max_iter=max_iter,
                return_n_iter=True,
            )
        converged = not any("converge" in str(w.message) for w in caught)
        return np.asarray(W).T, max(int(n_iter), 1), converged

    return _best_of("picard", run, data, n_init=n_init, tol=picard_tol, max_iter=max_iter, rng=rng)


def _best_of(
    name: str, run: Run, data: Whitened, *, n_init: int, tol: float, max_iter: int, rng: np.random.Generator
) -> Rotation:
    """Run from n_init random starts and keep the components that are farthest from Gaussian."""
    Z = data.array()
    runs = [run(Z, random_rotation(data.n_components, rng)) for _ in range(n_init)]
    best = runs[0] if n_init == 1 else max(runs, key=lambda result: negentropy(data, polar(result[0])))
    matrix, n_iter, converged = best
    if converged:
        return Rotation(polar(matrix), n_iter, tol, converged)
    warning = ConvergenceWarning(
        f"{name} did not reach tol {tol:.1e} within max_iter={max_iter} iterations; raise max_iter or tol."
    )
    return Rotation(polar(matrix), n_iter, np.inf, converged, (warning,))

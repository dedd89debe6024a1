"""LocalICA: what a client runs, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fedica.arrays import Array, RandomState, check_choice, check_int, check_number, fix_signs, generator, pick, unit
from fedica.errors import DataError, OptionError
from fedica.local.blocks import ArrayBlocks, Blocks
from fedica.local.rotation import Rotation
from fedica.local.solvers import SOLVERS, Solve, Solver
from fedica.threads import threads_for_blocks
from fedica.local.whitened import Whitened
from fedica.local.whitening import RANK_TOL, RANK_TOL_SINGLE, Whitening, whiten
from fedica.records import INDEPENDENCE, MIXING, Contribution


class LocalICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Find the atoms of one client's data: ``X ~ S @ mixing_.T + mean_`` with independent sources S.

    Parameters
    ----------
    n_components : int, optional
        How many components; ``None``: the numerical rank of the data.
    solver : {"auto", "l4", "deflation", "fastica", "picard"}
        How the rotation is found. "auto": the fast and accurate default, FastICA (logcosh) brought near on subsamples
        and finished on all data. "l4": Eq. (2) of the paper, super-Gaussian sources only; it warns when it meets
        others. "deflation": one column at a time. "fastica": scikit-learn's. "picard": needs ``fedica[picard]``.
    independence : {"samples", "features"}
        Over what the sources are independent. "samples": atoms are columns of the mixing matrix (EEG scalp maps).
        "features", spatial ICA: atoms are independent maps over features (fMRI networks, image parts); ``mixing`` is
        then ignored.
    mixing : {"general", "orthogonal"}
        What is known of the mixing matrix; "orthogonal": its columns are orthonormal.
    n_init : int, optional
        Starts, of which the best is kept; ``None``: as many as suit the solver.
    tol : float, optional
        Largest angle, in radians, by which a component may still move at the end; ``None``: what suits the solver
        (1e-10 for "l4", 1e-7 for "deflation", a small share of the sampling error for "auto").
    max_iter : int
        Iterations of the solver.
    init : {"moments", "random"}, optional
        How "deflation" starts each column; ``None``: "moments". Only for that solver.
    random_state : int, RandomState, Generator or None
        Draws starts and subsamples.

    Attributes
    ----------
    atoms_ : ndarray of shape (n_features, n_components)
        Unit columns: ``mixing_`` scaled to one. The largest entry of each is positive; they are sorted by the variance
        of the data that they explain, largest first.
    mixing_ : ndarray of shape (n_features, n_components)
        The mixing matrix. For general mixing the sources have variance one.
    components_ : ndarray of shape (n_components, n_features)
        Its pseudo-inverse: ``S = (X - mean_) @ components_.T``.
    mean_ : ndarray of shape (n_features,)
        Mean of each feature.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the data that each component explains.
    whitening_ : Whitening
        The leading directions of the data, its rank and its constant features.
    n_iter_ : int
        Iterations that the solver took.
    n_samples_ : int
        How many samples were seen.
    n_features_in_ : int
        d.
    feature_names_in_ : ndarray of str
        Names of the features, if the data had them.

    Examples
    --------
    >>> import numpy as np
    >>> from fedica.local import LocalICA
    >>> rng = np.random.default_rng(0)
    >>> sources = rng.laplace(size=(2000, 3))
    >>> mixing = rng.standard_normal((5, 3))
    >>> local = LocalICA(n_components=3, random_state=0).fit(sources @ mixing.T)
    >>> local.atoms_.shape
    (5, 3)
    >>> local.contribution("client-07")
    Contribution('client-07': 3 atoms of 5 features, 2000 samples)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        solver: str = "auto",
        independence: str = "samples",
        mixing: str = "general",
        n_init: int | None = None,
        tol: float | None = None,
        max_iter: int = 500,
        init: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.independence = independence
        self.mixing = mixing
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.init = init
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Find the atoms of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data: an array, a memory-mapped array (never loaded whole when it has more samples than features), a
            DataFrame. Solved in float64 whatever its dtype.
        y : ignored
            There for scikit-learn.

        Returns
        -------
        self : LocalICA
            Fitted.

        Raises
        ------
        DataError
            If X is not finite, does not vary, or has a rank below ``n_components``.
        OptionError
            If an argument has an unknown name or a value out of range.
        """
        solve, options = self._check_options()
        data = self._check_data(X, reset=True)
        names = tuple(map(str, self.feature_names_in_)) if hasattr(self, "feature_names_in_") else None
        single = data.dtype.kind == "f" and data.dtype.itemsize < 8
        blocks = ArrayBlocks(data)
        with threads_for_blocks():
            whitening, warning = whiten(
                blocks, self.n_components, names=names, rank_tol=RANK_TOL_SINGLE if single else RANK_TOL
            )
            if warning is not None:
                warnings.warn(warning, UserWarning, stacklevel=2)
            rotation = solve(self._white(blocks, whitening), **options)
        for issue in rotation.warnings:
            warnings.warn(issue, stacklevel=2)
        return self._set_result(whitening, rotation)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Recover the sources, ``(X - mean_) @ components_.T``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data with the features that were fitted.

        Returns
        -------
        S : ndarray of shape (n_samples, n_components)
            The sources; float32 for float32 data.
        """
        check_is_fitted(self)
        data = self._check_data(X, reset=False)
        dtype = np.float32 if data.dtype == np.float32 else np.float64
        sources = np.empty((data.shape[0], self.components_.shape[0]), dtype=dtype)
        start = 0
        for block in ArrayBlocks(data):
            centred = np.subtract(block, self.mean_, dtype=np.float64)
            sources[start : start + block.shape[0]] = centred @ self.components_.T
            start += block.shape[0]
        return sources

    def inverse_transform(self, S: ArrayLike) -> NDArray[Any]:
        """Mix sources back, ``S @ mixing_.T + mean_``.

        Parameters
        ----------
        S : array-like of shape (n_samples, n_components)
            Sources.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data that they mix to.
        """
        check_is_fitted(self)
        sources = np.asarray(S)
        if sources.ndim != 2 or sources.shape[1] != self.mixing_.shape[1]:
            raise DataError(
                f"sources must have shape (n_samples, {self.mixing_.shape[1]}), one column a component; "
                f"{sources.shape} came."
            )
        dtype = np.float32 if sources.dtype == np.float32 else np.float64
        return np.asarray(sources @ self.mixing_.T + self.mean_, dtype=dtype)

    def contribution(
        self,
        client: str,
        *,
        features: Sequence[str] | None = None,
        study: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Contribution:
        """Pack the atoms for the server.

        Parameters
        ----------
        client : str
            Name of this client.
        features : sequence of str, optional
            Names of the features; by default those that the data had.
        study : str, optional
            Id of the study.
        extra : mapping of str to str, optional
            Whatever else is to travel along.

        Returns
        -------
        contribution : Contribution
            All that leaves the client.
        """
        check_is_fitted(self)
        if features is None and hasattr(self, "feature_names_in_"):
            features = [str(name) for name in self.feature_names_in_]
        return Contribution(
            client,
            self.atoms_,
            self.n_samples_,
            features=features,
            solver=self.solver,
            independence=self.independence,
            mixing=self.mixing,
            study=study,
            extra={} if extra is None else extra,
        )

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_options(self) -> tuple[Solve, dict[str, Any]]:
        """Check every argument; return the solver and what it is called with."""
        solver: Solver = pick(self.solver, "solver", SOLVERS)
        check_choice(self.independence, "independence", INDEPENDENCE)
        check_choice(self.mixing, "mixing", MIXING)
        if self.n_components is not None:
            check_int(self.n_components, "n_components", minimum=1)
        options: dict[str, Any] = {
            "n_init": solver.n_init if self.n_init is None else check_int(self.n_init, "n_init", minimum=1),
            "tol": solver.tol if self.tol is None else check_number(self.tol, "tol", above=0),
            "max_iter": check_int(self.max_iter, "max_iter", minimum=1),
            "rng": generator(self.random_state),
        }
        if self.init is not None and not solver.inits:
            raise OptionError(f"init is a choice of solver='deflation' alone; solver={self.solver!r} takes none.")
        if solver.inits:
            options["init"] = solver.inits[0] if self.init is None else check_choice(self.init, "init", solver.inits)
        return solver.solve, options

    def _check_data(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        """Return X as a real array; integers and single precision stay as they are, and become float64 by the block."""
        try:
            return np.asarray(
                validate_data(
                    self,
                    X,
                    reset=reset,
                    dtype="numeric",
                    ensure_all_finite=not reset,  # fit looks for itself in the pass that it makes anyway
                    ensure_min_samples=2 if reset else 1,
                )
            )
        except ValueError as error:
            raise DataError(str(error)) from error

    def _white(self, blocks: Blocks, whitening: Whitening) -> Whitened:
        """Return what is to be rotated: whitened samples, or the rows of V for maps over features."""
        if self.independence == "samples":
            return Whitened(blocks, whitening)
        rows = np.delete(whitening.basis, whitening.constant, axis=0)
        return Whitened(ArrayBlocks(rows * np.sqrt(rows.shape[0])))

    def _set_result(self, whitening: Whitening, rotation: Rotation) -> Self:
        explained = whitening.deviations**2 @ rotation.matrix**2
        order = np.argsort(-explained, kind="stable")
        R = rotation.matrix[:, order]
        if self.independence == "samples" and self.mixing == "general":
            mixing, components = whitening.unwhitener @ R, R.T @ whitening.whitener  # U S R
        else:
            mixing = whitening.basis @ R  # U R, or V R for maps over features
            components = mixing.T
        mixing, signs = fix_signs(mixing)
        self.atoms_: Array = unit(mixing)
        self.mixing_: Array = mixing
        self.components_: Array = components * signs[:, None]
        self.mean_: Array = whitening.mean
        self.explained_variance_: Array = explained[order]
        self.whitening_ = whitening
        self.n_iter_ = rotation.n_iter
        self.n_samples_ = whitening.n_samples
        return self

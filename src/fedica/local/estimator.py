"""LocalICA: what a client runs, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from fedica.arrays import RandomState, check_choice, check_int, check_number, generator, pick
from fedica.blocks import Blocks, is_lazy, rows_of
from fedica.errors import DataError, OptionError
from fedica.ica import (
    SOLVERS,
    FourthMoments,
    MomentStream,
    Solver,
    Whitened,
    Whitening,
    check_fits_memory,
    choose_rank_tol,
    whiten,
    whiten_sums,
)
from fedica.local.fitted import FITTED, FittedICA
from fedica.local.warn_once import warn_once
from fedica.records import INDEPENDENCE, MIXING
from fedica.threads import threads_for_blocks


class LocalICA(FittedICA):
    """Find the atoms of one client's data: ``X ~ S @ mixing_.T + mean_`` with independent sources S.

    Parameters
    ----------
    n_components : int, optional
        How many components; ``None``: the numerical rank of the data.
    solver : {"auto", "l4", "kurtosis", "deflation", "fastica", "picard"}
        How the rotation is found. "auto": the fast and accurate default, FastICA (logcosh) warm-started on subsamples
        and finished on all data. "l4": Eq. (2) of the paper, super-Gaussian sources only; it warns of others.
        "kurtosis": its Newton form, for sources of either kind. "deflation": one column at a time. "fastica":
        scikit-learn's. "picard": needs ``fedica[picard]``. The last two hold all whitened data in memory.
    independence : {"samples", "features"}
        Over what the sources are independent. "samples": atoms are columns of the mixing matrix (EEG scalp maps).
        "features", spatial ICA: atoms are independent maps over features (fMRI networks, image parts); ``mixing`` is
        then ignored.
    mixing : {"general", "orthogonal"}
        What is known of the mixing matrix; "orthogonal": its columns are orthonormal.
    n_init : int, optional
        Starts, of which the best is kept; ``None``: the default of the solver.
    tol : float, optional
        Largest angle, in radians, by which a component may still move at the end; ``None``: the default of the solver
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
    n_passes_ : int
        How often the data was read.
    solver_ : str
        The solver that found the atoms: ``solver``, or what replaces it in `partial_fit`.
    doubts_ : tuple of Doubt
        Pairs of atoms that the data does not tell apart, because both sources are nearly Gaussian: their places in
        ``atoms_``, the standard error in degrees of the angle between them, and the probability that two Gaussian
        sources would seem as different. Solver "auto" only, on more than a few thousand samples; the contribution
        lists these atoms as ``uncertain``.
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

    def fit(self, X: Any, y: object = None) -> Self:
        """Find the atoms of X, reading it a few times over in bounded memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), iterable of blocks, or Dask array
            An array, a memory-mapped array, a DataFrame; a list of blocks of rows, or any object whose ``iter()``
            yields them anew every time; a Dask array (``fedica[dask]``), whose sums are then taken where its chunks
            lie. Solved in float64 whatever its dtype. With fewer samples than features it is loaded whole.
            A recording of MNE, an image or an AnnData: ``fedica.readers.as_table(raw).values``.
        y : ignored
            There for scikit-learn.

        Returns
        -------
        self : LocalICA
            Fitted.

        Raises
        ------
        DataError
            If X is not finite, does not vary, has a rank below ``n_components``, or can be read only once.
        OptionError
            If an argument has an unknown name or a value out of range.

        Notes
        -----
        ``n_passes_`` says how often X was read: once for the scatter; then, with "auto", once for the subsamples (of
        more than a few thousand samples) and as a rule once or twice for Newton steps, on recordings with nearly
        Gaussian sources up to ten times; with the solvers of fourth
        moments once up to 20 components, and above that once for every iteration, unless the whitened data fits 512 MB
        and is held. Rows of an iterable without ``shape`` and chunks of unknown length are counted by one pass more.
        """
        for issue in self._fit(X):
            warn_once(issue, stacklevel=2)
        return self

    def _fit(self, X: Any) -> tuple[Warning, ...]:
        """Fit, and return the warnings: `fit` issues them, a federation adds the client that they are about."""
        solver = self._solver()
        options = self._options(solver)
        blocks = self._read(X)
        if solver.holds_all and not blocks.in_memory:
            check_fits_memory(self.solver, blocks.n_samples, self.n_components or blocks.n_features)
        self.__dict__.pop("_stream", None)
        with threads_for_blocks():
            whitening, warning = whiten(
                blocks, self.n_components, names=self._names(), rank_tol=choose_rank_tol(blocks.dtype)
            )
            white = Whitened(blocks, whitening) if self.independence == "samples" else _maps(whitening)
            rotation = solver.solve(white, **options)
        self._set_result(whitening, rotation, solver=self.solver, n_passes=blocks.n_passes)
        return rotation.warnings if warning is None else (warning, *rotation.warnings)

    def _can_stream(self) -> bool:
        """Whether the solver needs moments alone; an unknown solver is refused by `partial_fit` itself."""
        solver = SOLVERS.get(self.solver)
        return solver is None or solver.on_moments is not None or self.independence == "features"

    @available_if(_can_stream)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Add a block of a stream that is read once; the atoms are those of all blocks so far.

        One pass gathers the second and fourth moments of the features; the blocks are not kept. The atoms are computed
        when they are next accessed. They equal those of `fit` on all rows with ``solver="kurtosis"``, which replaces
        "auto" here, or with "l4" or "deflation" if set. With independence over features the second moments suffice, for
        any solver and any number of features. Solvers that need all data, "fastica" and "picard", have no such method.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The next rows, one or more; at most 100 features (212 MB of moments).
        y : ignored
            There for scikit-learn.

        Returns
        -------
        self : LocalICA
            Fitted to all blocks since the first one. `fit` ends a stream, and the next block begins a new one.

        Raises
        ------
        DataError
            If X is not finite, has other features than the blocks before, or more than 100.
        OptionError
            If an argument has an unknown name or a value out of range.
        """
        solver, fourth = self._solver(), self.independence == "samples"
        self._options(solver)
        stream: MomentStream | None = self.__dict__.get("_stream")
        goes_on = stream is not None and stream.fourth == fourth
        data = self._check_array(X, reset=not goes_on, min_samples=1)
        if stream is None or not goes_on:
            stream = MomentStream(data.shape[1], fourth=fourth)
        stream.add(data)
        self._stream = stream
        for name in FITTED:
            self.__dict__.pop(name, None)
        return self

    _stream: MomentStream

    def __sklearn_is_fitted__(self) -> bool:
        return "atoms_" in self.__dict__ or "_stream" in self.__dict__

    def __getattr__(self, name: str) -> Any:
        """Find the atoms of a stream when a fitted attribute is first accessed."""
        if name == "partial_fit":  # not available: scikit-learn asks by hasattr, a person reads the sentence
            raise AttributeError(
                "partial_fit keeps moments of the samples alone; it takes solver='auto', 'l4', 'kurtosis' or "
                f"'deflation'; got {self.solver!r}. Use one of them, or fit."
            )
        if name not in FITTED or "_stream" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._solve_stream()
        return self.__dict__[name]

    def _solve_stream(self) -> None:
        """Find the atoms from the moments of a stream so far."""
        name, stream = self.solver, self._stream
        whitening, warning = whiten_sums(
            stream.scatter, self.n_components, names=self._names(), rank_tol=choose_rank_tol(stream.dtype)
        )
        if warning is not None:
            warn_once(warning, stacklevel=3)
        if stream.fourth:
            name = self._solver().on_moments or name
            data: Whitened | FourthMoments = stream.whitened(whitening)
        else:
            data = _maps(whitening)
        rotation = SOLVERS[name].solve(data, **self._options(SOLVERS[name]))
        for issue in rotation.warnings:
            warn_once(issue, stacklevel=3)
        self._set_result(whitening, rotation, solver=name, n_passes=1)

    def _solver(self) -> Solver:
        return pick(self.solver, "solver", SOLVERS)

    def _options(self, solver: Solver) -> dict[str, Any]:
        """Check every argument; return those of the solver."""
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
        return options

    def _read(self, X: Any) -> Blocks:
        """Return the data as blocks, wherever it lies."""
        if not is_lazy(X):
            return rows_of(self._check_array(X, reset=True, min_samples=2))
        blocks = rows_of(X)
        if blocks.n_samples < 2 or blocks.n_features < 1:
            raise DataError(
                "data must have at least 2 samples (rows) and 1 feature (column); "
                f"got ({blocks.n_samples}, {blocks.n_features})."
            )
        self.n_features_in_ = blocks.n_features
        self.__dict__.pop("feature_names_in_", None)
        return blocks


def _maps(whitening: Whitening) -> Whitened:
    """Return the matrix whose rotation gives independent maps over features: the rows of V, scaled to be white."""
    rows = np.delete(whitening.basis, whitening.constant, axis=0)
    return Whitened(rows_of(rows * np.sqrt(rows.shape[0])))

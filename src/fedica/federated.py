"""FederatedICA: the whole federation on one machine, as a scikit-learn estimator."""

from __future__ import annotations

import zlib
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fedica.arrays import Array, RandomState, check_choice, generator
from fedica.errors import DataError, InputError
from fedica.local import LocalICA
from fedica.records import Contribution, Rejection
from fedica.server import aggregate
from fedica.server.admit import ON_BAD


class FederatedICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn one mixing matrix from the rows of many clients, each of which only ever shows its atoms.

    Every client's rows are fitted by `LocalICA` on their own; `fedica.aggregate` combines what they find.

    Parameters
    ----------
    n_components : int, optional
        How many components each client fits, and how many there are in the end. ``None``: each client the rank of its
        data, and in the end what the clients agree on.
    solver, independence, mixing : str
        As in `LocalICA`.
    method, affinity, weights : str
        As in `fedica.aggregate`.
    on_bad : {"raise", "reject"}
        What to do when one client's rows cannot be fitted or do not fit the others: stop, or go on without it.
    n_jobs : int, optional
        How many clients are fitted at the same time.
    random_state : int, RandomState, Generator or None
        Seed. What a client finds does not depend on which other clients there are.

    Attributes
    ----------
    mixing_ : ndarray of shape (n_features, n_components)
        The global mixing matrix, unit columns.
    components_ : ndarray of shape (n_components, n_features)
        Its pseudo-inverse: ``S = (X - mean_) @ components_.T``.
    mean_ : ndarray of shape (n_features,)
        Mean of each feature over all rows.
    aggregate_ : Aggregate
        All that the server knows: support and spread of each component, trust of each client, what was left out.
    contributions_ : list of Contribution
        What each client sent.
    rejected_ : tuple of Rejection
        Clients that were left out, and why.
    n_features_in_ : int
        d.
    feature_names_in_ : ndarray of str
        Names of the features, if the data had them.

    Examples
    --------
    >>> import numpy as np
    >>> from fedica import FederatedICA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(6000, 3)) @ rng.standard_normal((3, 4))
    >>> fed = FederatedICA(n_components=3, random_state=0).fit(X, groups=np.arange(6000) % 6)
    >>> fed.mixing_.shape, fed.transform(X).shape
    ((4, 3), (6000, 3))
    >>> fed.aggregate_.support
    array([6, 6, 6])
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        solver: str = "auto",
        independence: str = "samples",
        mixing: str = "general",
        method: str = "consensus",
        affinity: str = "auto",
        weights: str | None = None,
        on_bad: str = "raise",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.independence = independence
        self.mixing = mixing
        self.method = method
        self.affinity = affinity
        self.weights = weights
        self.on_bad = on_bad
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, *, groups: ArrayLike | None = None) -> Self:
        """Fit every client on its own rows, and combine what they find.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of all clients.
        y : ignored
            There for scikit-learn.
        groups : array-like of shape (n_samples,), optional
            The client of each row; by default all rows belong to one client.

        Returns
        -------
        self : FederatedICA
            Fitted.

        Raises
        ------
        DataError
            If X or groups cannot be used, or (unless ``on_bad="reject"``) one client's rows; the sentence names it.
        """
        check_choice(self.on_bad, "on_bad", ON_BAD)
        data = self._check_data(X, reset=True)
        clients, rows = _rows_of_clients(groups, data.shape[0])
        names = [str(n) for n in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None
        seed = int(generator(self.random_state).integers(2**31))
        settings = {
            "n_components": self.n_components,
            "solver": self.solver,
            "independence": self.independence,
            "mixing": self.mixing,
        }
        answers = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_client)(client, data[own], names, settings, seed)
            for client, own in zip(clients, rows, strict=True)
        )
        failed = [answer for answer in answers if isinstance(answer, Rejection)]
        if failed and self.on_bad == "raise":
            raise DataError(failed[0].reason)
        self.contributions_ = [answer for answer in answers if isinstance(answer, Contribution)]
        if not self.contributions_:
            raise DataError(f"none of the {len(failed)} clients could be fitted; the first: {failed[0].reason}")
        self.aggregate_ = aggregate(
            self.contributions_,
            self.n_components,
            method=self.method,
            affinity=self.affinity,
            weights=self.weights,
            on_bad=self.on_bad,
            random_state=seed,
        )
        self.rejected_ = (*failed, *self.aggregate_.rejected)
        self.mean_: Array = data.mean(axis=0, dtype=np.float64)
        self.mixing_: Array = np.array(self.aggregate_.mixing)
        self.components_: Array = np.linalg.pinv(self.mixing_).astype(np.float64)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Recover the sources with the global matrix, ``(X - mean_) @ components_.T``.

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
        return np.asarray((data - self.mean_) @ self.components_.T, dtype=dtype)

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
        return np.asarray(np.asarray(S) @ self.mixing_.T + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_data(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        try:
            return np.asarray(
                validate_data(
                    self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=2 if reset else 1
                )
            )
        except ValueError as error:
            raise DataError(str(error)) from error


def _rows_of_clients(groups: ArrayLike | None, n_samples: int) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Name the clients, sorted, and say which rows are whose."""
    if groups is None:
        return ["client"], [np.arange(n_samples)]
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise DataError(
            f"groups must name the client of each of the {n_samples} rows of X, shape ({n_samples},); "
            f"shape {labels.shape} came."
        )
    clients, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    return [str(c) for c in clients], np.split(order, np.cumsum(counts)[:-1])


def _fit_client(
    client: str, rows: NDArray[Any], features: list[str] | None, settings: dict[str, Any], seed: int
) -> Contribution | Rejection:
    """Fit one client; whatever is wrong with its rows is said in its name."""
    rng = np.random.default_rng([seed, zlib.crc32(client.encode())])
    try:
        local = LocalICA(**settings, random_state=rng).fit(rows)
        return local.contribution(client, features=features)
    except InputError as error:
        return Rejection(client, f"client {client!r}: {error}")

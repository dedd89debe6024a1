"""FederatedICA: the whole federation on one machine, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from fedica.arrays import Array, IntArray, RandomState, check_choice, check_int, generator
from fedica.errors import DataError, DataWarning, InputError, OptionError
from fedica.local import LocalICA, score
from fedica.local.unmixing import Unmix, Unmixing
from fedica.records import Aggregate, Contribution, Rejection, Scores
from fedica.server import aggregate, refine
from fedica.server.admission import ON_BAD
from fedica.text import list_names

_ONE_CLIENT = (
    "FederatedICA: all {} rows belong to one client, so there is nothing to combine. Give the client of each row as "
    "groups=; y is ignored."
)
_ROWS_AT_ONCE = 100_000


class FederatedICA(Unmixing):
    """Learn one mixing matrix from the rows of many clients, each of which shares its atoms alone.

    Every client's rows are fitted by `LocalICA` separately; `fedica.aggregate` combines the atoms.

    Parameters
    ----------
    n_components : int, optional
        How many components each client fits, and how many there are in the end. ``None``: each client the rank of its
        data, and in the end what the clients agree on.
    solver, independence, mixing : str
        As in `LocalICA`.
    method, affinity, weights : str
        As in `fedica.aggregate`.
    rounds : int
        How many messages each client sends: 1, its atoms alone; with 2 or more also its scores at the global matrix, by
        which `fedica.refine` brings the accuracy of pooled data where clients are weak. For independence over samples.
    tol, max_iter : float, int
        When a client's solver stops, as in `LocalICA`.
    on_bad : {"raise", "reject"}
        When a client's rows cannot be fitted, or its atoms do not fit the others: stop, or go on without it.
    n_jobs : int, optional
        How many clients are fitted at the same time.
    random_state : int, RandomState, Generator or None
        Seed. What a client finds does not depend on which other clients there are.

    Attributes
    ----------
    atoms_ : ndarray of shape (n_features, n_components)
        The global mixing matrix with unit columns: ``aggregate_.mixing``.
    mixing_ : ndarray of shape (n_features, n_components)
        The same on the scale of `LocalICA`: for general mixing, the sources of the fitted rows have variance one; for
        orthogonal mixing, and for maps over features, its columns are unit vectors.
    components_ : ndarray of shape (n_components, n_features)
        Its pseudo-inverse: ``S = (X - mean_) @ components_.T``.
    mean_ : ndarray of shape (n_features,)
        Mean of each feature over all rows of the clients that were not rejected.
    aggregate_ : Aggregate
        The result of the server: support and spread of each component, trust of each client, rejections.
    contributions_ : list of Contribution
        The contribution of each client.
    rejected_ : tuple of Rejection
        Clients that were rejected, and why.
    n_iter_ : int
        Most iterations of any client's solver.
    n_features_in_ : int
        d.
    feature_names_in_ : ndarray of str
        Names of the features, if the data had them.

    Notes
    -----
    In a pipeline or a search ``groups`` reaches this step by its name: ``pipe.fit(X, y, federatedica__groups=groups)``.
    With ``sklearn.set_config(enable_metadata_routing=True)`` and ``FederatedICA(...).set_fit_request(groups=True)`` it
    is ``pipe.fit(X, y, groups=groups)``, and the same argument serves a splitter such as ``GroupKFold``.

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
        rounds: int = 1,
        tol: float | None = None,
        max_iter: int = 500,
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
        self.rounds = rounds
        self.tol = tol
        self.max_iter = max_iter
        self.on_bad = on_bad
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, *, groups: ArrayLike | None = None) -> Self:
        """Fit every client on its own rows, and combine their atoms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows of all clients.
        y : ignored
            There for scikit-learn.
        groups : array-like of shape (n_samples,), optional
            The client of each row; by default all rows belong to one client, of which a warning tells.

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
        local = self._local()
        data = self._check_array(X, reset=True, min_samples=2)
        clients, rows = _rows_of_clients(groups, data.shape[0])
        if len(clients) == 1:
            warnings.warn(DataWarning(_ONE_CLIENT.format(data.shape[0])), stacklevel=2)
        seed = int(generator(self.random_state).integers(2**31))
        answers = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_client)(local, client, data[own], self._names(), seed)
            for client, own in zip(clients, rows, strict=True)
        )
        for issue in _one_of_each_kind(answers):
            warnings.warn(issue, stacklevel=2)
        self.contributions_, failed = _sent(answers, self.on_bad)
        self.aggregate_ = aggregate(
            self.contributions_,
            self.n_components,
            method=self.method,
            affinity=self.affinity,
            weights=self.weights,
            on_bad=self.on_bad,
            random_state=seed,
        )
        self.aggregate_ = self._refined(self.aggregate_, data, clients, rows)
        self.n_iter_ = max(answer.n_iter for answer in answers)
        self.rejected_ = (*failed, *self.aggregate_.rejected)
        admitted, used = set(self.aggregate_.clients), np.ones(data.shape[0], dtype=np.bool_)
        for client, own in zip(clients, rows, strict=True):
            used[own] = client in admitted
        self.mean_ = np.mean(data, axis=0, dtype=np.float64, where=used[:, None])
        self.atoms_ = np.array(self.aggregate_.mixing)
        components = np.linalg.pinv(self.atoms_).astype(np.float64)
        scale = np.ones(len(components))
        if self.independence == "samples" and self.mixing == "general":
            scale = _deviations(Unmix(self.mean_, components), data, used)
        self.mixing_, self.components_ = self.atoms_ * scale, components / scale[:, None]
        return self

    def _refined(
        self, result: Aggregate, data: NDArray[Any], clients: Sequence[str], rows: Sequence[IntArray]
    ) -> Aggregate:
        """Refine a result with the second and further messages of all clients, also of those too small to fit."""
        for _ in range(1, self.rounds):
            jobs = (delayed(_score_client)(result, c, data[own]) for c, own in zip(clients, rows, strict=True))
            result = refine(result, [scores for scores in Parallel(n_jobs=self.n_jobs)(jobs) if scores is not None])
            assert result.refinement is not None
            if not result.refinement.taken:
                break
        return result

    def _local(self) -> LocalICA:
        """Return what every client runs. Validate settings before fitting any client."""
        if check_int(self.rounds, "rounds", minimum=1) > 1 and self.independence == "features":
            raise OptionError("a second message is for independence over samples; with 'features' rounds must be 1.")
        local = LocalICA(
            self.n_components,
            solver=self.solver,
            independence=self.independence,
            mixing=self.mixing,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        local._options(local._solver())
        return local


def _deviations(unmix: Unmix, data: NDArray[Any], used: NDArray[np.bool_]) -> Array:
    """Return the standard deviation of each source over the rows that are used; one for a source that is zero."""
    squares = np.zeros(len(unmix.components))
    for rows in np.array_split(np.flatnonzero(used), -(-int(used.sum()) // _ROWS_AT_ONCE)):
        squares += np.sum(unmix.array(np.asarray(data[rows], dtype=np.float64)) ** 2, axis=0)
    return np.sqrt(np.where(squares > 0, squares / used.sum(), 1.0))


def _rows_of_clients(groups: ArrayLike | None, n_samples: int) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Return the names of the clients, sorted, and the rows of each."""
    if groups is None:
        return ["client"], [np.arange(n_samples)]
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise DataError(
            f"groups must name the client of each of the {n_samples} rows of X, shape ({n_samples},); "
            f"got shape {labels.shape}."
        )
    if labels.dtype.kind not in "iubU":
        labels = _as_names(labels)
    clients, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    return [str(c) for c in clients], np.split(order, np.cumsum(counts)[:-1])


def _as_names(labels: NDArray[Any]) -> NDArray[np.str_]:
    """Return the label of each row as text; refuse None, NaN, and what pandas writes for them."""
    missing = [
        row
        for row, label in enumerate(labels.tolist())
        if label is None or type(label).__name__ in ("NAType", "NaTType") or label != label  # noqa: PLR0124 - NaN
    ]
    if missing:
        raise DataError(
            f"groups must name the client of every row; {len(missing)} of {labels.size} are missing, the first at row "
            f"{missing[0]}. Name their client, or leave these rows out."
        )
    return labels.astype(str)


@dataclass(frozen=True)
class Answer:
    """The result of fitting one client: its contribution or rejection, its iterations, and its warnings."""

    sent: Contribution | Rejection
    n_iter: int = 0
    issues: tuple[Warning, ...] = ()


def _fit_client(
    local: LocalICA, client: str, rows: NDArray[Any], features: tuple[str, ...] | None, seed: int
) -> Answer:
    """Fit one client; what is wrong with its rows becomes a rejection that names it."""
    rng = np.random.default_rng([seed, zlib.crc32(client.encode())])
    try:
        local = clone(local).set_params(random_state=rng)
        issues = local._fit(rows)
        return Answer(local.contribution(client, features=features), local.n_iter_, issues)
    except InputError as error:
        return Answer(Rejection.of_error(client, error, before=f"client {client!r}: "))


def _score_client(result: Aggregate, client: str, rows: NDArray[Any]) -> Scores | None:
    """Return the second message of one client; ``None`` for one whose rows could not be fitted, nor be scored."""
    try:
        return score(rows, result, client=client)
    except InputError:
        return None


def _sent(answers: Sequence[Answer], on_bad: str) -> tuple[list[Contribution], list[Rejection]]:
    """Return the contributions and the rejections, unless none can be used or one rejection is an error."""
    failed = [a.sent for a in answers if isinstance(a.sent, Rejection)]
    contributions = [a.sent for a in answers if isinstance(a.sent, Contribution)]
    if failed and on_bad == "raise":
        raise DataError(failed[0].reason)
    if not contributions:
        raise DataError(f"none of the {len(failed)} clients could be fitted; the first: {failed[0].reason}")
    return contributions, failed


def _one_of_each_kind(answers: Sequence[Answer]) -> list[Warning]:
    """Return one warning of each class, with the clients that it is about and the sentence of the first."""
    found: dict[type[Warning], list[tuple[str, Warning]]] = {}
    for answer in answers:
        for issue in answer.issues:
            found.setdefault(type(issue), []).append((answer.sent.client, issue))
    if len(answers) == 1:
        return [issue for about in found.values() for _, issue in about]
    kinds = []
    for kind, about in found.items():
        clients = list(dict.fromkeys(client for client, _ in about))
        who = f"{len(clients)} of {len(answers)} clients ({list_names(clients)})"
        kinds.append(kind(f"{who}; of the first: {about[0][1]}"))
    return kinds

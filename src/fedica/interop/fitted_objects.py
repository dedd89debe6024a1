"""Fitted FastICA of scikit-learn and picard -> contributions, without refitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from fedica.arrays import Array, check_choice
from fedica.errors import InputError, OptionError
from fedica.records import INDEPENDENCE, Contribution

NSamples = int | Literal["untold"] | None


def from_fastica(
    fitted: Any,
    client: str,
    *,
    n_samples: NSamples = None,
    features: Sequence[str] | None = None,
    independence: str = "samples",
    data: Any = None,
    study: str | None = None,
) -> Contribution:
    """Take a fitted FastICA of scikit-learn as the contribution of one client.

    Parameters
    ----------
    fitted : sklearn.decomposition.FastICA or sklearn.pipeline.Pipeline
        Fitted, however it whitens. Of a pipeline that ends in one, such as ``make_pipeline(StandardScaler(), PCA(10),
        FastICA(whiten=False))``, all steps are undone: the atoms are directions of what the pipeline was fitted to.
    client : str
        Name of the client.
    n_samples : int or "untold", optional
        How many samples it was fitted to, which a FastICA does not store. It may be left out where a step of a pipeline
        stores it, or with ``independence="features"``; "untold": the client does not tell.
    features : sequence of str, optional
        Names of the features; by default those of the DataFrame that it was fitted to.
    independence : {"samples", "features"}
        "samples": it was fitted to one row per sample, and the atoms are its mixing columns. "features": it was
        fitted to the transpose, one row per feature, and the atoms are its sources in ``data``.
    data : array-like of shape (n_samples, n_features), optional
        With ``independence="features"``: the client's data, whose transpose it was fitted to. It is not kept.
    study : str, optional
        Id of the study.

    Returns
    -------
    contribution : Contribution
        Atom k is component k of ``fitted``.

    Raises
    ------
    InputError
        If it is not fitted, or of another kind.

    Notes
    -----
    Over features, FastICA removes the mean of each sample, `LocalICA` that of each feature: they find the same atoms
    where both were removed beforehand.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import FastICA
    >>> from fedica.interop import from_fastica
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(1000, 2)) @ rng.standard_normal((2, 5))
    >>> from_fastica(FastICA(2, random_state=0).fit(X), "client-07", n_samples=1000)
    Contribution('client-07': 2 atoms of 5 features, 1000 samples)
    """
    return _from_estimator(fitted, client, "FastICA", n_samples, features, independence, data, study)


def from_picard(
    fitted: Any,
    client: str,
    *,
    n_samples: NSamples = None,
    features: Sequence[str] | None = None,
    independence: str = "samples",
    data: Any = None,
    study: str | None = None,
) -> Contribution:
    """Take a fit of picard as the contribution of one client: its estimator, or what its function returned.

    Parameters
    ----------
    fitted : picard.Picard, sklearn.pipeline.Pipeline or tuple
        A fitted estimator, or a pipeline that ends in one, as in `from_fastica`; or the tuple ``(K, W, Y)`` that
        ``picard.picard`` returned, with or without more values.
    client, n_samples, features, study
        As in `from_fastica`; a tuple tells the number of samples.
    independence : {"samples", "features"}
        Over what the sources are independent. "features": the estimator was fitted to the transpose, one row per
        feature; the function got one row per sample (for "samples" it takes one row per feature).
    data : array-like of shape (n_samples, n_features), optional
        As in `from_fastica`; a tuple needs none.

    Returns
    -------
    contribution : Contribution
        Atom k is component k of ``fitted``.
    """
    if not isinstance(fitted, tuple | list):
        return _from_estimator(fitted, client, "Picard", n_samples, features, independence, data, study)
    check_choice(independence, "independence", INDEPENDENCE)
    if data is not None:
        raise OptionError(
            f"client {client!r}: data is not needed with what the function picard returned. Leave it out."
        )
    unmixing, sources = _unpack(fitted, client)
    over_samples = independence == "samples"
    atoms: Array = np.asarray(np.linalg.pinv(unmixing) if over_samples else sources.T, dtype=np.float64)
    known = sources.shape[1] if over_samples else unmixing.shape[1]
    return Contribution(
        client,
        atoms,
        _declared(known, n_samples, client, "picard"),
        features=features,
        solver="picard",
        independence=independence,
        mixing="general",
        study=study,
    )


def _from_estimator(
    fitted: Any,
    client: str,
    wanted: str,
    n_samples: NSamples,
    features: Sequence[str] | None,
    independence: str,
    data: Any,
    study: str | None,
) -> Contribution:
    check_choice(independence, "independence", INDEPENDENCE)
    last = _check_kind(fitted, client, wanted)
    known: int | None
    if independence == "features":
        atoms, known = _maps(fitted, data, client), int(fitted.n_features_in_)
        names = getattr(data, "columns", None)
    elif data is not None:
        raise OptionError(f"client {client!r}: data is needed with independence='features' alone. Leave it out.")
    else:
        atoms, known = _mixing(fitted, client), _samples_known(fitted)
        names = getattr(fitted, "feature_names_in_", None)
    return Contribution(
        client,
        atoms,
        _declared(known, n_samples, client, type(last).__name__),
        features=features if features is not None or names is None else [str(name) for name in names],
        solver="picard" if type(last).__name__ == "Picard" else "fastica",
        independence=independence,
        mixing="general",
        study=study,
    )


def _check_kind(fitted: Any, client: str, wanted: str) -> Any:
    """Return the estimator itself, the last step if it stands in a pipeline."""
    last = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted
    if not isinstance(last, FastICA):  # Picard's estimator is one, too
        raise InputError(f"client {client!r}: a fitted {wanted} was expected, got {type(last).__name__}.")
    try:
        check_is_fitted(last)
    except NotFittedError:
        raise InputError(f"client {client!r}: its {type(last).__name__} is not fitted. Call its fit first.") from None
    return last


def _mixing(fitted: Any, client: str) -> Array:
    """Return the direction of each source in the space of the data, (d, r), with all steps of a pipeline undone."""
    if isinstance(fitted, FastICA):
        return np.asarray(fitted.mixing_, dtype=np.float64)
    r = fitted.steps[-1][1].components_.shape[0]
    try:
        _check_inverses(fitted)
        origin, once, twice = (np.asarray(fitted.inverse_transform(k * np.eye(r)), float) for k in range(3))
    except (AttributeError, ValueError) as error:
        raise InputError(
            f"client {client!r}: a step of its pipeline cannot be undone ({' '.join(str(error).split())[:150]}), so "
            "its atoms cannot be brought back to the features. Use steps with inverse_transform, such as PCA."
        ) from error
    if not np.allclose(twice - once, once - origin, rtol=1e-6, atol=1e-9 * np.abs(once - origin).max()):
        raise InputError(
            f"client {client!r}: a step of its pipeline is not linear, so its components are no directions of the "
            "features. Transform the data first, at every client alike, and fit a pipeline of linear steps to that."
        )
    return np.asarray((once - origin).T, dtype=np.float64)


def _check_inverses(pipeline: Pipeline) -> None:
    """Refuse a function without an inverse, which scikit-learn would take to be its own inverse."""
    for name, step in pipeline.steps:
        if isinstance(step, FunctionTransformer) and step.func is not None and step.inverse_func is None:
            raise ValueError(f"{name} has a func, but no inverse_func")


def _maps(fitted: Any, data: Any, client: str) -> Array:
    """Return the sources over features, (d, r), of an estimator that was fitted to the transpose of the data."""
    n_samples = int(fitted.n_features_in_)
    shape = np.shape(data) if data is not None else None
    if shape is None or len(shape) != 2 or shape[0] != n_samples:
        got = "none" if shape is None else f"shape {shape}"
        raise InputError(
            f"client {client!r}: with independence='features' the atoms are the sources of the data that it was fitted "
            f"to, so data of shape ({n_samples}, n_features) is needed; got {got}."
        )
    transposed = data.T if hasattr(data, "T") else np.asarray(data).T
    return np.asarray(fitted.transform(transposed), dtype=np.float64)


def _samples_known(fitted: Any) -> int | None:
    """Return how many samples a pipeline was fitted to, if one of its steps stores it."""
    if not isinstance(fitted, Pipeline):
        return None
    counted = (getattr(step, name, None) for _, step in fitted.steps for name in ("n_samples_", "n_samples_seen_"))
    return next((int(np.max(count)) for count in counted if count is not None), None)


def _declared(known: int | None, given: NSamples, client: str, what: str) -> int | None:
    """Return the number of samples to declare: the given one, else the known one; refuse to guess."""
    if given == "untold":
        return None
    if given is not None and known is not None and given != known:
        raise InputError(f"client {client!r}: n_samples={given} was given; its {what} was fitted to {known}.")
    if given is None and known is None:
        raise OptionError(
            f"client {client!r}: a fitted {what} does not store how many samples it was fitted to. Give n_samples; "
            "or n_samples='untold', if the client does not tell."
        )
    return known if given is None else given


def _unpack(returned: Sequence[Any], client: str) -> tuple[Array, Array]:
    """Return the unmixing matrix (r, d) and the sources (r, n) of what the function picard returned."""
    try:
        whitener, rotation, sources = returned[0], np.asarray(returned[1], float), np.asarray(returned[2], float)
        unmixing: Array = rotation if whitener is None else rotation @ np.asarray(whitener, float)
        if unmixing.ndim == sources.ndim == 2 and unmixing.shape[0] == sources.shape[0]:
            return unmixing, sources
    except (TypeError, ValueError, IndexError):
        pass  # one message for all faults, below
    raise InputError(
        f"client {client!r}: the (K, W, Y) of picard.picard was expected, of shapes (r, d), (r, r) and (r, n), "
        f"got {len(returned)} parts of the types {', '.join(type(part).__name__ for part in returned[:5])}."
    )

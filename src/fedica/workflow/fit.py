"""A client's own fit: warnings become notes, columns get their names, and low rank means fewer atoms."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from fedica.errors import DataError
from fedica.local import LocalICA


def fit_client(
    X: NDArray[Any],
    n_components: int | None,
    *,
    at_most: bool,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> tuple[LocalICA, tuple[str, ...]]:
    """Fit LocalICA to a client's data; return it and what was noticed.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The data.
    n_components : int, optional
        Components; ``None``: the rank of the data.
    at_most : bool
        Whether data of a lower rank is fitted with as many components as it has, with a note, rather than refused.
    features : sequence of str, optional
        Names of the columns, for what is noticed.
    **settings
        Of `LocalICA`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            local, notes = LocalICA(n_components, **settings).fit(X), []
        except DataError as error:
            if not at_most or n_components is None:
                raise DataError(_by_name(str(error), features)) from error
            local = LocalICA(None, **settings).fit(X)
            rank = local.atoms_.shape[1]
            if rank >= n_components:
                raise
            notes = [f"the data has {rank} independent directions, fewer than the {n_components} components."]
    return local, (*notes, *(_by_name(str(warning.message), features) for warning in caught))


def _by_name(sentence: str, features: Sequence[str] | None) -> str:
    """Call columns by their names: the fit sees numbers alone."""
    if features is None:
        return sentence
    return re.sub(r"\bcolumn (\d+)\b", lambda found: repr(features[int(found[1])]), sentence)

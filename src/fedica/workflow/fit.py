"""A client's own fit: warnings become notes, columns get their names, and low rank means fewer atoms."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import DataError, DataWarning
from fedica.local import LocalICA
from fedica.records import Reason
from fedica.text import list_names, words_of_commands


def fit_client(
    X: NDArray[Any],
    n_components: int | None,
    *,
    at_most: bool,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> tuple[LocalICA, tuple[str, ...]]:
    """Fit LocalICA, with its ``settings``, to a client's data; return it and what was noticed.

    n_components : None: the rank of the data. at_most : whether data of a lower rank is fitted with as many components
    as it has, with a note, rather than refused. features : names of the columns, for what is noticed.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            local, notes = _fit(X, n_components, at_most, settings)
        except DataError as error:
            raise _named(error, features).error(DataError) from error
    return local, (*notes, *(_named(warning.message, features).sentence for warning in caught))


def _fit(
    X: NDArray[Any], n_components: int | None, at_most: bool, settings: dict[str, Any]
) -> tuple[LocalICA, tuple[str, ...]]:
    """Fit n_components, or with ``at_most`` as many as the data has, and note how many."""
    try:
        return LocalICA(n_components, **settings).fit(X), ()
    except DataError:
        if not at_most or n_components is None:
            raise
        local = LocalICA(None, **settings).fit(X)
        rank = local.atoms_.shape[1]
        if rank >= n_components:
            raise
    directions = f"{rank} independent direction{'' if rank == 1 else 's'}"
    return local, (f"the data has {directions}, fewer than the {n_components} components.",)


def doubt_note(local: LocalICA, features: Sequence[str] | None) -> tuple[str, ...]:
    """Return a note on components that the data does not determine, each by the feature at which it is largest."""
    if not local.doubts_:
        return ()
    least = local.doubts_[0]
    places = sorted({k for doubt in local.doubts_ for k in doubt.pair})
    largest = [int(np.argmax(np.abs(local.atoms_[:, k]))) for k in places]
    where = f"columns {sorted(set(largest))}" if features is None else list_names([features[j] for j in largest], 10)
    return (
        f"the data does not tell {len(places)} of the {local.atoms_.shape[1]} components apart, because their sources "
        f"are nearly Gaussian: those that are largest at {where}. Of the two that are told apart least, "
        f"the standard error of the angle between them is {least.degrees:.0f} degrees (two Gaussian sources would seem "
        f"as different with probability {least.chance:.2f}). The message marks them as uncertain.",
    )


def _named(issue: Warning | DataError | str, features: Sequence[str] | None) -> Reason:
    """Return what an error or a warning says, with columns called by their names: the fit knows their numbers alone."""
    if not isinstance(issue, DataError | DataWarning):
        return Reason("", text=words_of_commands(str(issue)))
    why, columns = Reason(issue.kind, issue.numbers, str(issue)), issue.numbers.get("columns")
    if features is None or columns is None:
        return why
    return why.changed(names=tuple(features[j] for j in columns))

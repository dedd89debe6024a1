"""The average reference of EEG: it depends on which channels a recording has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedica.arrays import Array


def restrict_to_channels(mixing: Array, rows: Sequence[int], *, average: bool) -> Array:
    """Restrict a mixing matrix (d, r) to the features at ``rows``, those of a recording in its order.

    average : whether the recording has the average over these as its reference. If the matrix has the average over all
    of its features, the mean over these is subtracted.
    """
    restricted = np.asarray(mixing[list(rows)], dtype=np.float64)
    if average and np.abs(mixing.mean(axis=0)).max(initial=0.0) < 1e-9:
        restricted = restricted - restricted.mean(axis=0)
    return restricted

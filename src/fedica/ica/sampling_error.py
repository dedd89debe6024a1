"""Standard errors of the gradient, from batches of neighbouring samples.

Samples of a recording are correlated in time, and n of them tell less than n independent ones. Averages over batches
that are longer than the correlation are independent, so that their scatter tells what n samples are worth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array
from fedica.blocks import Parts, add, rows_of
from fedica.ica.rotation import antisymmetric
from fedica.ica.whitened import Whitened

MIN_BATCHES, MAX_LENGTH = 32, 256
"""Batches at least, which determine a standard error to an eighth; and samples of a batch, a second or two of EEG."""


def gradient_errors(part: Whitened, rotation: Array, signs: Array, n_samples: int) -> Array:
    """Return the standard error of every entry of the gradient of n samples, (r, r).

    part : a subsample in the order of time, which is cut into batches. signs : (r,), of the contrast. Samples that were
    not drawn count as independent of those that were: the errors are rather too small than too large.
    """
    y = np.empty((part.n_samples, part.n_components), dtype=np.float32)
    part.rotated(rotation, lambda rows, place: np.copyto(place, rows), out=y)
    length = int(np.clip(len(y) // MIN_BATCHES, 1, MAX_LENGTH))

    def sums_of(batch: NDArray[Any]) -> Parts:
        correlation = np.asarray(np.tanh(batch).T @ batch, dtype=np.float64)
        gradient = antisymmetric(signs[:, None] * correlation)
        return gradient, gradient**2

    batches = rows_of(y, length)
    total, squares = batches.total(sums_of, merge=add, work=2.0 * signs.size**2 * len(y))
    n_batches = -(-len(y) // length)
    variance = np.maximum(squares / n_batches - (total / n_batches) ** 2, 0.0) / length**2
    return np.asarray(np.sqrt(variance / n_batches * (len(y) / n_samples)))


def typical_error(errors: Array) -> float:
    """Return the median over pairs of sources; zero of a single source, whose gradient is zero."""
    pairs = errors[np.triu_indices_from(errors, 1)]
    return float(np.median(pairs)) if pairs.size else 0.0

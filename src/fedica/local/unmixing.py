"""Base of the estimators: recover sources with a mixing matrix, and mix them back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fedica.arrays import Array, check_unmasked
from fedica.blocks import EachBlock, as_block, is_dask, is_lazy, rows_of
from fedica.errors import DataError
from fedica.ica import not_finite_error

_WORDS = re.compile(r"(?!array=|nan|inf)(- |[A-Za-z])")
"""Lines of a message that are words, or a list of names; the others show values of the data."""

_OBJECTS = ("mne", "anndata", "nibabel")
"""Libraries whose objects `fedica.readers.as_table` turns into arrays."""


class Unmixing(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator with a mixing matrix, ``X ~ S @ mixing_.T + mean_``. Subclasses implement `fit`."""

    mixing_: Array
    components_: Array
    mean_: Array

    def transform(self, X: Any) -> Any:
        """Recover the sources, ``(X - mean_) @ components_.T``.

        For general mixing the sources of the fitted data have variance one, of every estimator of fedica.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), iterable of blocks, or Dask array
            Data with the features that were fitted; read block by block.

        Returns
        -------
        S : ndarray of shape (n_samples, n_components), iterable of blocks, or Dask array
            The sources; float32 for float32 data. Those of an iterable of blocks or of a Dask array are of the same
            kind, computed when they are read.

        Raises
        ------
        DataError
            If X has other features than were fitted, or values that are not finite.
        """
        check_is_fitted(self)
        unmix = Unmix(self.mean_, self.components_)
        if is_lazy(X):
            return unmix.lazily(X)
        return unmix.array(self._check_array(X, reset=False, min_samples=1))

    def inverse_transform(self, S: ArrayLike) -> NDArray[Any]:
        """Mix sources back, ``S @ mixing_.T + mean_``.

        Parameters
        ----------
        S : array-like of shape (n_samples, n_components)
            Sources.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data that they mix to; float32 for float32 sources.

        Raises
        ------
        DataError
            If S does not have one column per component.
        """
        check_is_fitted(self)
        sources = np.asarray(S)
        if sources.ndim != 2 or sources.shape[1] != self.mixing_.shape[1]:
            raise DataError(
                f"sources must have shape (n_samples, {self.mixing_.shape[1]}), one column per component; "
                f"got {sources.shape}."
            )
        dtype = np.float32 if sources.dtype == np.float32 else np.float64
        return np.asarray(sources @ self.mixing_.T + self.mean_, dtype=dtype)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _names(self) -> tuple[str, ...] | None:
        """Return the names of the features, if the data that was fitted had them."""
        return tuple(map(str, self.feature_names_in_)) if hasattr(self, "feature_names_in_") else None

    def _check_array(self, X: ArrayLike, *, reset: bool, min_samples: int) -> NDArray[Any]:
        """Return X as a real array; integers and single precision stay as they are, and become float64 block by block.

        Values that are not finite are found later, by sums over the data. Messages show no value of it.
        """
        if type(X).__module__.partition(".")[0] in _OBJECTS:
            raise DataError(
                f"data must be an array; got {type(X).__name__} of {type(X).__module__.partition('.')[0]}. Call "
                "fedica.readers.as_table with it, and fit the values of the table that this returns."
            )
        try:
            check_unmasked(X, "data")
            data = np.asarray(
                validate_data(
                    self, X, reset=reset, dtype="numeric", ensure_all_finite=False, ensure_min_samples=min_samples
                )
            )
        except ValueError as error:
            lines = [line for line in str(error).split("\n") if _WORDS.match(line)]  # scikit-learn shows values too
            text = "could not convert" in lines[0]
            raise DataError("data must be numbers; got text. Leave it out." if text else "\n".join(lines)) from None
        if data.dtype.kind in "mM":
            raise DataError(f"data must be numbers; got dates or times ({data.dtype}). Leave them out.")
        return data


@dataclass(frozen=True, eq=False)
class Unmix:
    """The map ``S = (X - mean) @ components.T``, for rows of the features that were fitted."""

    mean: Array  # (d,)
    components: Array  # (r, d)

    def rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Unmix rows in memory, (b, d) -> (b, r); float32 stays float32. Values that are not finite are refused."""
        sources = np.subtract(rows, self.mean, dtype=np.float64) @ self.components.T
        if not np.isfinite(sources).all():
            raise not_finite_error(rows_of(rows))
        return np.asarray(sources, dtype=_dtype_of_sources(rows.dtype))

    def array(self, data: NDArray[Any]) -> NDArray[Any]:
        """Unmix an array, in memory or memory-mapped, block by block."""
        sources = np.empty((data.shape[0], len(self.components)), dtype=_dtype_of_sources(data.dtype))
        start = 0
        for block in rows_of(data):
            sources[start : start + len(block)] = self.rows(block)
            start += len(block)
        return sources

    def block(self, raw: object) -> NDArray[Any]:
        """Unmix one block of an iterable."""
        block = as_block(raw)
        if block.shape[1] != self.mean.size:
            raise DataError(f"a block must have the {self.mean.size} features that were fitted; got {block.shape[1]}.")
        return self.array(block)

    def lazily(self, X: Any) -> Any:
        """Unmix a Dask array into a Dask array, or an iterable of blocks into one, computed when it is read."""
        if not is_dask(X):
            return EachBlock(X, self.block)
        X = import_module("fedica.blocks.dask_arrays").check_dask_array(X)
        chunks = (X.chunks[0], (len(self.components),))
        return X.map_blocks(self.block, chunks=chunks, dtype=_dtype_of_sources(X.dtype), meta=np.empty((0, 0)))


def _dtype_of_sources(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)

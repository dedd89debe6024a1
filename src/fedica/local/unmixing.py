"""What every fitted estimator of fedica can do with its mixing matrix: recover sources, and mix them back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fedica.arrays import Array
from fedica.blocks.iterables import is_source
from fedica.errors import DataError
from fedica.local.lazy_blocks import Unmix, is_dask


class Unmixing(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator with a mixing matrix, ``X ~ S @ mixing_.T + mean_``; `fit` of who inherits says how it is found."""

    mixing_: Array
    components_: Array
    mean_: Array

    def transform(self, X: Any) -> Any:
        """Recover the sources, ``(X - mean_) @ components_.T``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), source of blocks, or Dask array
            Data with the features that were fitted; read block by block.

        Returns
        -------
        S : ndarray of shape (n_samples, n_components), source of blocks, or Dask array
            The sources; float32 for float32 data. Those of a source of blocks or of a Dask array are one of the same
            kind, computed when they are asked for.

        Raises
        ------
        DataError
            If X has other features than were fitted, or values that are not finite.
        """
        check_is_fitted(self)
        unmix = Unmix(self.mean_, self.components_)
        if is_dask(X) or is_source(X):
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
            If S has not one column a component.
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
        """Return X as a real array; integers and single precision stay as they are, and become float64 by the block.

        What is not finite is found in passes that are made anyway.
        """
        try:
            return np.asarray(
                validate_data(
                    self, X, reset=reset, dtype="numeric", ensure_all_finite=False, ensure_min_samples=min_samples
                )
            )
        except ValueError as error:
            raise DataError(str(error)) from error

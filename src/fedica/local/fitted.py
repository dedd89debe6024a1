"""What a fitted client can do: recover its sources, mix them back, and pack its atoms for the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fedica.arrays import Array, fix_signs, unit
from fedica.errors import DataError
from fedica.local.intake import Unmix, is_dask
from fedica.local.rotation import Rotation
from fedica.local.source import is_source
from fedica.local.whitening import Whitening
from fedica.records import Contribution

FITTED = (
    "atoms_",
    "mixing_",
    "components_",
    "mean_",
    "explained_variance_",
    "whitening_",
    "n_iter_",
    "n_samples_",
    "n_passes_",
    "solver_",
)
"""What a fit finds."""


class FittedICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A client with its mixing matrix, ``X ~ S @ mixing_.T + mean_``; `LocalICA` says how that is found."""

    independence: str
    mixing: str

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
            The data that they mix to.
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

    def contribution(
        self,
        client: str,
        *,
        features: Sequence[str] | None = None,
        study: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Contribution:
        """Pack the atoms for the server.

        Parameters
        ----------
        client : str
            Name of this client.
        features : sequence of str, optional
            Names of the features; by default those that the data had.
        study : str, optional
            Id of the study.
        extra : mapping of str to str, optional
            Whatever else is to travel along.

        Returns
        -------
        contribution : Contribution
            All that leaves the client.
        """
        check_is_fitted(self)
        if features is None and hasattr(self, "feature_names_in_"):
            features = [str(name) for name in self.feature_names_in_]
        return Contribution(
            client,
            self.atoms_,
            self.n_samples_,
            features=features,
            solver=self.solver_,
            independence=self.independence,
            mixing=self.mixing,
            study=study,
            extra={} if extra is None else extra,
        )

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

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

    def _set_result(self, whitening: Whitening, rotation: Rotation, *, solver: str, n_passes: int) -> Self:
        explained = whitening.deviations**2 @ rotation.matrix**2
        order = np.argsort(-explained, kind="stable")
        R = rotation.matrix[:, order]
        if self.independence == "samples" and self.mixing == "general":
            mixing, components = whitening.unwhitener @ R, R.T @ whitening.whitener  # U S R
        else:
            mixing = whitening.basis @ R  # U R, or V R for maps over features
            components = mixing.T
        mixing, signs = fix_signs(mixing)
        self.atoms_: Array = unit(mixing)
        self.mixing_: Array = mixing
        self.components_: Array = components * signs[:, None]
        self.mean_: Array = whitening.mean
        self.explained_variance_: Array = explained[order]
        self.whitening_ = whitening
        self.n_iter_ = rotation.n_iter
        self.n_samples_ = whitening.n_samples
        self.n_passes_ = n_passes
        self.solver_ = solver
        return self

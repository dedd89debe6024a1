"""A fitted client, which packs its atoms for the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedica.arrays import Array, IntArray, fix_signs, unit_of_any_scale
from fedica.ica import Rotation, Whitening
from fedica.local.unmixing import Unmixing
from fedica.records import Contribution, ordered_by_content

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
    "doubts_",
)
"""Attributes that a fit sets."""


class FittedICA(Unmixing):
    """A client with its mixing matrix, ``X ~ S @ mixing_.T + mean_``. `LocalICA` implements `fit`."""

    independence: str
    mixing: str

    def contribution(
        self,
        client: str,
        *,
        features: Sequence[str] | None = None,
        study: str | None = None,
        strengths: bool = False,
        **fields: Any,
    ) -> Contribution:
        """Pack the atoms for the server, in an order that tells nothing but their directions: sorted by their entries.

        Parameters
        ----------
        client : str
            Name of this client.
        features : sequence of str, optional
            Names of the features; by default those that the data had.
        study : str, optional
            Id of the study.
        strengths : bool
            Whether ``gram`` and ``noise_floor`` go along, which ``method="group"`` of the server uses: second-order
            information, from which the covariance of the data can be computed at as many dimensions as there are atoms.
        **fields
            Any other field of `Contribution`: ``reference``, ``grid``, ``persons``, ``extra`` and so on; ``gram`` and
            ``uncertain`` in the order of ``atoms_``. By default ``uncertain`` has the atoms of ``doubts_``.

        Returns
        -------
        contribution : Contribution
            All that leaves the client.
        """
        check_is_fitted(self)
        if features is None:
            features = self._names()
        uncertain = sorted({k for doubt in self.doubts_ for k in doubt.pair})
        if uncertain:
            fields = {"uncertain": uncertain, **fields}
        if strengths:
            fields = {"gram": self._gram(), "noise_floor": self.whitening_.noise_floor, **fields}
        found = Contribution(
            client,
            self.atoms_,
            self.n_samples_,
            features=features,
            solver=self.solver_,
            independence=self.independence,
            mixing=self.mixing,
            study=study,
            **fields,
        )
        return ordered_by_content(found)

    def _gram(self) -> Array:
        """Return G, (r_k, r_k), such that atoms G atoms' is the covariance of the data at rank r_k.

        ``atoms * norms`` is the mixing matrix, whatever rotation the solver chose, and the sources' covariance is that
        of the whitened data, the identity, in their coordinates.
        """
        norms = np.linalg.norm(self.mixing_, axis=0)
        half = norms[:, None] * (self.components_ @ self.whitening_.unwhitener)
        return np.asarray(half @ half.T)  # (G1)

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
        self.atoms_: Array = unit_of_any_scale(mixing)
        self.mixing_ = mixing
        self.components_ = components * signs[:, None]
        self.mean_ = whitening.mean
        self.explained_variance_: Array = explained[order]
        self.whitening_ = whitening
        self.n_iter_ = rotation.n_iter
        self.n_samples_ = whitening.n_samples
        self.n_passes_ = n_passes
        self.solver_ = solver
        place = np.argsort(order)
        self.doubts_ = tuple(replace(doubt, pair=_ascending(place, doubt.pair)) for doubt in rotation.doubts)
        return self


def _ascending(place: IntArray, pair: tuple[int, int]) -> tuple[int, int]:
    """Return the new places of two components, the smaller first."""
    first, second = sorted(int(place[k]) for k in pair)
    return first, second

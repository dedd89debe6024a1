"""Real data, and simulated laws beside it, as what every solver is given: a matrix, what is independent, two halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from client_side import LAWS, draw
from real_sets import fmri_series

from fedica.arrays import Array, unit
from fedica.blocks import rows_of
from fedica.datasets import fetch_ecoli
from fedica.ica import Whitened, Whitening, whiten
from fedica.ica.contrast import slope_at
from fedica.simulate.photographs import differences, load_photographs, photograph_federation


@dataclass(frozen=True, eq=False)
class Problem:
    """Data for ICA.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The data.
    independence : {"samples", "features"}
        Over what its sources are independent.
    halved_in_time : bool
        Whether its halves are the first and the second rows; else every other row.
    """

    X: Array
    independence: str = "samples"
    halved_in_time: bool = False

    def halves(self) -> list[Problem]:
        """Return the two halves."""
        parts = np.array_split(self.X, 2) if self.halved_in_time else [self.X[::2], self.X[1::2]]
        return [replace(self, X=np.ascontiguousarray(part)) for part in parts]

    def whitening(self, r: int) -> Whitening:
        """Return the leading directions."""
        return whiten(rows_of(self.X), r)[0]

    def white(self, r: int) -> Array:
        """Return what is rotated, (n, r): white samples, or white maps over features."""
        found = self.whitening(r)
        if self.independence == "samples":
            return Whitened(rows_of(self.X), found).array()
        return np.asarray(found.basis * np.sqrt(found.basis.shape[0]))

    def gradient(self, rotation: Array, r: int) -> float:
        """Return the largest entry of the gradient at a rotation (r, r) of what is white."""
        return slope_at(Whitened(rows_of(self.white(r))), rotation).largest

    def atoms(self, rotation: Array, r: int) -> Array:
        """Return the atoms of a rotation, (d, r), unit columns."""
        found = self.whitening(r)
        return unit((found.unwhitener if self.independence == "samples" else found.basis) @ rotation)


@dataclass(frozen=True)
class Kind:
    """How a data set is made for r components, at which sizes, and whether the quick version has it."""

    make: Callable[[int], Problem]
    sizes: tuple[int, ...]
    quick: bool = False

    def __call__(self, r: int) -> Problem:
        """Return the data."""
        return self.make(r)


def _fmri(_: int) -> Problem:
    return Problem(np.concatenate(fmri_series()), "features", halved_in_time=True)


def _ecoli(_: int) -> Problem:
    return Problem(fetch_ecoli().expression, "features")


def _photographs(_: int) -> Problem:
    return Problem(differences(photograph_federation(load_photographs(), random_state=0).mixtures))


def _law(law: str) -> Kind:
    return Kind(lambda r: Problem(draw(100_000, r, 0, law)[0]), (20, 60))


PROBLEMS: dict[str, Kind] = {
    "fMRI, one slice, twelve runs": Kind(_fmri, (10, 20), quick=True),
    "E. coli, 278 cultures": Kind(_ecoli, (30, 60)),
    "six mixed photographs": Kind(_photographs, (6,), quick=True),
    **{f"{law} sources": _law(law) for law in LAWS},
}

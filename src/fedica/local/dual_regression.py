"""Dual regression: a client's own time courses of the group's maps, and its own maps of these time courses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import pinv
from scipy.stats import norm
from scipy.stats import t as student_t

from fedica.arrays import Array, IntArray, check_data
from fedica.errors import DataError
from fedica.local.recover import recover


@dataclass(frozen=True, eq=False)
class DualRegression:
    """A client's own time courses and maps of the group's components.

    Parameters
    ----------
    time_courses : ndarray of shape (n_samples, m)
        Least squares of every sample on the group's maps.
    maps : ndarray of shape (d, m)
        Least squares of every feature on these time courses, each scaled to variance one: in the units of the data.
    z : ndarray of shape (d, m)
        The t statistic of each entry of ``maps``, as the value of a normal variable that is as improbable; at most 37.
    labels : ndarray of shape (m,)
        Which components they are, ascending: all whose map is not zero.
    mean : ndarray of shape (d,)
        Subtracted from the data.
    """

    time_courses: Array
    maps: Array
    z: Array
    labels: IntArray
    mean: Array


def dual_regression(X: ArrayLike, mixing: ArrayLike, *, atoms: ArrayLike | None = None) -> DualRegression:
    """Regress a client's data on the group's maps, then on the time courses that this gives.

    Parameters
    ----------
    X : array-like of shape (n_samples, d)
        The client's data; the mean of every feature is subtracted.
    mixing : array-like of shape (d, r)
        The group's maps: ``mixing`` of a result of spatial ICA.
    atoms : array-like of shape (d, r_k), optional
        The client's own atoms, where it has fewer components than the group, as in `recover`.

    Returns
    -------
    own : DualRegression
        Time courses, maps and z-values.

    Raises
    ------
    DataError
        If X has other features than the maps, or not at least two samples more than components.

    See Also
    --------
    recover : The first of the two regressions alone.
    """
    data = check_data(X)
    found = recover(data, mixing, atoms=atoms)
    n_samples, m = found.sources.shape
    if n_samples < m + 2:
        raise DataError(
            f"own maps of {m} components need at least {m + 2} samples, so that their error can be told; got "
            f"{n_samples}."
        )
    deviations = found.sources.std(axis=0)
    courses = found.sources / np.where(deviations > 0, deviations, 1.0)
    inverse = np.asarray(pinv(courses))
    centred = data - found.mean
    maps = (inverse @ centred).T
    n_free = n_samples - 1 - int(np.linalg.matrix_rank(courses))
    variances = ((centred - courses @ maps.T) ** 2).sum(axis=0) / n_free
    errors = np.sqrt(np.outer(variances, (inverse**2).sum(axis=1)))
    t = np.divide(maps, errors, out=np.zeros_like(maps), where=errors > 0)
    return DualRegression(found.sources, maps, _z_of_t(t, n_free), found.labels, found.mean)


def _z_of_t(t: Array, n_free: int) -> Array:
    """Return the values of a normal variable that are as improbable as these of Student's t."""
    tail = np.maximum(student_t.sf(np.abs(t), n_free), np.finfo(np.float64).tiny)
    return np.asarray(np.sign(t) * norm.isf(tail))

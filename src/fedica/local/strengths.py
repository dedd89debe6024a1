"""Strengths of atoms that another tool found: their Gram matrix and the noise floor, from the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedica.arrays import Array, check_atoms, check_data
from fedica.blocks import rows_of
from fedica.ica.whitening import choose_rank_tol, whiten
from fedica.local.recover import recover

RANK_TOL = 1e-6
"""Directions along which the data deviates by less than this share of the largest deviation do not count."""


def strengths_of(X: ArrayLike, atoms: ArrayLike) -> tuple[Array, float]:
    """Return ``gram``, (r_k, r_k), and ``noise_floor`` of a `Contribution` with these atoms.

    The Gram matrix is that of the time courses that fit the data best: ``atoms @ gram @ atoms.T`` is the covariance of
    the data's part in the span of the atoms.

    Parameters
    ----------
    X : array-like of shape (n_samples, d)
        The data that the atoms were found from.
    atoms : array-like of shape (d, r_k)
        The atoms.

    Returns
    -------
    gram : ndarray of shape (r_k, r_k)
        In the order of the atoms.
    noise_floor : float
        Median variance of the data along its principal directions.
    """
    data, directions = check_data(X), check_atoms(atoms, "the atoms")
    found = recover(data, directions)
    gram = found.sources.T @ found.sources / len(data)
    variances = np.linalg.svd(data - found.mean, compute_uv=False) ** 2 / len(data)
    floor = np.median(variances[variances > RANK_TOL**2 * variances[0]]) if variances[0] > 0 else 0.0
    return (gram + gram.T) / 2, float(floor)


def n_maps_to_send(X: ArrayLike) -> int:
    """Return how many maps a client sends for its span to be pooled: half the rank of its data, rounded up.

    These are the directions above the noise floor; the others would not count (G2).

    Parameters
    ----------
    X : array-like of shape (n_samples, d)
        The client's data.

    Returns
    -------
    int
        At least one.
    """
    data = np.asarray(X)
    whitening, _ = whiten(rows_of(data), rank_tol=choose_rank_tol(data.dtype))
    return (whitening.deviations.size + 1) // 2

"""Random mixing matrices: orthonormal columns, or unit columns with a given condition number."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.stats import random_correlation

from fedica.arrays import Array, check_int, check_number, polar, unit


def random_mixing(n_features: int, n_components: int, *, condition: float, rng: np.random.Generator) -> Array:
    """Draw a (d, r) matrix with unit columns whose largest and smallest singular values have the ratio ``condition``.

    One: the nearest orthonormal matrix to a Gaussian one, as in the paper. Above: its Gram matrix is a random
    correlation matrix with geometrically spaced eigenvalues, so that scaling the columns to one does not change the
    condition number that was asked for.
    """
    r = check_int(n_components, "n_components", minimum=1)
    d = check_int(n_features, "n_features", minimum=r)
    ratio = check_number(condition, "condition", above=np.nextafter(1, 0), below=1e5)
    basis = polar(rng.standard_normal((d, r)))
    if ratio == 1 or r == 1:
        return basis
    eigenvalues = ratio ** np.linspace(2, 0, r)
    eigenvalues *= r / eigenvalues.sum()
    gram = random_correlation.rvs(eigenvalues, random_state=rng, tol=1e-9)
    values, vectors = eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return unit(basis @ root)

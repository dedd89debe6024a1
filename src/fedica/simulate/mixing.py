"""Random mixing matrices: orthonormal columns, or unit columns with a given condition number."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.stats import random_correlation

from fedica.arrays import Array, check_int, check_number, polar, unit


def random_mixing(n_features: int | None, n_components: int, *, condition: float, rng: np.random.Generator) -> Array:
    """Draw a (d, r) matrix with unit columns and the given condition number; d is r unless given.

    Condition 1: the orthonormal matrix nearest to a Gaussian one, as in the paper. Above: the Gram matrix is a random
    correlation matrix with geometrically spaced eigenvalues, so that the columns have unit norm without rescaling.
    """
    r = check_int(n_components, "n_components", minimum=1)
    d = check_int(r if n_features is None else n_features, "n_features", minimum=r)
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

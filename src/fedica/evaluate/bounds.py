"""The quantities of the paper's theory and the bounds they give, for atoms whose truth is known.

They are computed from the atoms and the true mixing matrix alone, before anything is aggregated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from fedica.arrays import Array, IntArray, check_finite_matrix, check_number, readonly, unit_of_any_scale
from fedica.errors import InputError
from fedica.matching import match_clients

GOOD_ATOM = np.sqrt(2) / 4
"""Where the condition holds, atoms with a smaller error are grouped and signed correctly."""


@dataclass(frozen=True, eq=False)
class Theory:
    """The quantities of the paper's theorems for one federation.

    Parameters
    ----------
    labels : ndarray of shape (R,)
        sigma*, Eq. (4): the true component of each atom; a client has at most one atom per component.
    signs : ndarray of shape (R,)
        xi*, Eq. (5): the sign that brings each atom nearest to its component.
    atom_errors : ndarray of shape (R,)
        eps_i^(k), Eq. (21): distance of each atom, signed, to its component.
    sizes : ndarray of shape (r,)
        n_a: atoms of each component.
    eps_a : ndarray of shape (r,)
        Mean square of the atom errors in each component, Eq. (22).
    eta_a : ndarray of shape (r,)
        Mean square error of the columns of M^(r) in each component, Eq. (19).
    orthonormal : bool
        Whether the true columns are orthonormal, as the theory assumes.
    """

    labels: IntArray
    signs: Array
    atom_errors: Array
    sizes: IntArray
    eps_a: Array
    eta_a: Array
    orthonormal: bool

    @property
    def eps(self) -> float:
        """The overall error of the atoms, Eq. (23)."""
        return float(self.eps_a.sum())

    @property
    def eta(self) -> float:
        """The overall error of M^(r), Eq. (19): r / R times its squared Frobenius norm."""
        return float(self.sizes @ self.eta_a * self.sizes.size / self.sizes.sum())

    @property
    def growth(self) -> float:
        """2 sqrt(eps) + eps, the term in all bounds."""
        return float(2 * np.sqrt(self.eps) + self.eps)

    @property
    def delta(self) -> float:
        """32 (2 sqrt(eps) + eps)^2: bound on the misclustered share of a group."""
        return 32 * self.growth**2

    @property
    def eta_bound(self) -> float:
        """4 (2 sqrt(eps) + eps)^2: an upper bound on eta in a balanced federation, Eq. (24)."""
        return 4 * self.growth**2

    @property
    def condition(self) -> float:
        """8 sqrt(14) (2 sqrt(eps) + eps): the theorems assume that it is at most one."""
        return float(8 * np.sqrt(14) * self.growth)

    @property
    def balanced(self) -> bool:
        """Whether all components have the same number of atoms, as the theory assumes."""
        return bool(np.all(self.sizes == self.sizes[0]))

    @property
    def holds(self) -> bool:
        """Whether all assumptions of the theorems hold."""
        return self.balanced and self.orthonormal and self.condition <= 1

    def quantile(self, p: float) -> Array:
        """Q_a(p) of every component, Eq. (31): the smallest value that at least p n_a of its errors do not exceed.

        Parameters
        ----------
        p : float
            Above 0 and at most 1.
        """
        share = check_number(p, "p", above=0, below=np.nextafter(1, 2))
        return np.array([z[int(np.ceil(share * z.size - 1e-9)) - 1] if z.size else np.nan for z in self._sorted()])

    @property
    def srf_bound(self) -> Array:
        """Bound on the error of each component of SRF-ICA, Eq. (34); infinite where there is none.

        Q_a is a step function and the factor before it decreases in p, so the minimum is at the right end of a step.
        """
        return np.array([_best_step(z, self.delta) for z in self._sorted()])

    @property
    def sf_bound(self) -> float:
        """Bound on the error of every component of SF-ICA, Eq. (35)."""
        return 3 * self.growth

    def _sorted(self) -> list[Array]:
        return [np.sort(self.atom_errors[self.labels == a]) for a in range(self.sizes.size)]


def theory(atoms: object, client_of_atom: object, truth: object) -> Theory:
    """Compute eps, eta, delta, the quantiles and the bounds of the paper's Section 4 from atoms and their truth.

    Forms the affinity of all pairs of atoms: meant for federations of up to a few thousand atoms.

    Parameters
    ----------
    atoms : array-like of shape (d, R)
        All clients' atoms side by side: ``Aggregate.atoms``.
    client_of_atom : array-like of int, shape (R,)
        The client of each atom, in ascending order: ``Aggregate.client_of_atom``.
    truth : array-like of shape (d, r)
        The true mixing matrix. Every client has at most r atoms.

    Returns
    -------
    Theory
        The quantities; the bounds are its properties.
    """
    columns, clients, true = _check_inputs(atoms, client_of_atom, truth)
    matched = match_clients(columns, clients, true)
    r = true.shape[1]
    if np.any(matched.labels < 0):
        crowded = clients[matched.labels < 0][0]
        raise InputError(
            f"a client may have at most r = {r} atoms; client {crowded} has {np.sum(clients == crowded)}. "
            "The theory assigns each atom to a component of its own."
        )
    errors = np.linalg.norm(columns * matched.signs - true[:, matched.labels], axis=0)  # Eq. (21)
    sizes = np.bincount(matched.labels, minlength=r)
    divisor = np.maximum(sizes, 1)
    eps_a = np.bincount(matched.labels, errors**2, minlength=r) / divisor  # Eq. (22)
    eta_a = np.bincount(matched.labels, _spectral_errors(columns, matched.labels, r), minlength=r) / divisor
    orthonormal = bool(np.allclose(true.T @ true, np.eye(r), atol=1e-8))
    labels, signs, errors, sizes, eps_a, eta_a = map(
        readonly, (matched.labels, matched.signs, errors, sizes, eps_a, eta_a)
    )
    return Theory(labels, signs, errors, sizes, eps_a, eta_a, orthonormal)


def _check_inputs(atoms: object, client_of_atom: object, truth: object) -> tuple[Array, IntArray, Array]:
    columns = unit_of_any_scale(check_finite_matrix(atoms, "atoms", "(n_features, n_atoms)"))
    true = unit_of_any_scale(check_finite_matrix(truth, "the true mixing matrix", "(n_features, n_components)"))
    clients = np.asarray(client_of_atom, dtype=np.int64)
    if columns.shape[0] != true.shape[0]:
        raise InputError(f"atoms must have the {true.shape[0]} features of the truth; got {columns.shape[0]}.")
    n_atoms = columns.shape[1]
    if clients.shape != (n_atoms,) or np.any(np.diff(clients) < 0):
        got = "unordered clients" if clients.shape == (n_atoms,) else f"shape {clients.shape}"
        raise InputError(
            f"client_of_atom must give the client of each of the {n_atoms} atoms, in ascending order; got {got}."
        )
    return columns, clients, true


def geometric_median_bound(distances: object, *, gamma: float = 0.0) -> float:
    """Bound the distance of any (1 + gamma)-approximate geometric median of points to a target.

    The smallest over 1/2 < p <= 1 of 2p / (2p - 1) Q(p) + gamma * mean(distances) / (2p - 1), the paper's
    lemma on the geometric median and its extension to approximate ones.

    Parameters
    ----------
    distances : array-like of shape (n,)
        Distance of each point to the target.
    gamma : float
        Relative excess of the median's objective over the optimum; zero: exact.

    Returns
    -------
    float
        The bound.
    """
    z = np.sort(np.asarray(distances, dtype=np.float64).ravel())
    if not z.size or not np.isfinite(z).all() or z[0] < 0:
        raise InputError(f"distances must be finite and not negative, at least one; got {distances!r}.")
    slack = check_number(gamma, "gamma", above=-np.finfo(float).tiny)
    p = np.arange(1, z.size + 1) / z.size
    more = p > 0.5
    return float(np.min((2 * p[more] * z[more] + slack * z.mean()) / (2 * p[more] - 1)))


def _best_step(z: Array, delta: float) -> float:
    """Minimise 2p / (2p - 1 - delta) Q(p) over p = m / n with Q(p) = z[m - 1] below `GOOD_ATOM`; z sorted."""
    p = np.arange(1, z.size + 1) / max(z.size, 1)
    fits = (2 * p > 1 + delta) & (z < GOOD_ATOM)
    return float(np.min(2 * p[fits] / (2 * p[fits] - 1 - delta) * z[fits], initial=np.inf))  # Eq. (33)


def _spectral_errors(atoms: Array, labels: IntArray, r: int) -> Array:
    """Return the squared distance of each column of M^(r) to its column of M*, Eq. (19): (R,)."""
    n_atoms = labels.size
    scale = np.sqrt(r / n_atoms)
    affinity = scale * np.abs(atoms.T @ atoms)  # Eq. (9)
    rank = min(r, n_atoms)
    values, vectors = eigh(affinity, subset_by_index=(n_atoms - rank, n_atoms - 1))
    difference = (vectors * values) @ vectors.T  # Eq. (10)
    difference[labels[:, None] == labels] -= scale  # minus M*
    return np.asarray(np.sum(difference**2, axis=0), dtype=np.float64)

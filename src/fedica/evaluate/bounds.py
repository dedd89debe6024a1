"""The quantities of the paper's theory, and the bounds they give, for atoms whose truth is known.

Computed from the atoms and the true mixing matrix alone: what the theorems promise before anything is aggregated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from fedica.arrays import Array, IntArray, check_finite_matrix, check_number, readonly, unit
from fedica.errors import InputError
from fedica.matching import match_clients

GOOD_ATOM = np.sqrt(2) / 4
"""An atom with a smaller error than this is grouped and signed right, where the condition holds."""


@dataclass(frozen=True, eq=False)
class Theory:
    """What the paper's theorems say of one federation.

    Parameters
    ----------
    labels : ndarray of shape (R,)
        sigma*, Eq. (4): the true component of each atom; a client gives each component at most one atom.
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

    def __post_init__(self) -> None:
        for name in ("labels", "signs", "atom_errors", "sizes", "eps_a", "eta_a"):
            object.__setattr__(self, name, readonly(getattr(self, name)))

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
        """2 sqrt(eps) + eps, which everything else is made of."""
        return float(2 * np.sqrt(self.eps) + self.eps)

    @property
    def delta(self) -> float:
        """32 (2 sqrt(eps) + eps)^2: the share of a group that can be misclustered."""
        return 32 * self.growth**2

    @property
    def eta_bound(self) -> float:
        """4 (2 sqrt(eps) + eps)^2, never below eta in a balanced federation, Eq. (24)."""
        return 4 * self.growth**2

    @property
    def condition(self) -> float:
        """8 sqrt(14) (2 sqrt(eps) + eps): the theorems speak where it is at most one."""
        return float(8 * np.sqrt(14) * self.growth)

    @property
    def balanced(self) -> bool:
        """Whether all components have as many atoms, as the theory assumes."""
        return bool(np.all(self.sizes == self.sizes[0]))

    @property
    def holds(self) -> bool:
        """Whether everything that the theorems ask for is given."""
        return self.balanced and self.orthonormal and self.condition <= 1

    def quantile(self, p: float) -> Array:
        """Q_a(p) of every component, Eq. (31): the smallest value that p n_a of its errors do not exceed.

        Parameters
        ----------
        p : float
            Between 0 and 1; 0 itself is not allowed.
        """
        share = check_number(p, "p", above=0, below=np.nextafter(1, 2))
        return np.array([z[int(np.ceil(share * z.size - 1e-9)) - 1] if z.size else np.nan for z in self._sorted()])

    @property
    def srf_bound(self) -> Array:
        """The bound on the error of each component of SRF-ICA, Eq. (34); infinite where there is none.

        Q_a is a step function and the factor before it falls with p, so only the right ends of the steps matter.
        """
        return np.array([_best_step(z, self.delta) for z in self._sorted()])

    @property
    def sf_bound(self) -> float:
        """The bound on the error of every component of SF-ICA, Eq. (35)."""
        return 3 * self.growth

    def _sorted(self) -> list[Array]:
        return [np.sort(self.atom_errors[self.labels == a]) for a in range(self.sizes.size)]


def theory(atoms: object, client_of_atom: object, truth: object) -> Theory:
    """Compute eps, eta, delta, the quantiles and the bounds of the paper's Section 4 from atoms and their truth.

    The affinity of all pairs of atoms is formed: meant for federations of up to a few thousand atoms.

    Parameters
    ----------
    atoms : array-like of shape (d, R)
        All clients' atoms side by side: ``Aggregate.atoms``.
    client_of_atom : array-like of int, shape (R,)
        The client of each atom, in rising order: ``Aggregate.client_of_atom``.
    truth : array-like of shape (d, r)
        The true mixing matrix. Every client has at most r atoms.

    Returns
    -------
    Theory
        The quantities, and what follows from them.
    """
    columns = unit(check_finite_matrix(atoms, "atoms", "(n_features, n_atoms)"))
    true = unit(check_finite_matrix(truth, "the true mixing matrix", "(n_features, n_components)"))
    clients = np.asarray(client_of_atom, dtype=np.int64)
    if columns.shape[0] != true.shape[0]:
        raise InputError(f"atoms must have the {true.shape[0]} features of the truth; {columns.shape[0]} came.")
    if clients.shape != (columns.shape[1],) or np.any(np.diff(clients) < 0):
        raise InputError(
            f"client_of_atom must give the client of each of the {columns.shape[1]} atoms, in rising order; "
            f"shape {clients.shape} came{'' if clients.shape != (columns.shape[1],) else ', not in order'}."
        )
    matched = match_clients(columns, clients, true)
    if np.any(matched.labels < 0):
        crowded = clients[matched.labels < 0][0]
        raise InputError(
            f"a client may have at most r = {true.shape[1]} atoms; client {crowded} has {np.sum(clients == crowded)}. "
            "The theory assigns each atom to a component of its own."
        )
    r = true.shape[1]
    errors = np.linalg.norm(columns * matched.signs - true[:, matched.labels], axis=0)  # Eq. (21)
    sizes = np.bincount(matched.labels, minlength=r)
    divisor = np.maximum(sizes, 1)
    return Theory(
        labels=matched.labels,
        signs=matched.signs,
        atom_errors=errors,
        sizes=sizes,
        eps_a=np.bincount(matched.labels, errors**2, minlength=r) / divisor,  # Eq. (22)
        eta_a=np.bincount(matched.labels, _spectral_errors(columns, matched.labels, r), minlength=r) / divisor,
        orthonormal=bool(np.allclose(true.T @ true, np.eye(r), atol=1e-8)),
    )


def geometric_median_bound(distances: object, *, gamma: float = 0.0) -> float:
    """Bound how far any (1 + gamma) geometric median of points is from a target, by the points' distances to it.

    The smallest over 1/2 < p <= 1 of 2p / (2p - 1) Q(p) + gamma * mean(distances) / (2p - 1), the paper's
    lemma on the geometric median and its extension to approximate ones.

    Parameters
    ----------
    distances : array-like of shape (n,)
        Distance of each point to the target.
    gamma : float
        How far the median is from optimal; zero: exact.

    Returns
    -------
    float
        The bound.
    """
    z = np.sort(np.asarray(distances, dtype=np.float64).ravel())
    if not z.size or not np.isfinite(z).all() or z[0] < 0:
        raise InputError(f"distances must be finite, not negative, at least one; {distances!r} came.")
    slack = check_number(gamma, "gamma", above=-np.finfo(float).tiny)
    p = np.arange(1, z.size + 1) / z.size
    more = p > 0.5
    return float(np.min((2 * p[more] * z[more] + slack * z.mean()) / (2 * p[more] - 1)))


def _best_step(z: Array, delta: float) -> float:
    """Minimise 2p / (2p - 1 - delta) Q(p) over p = m / n with Q(p) = z[m - 1] small enough; z sorted."""
    p = np.arange(1, z.size + 1) / max(z.size, 1)
    fits = (2 * p > 1 + delta) & (z < GOOD_ATOM)
    return float(np.min(2 * p[fits] / (2 * p[fits] - 1 - delta) * z[fits], initial=np.inf))  # Eq. (33)


def _spectral_errors(atoms: Array, labels: IntArray, r: int) -> Array:
    """Squared distance of each column of M^(r) to its column of M*, Eq. (19). Returns (R,)."""
    n_atoms = labels.size
    scale = np.sqrt(r / n_atoms)
    affinity = scale * np.abs(atoms.T @ atoms)  # Eq. (9)
    rank = min(r, n_atoms)
    values, vectors = eigh(affinity, subset_by_index=(n_atoms - rank, n_atoms - 1))
    difference = (vectors * values) @ vectors.T  # Eq. (10)
    difference[labels[:, None] == labels] -= scale  # minus M*
    return np.asarray(np.sum(difference**2, axis=0), dtype=np.float64)

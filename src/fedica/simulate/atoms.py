"""Federations of atoms with a known truth, drawn directly or fitted: what attacks modify and servers aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray, RandomState, check_int, readonly, unit
from fedica.errors import InputError
from fedica.matching import match
from fedica.records import Contribution
from fedica.simulate.coverage import draw_coverage
from fedica.simulate.error_laws import draw_errors
from fedica.simulate.mixing import random_mixing
from fedica.simulate.settings import client_name, not_negative, per_client
from fedica.simulate.sheet import Sheet
from fedica.simulate.streams import seed_of, stream


@dataclass(frozen=True, eq=False)
class AtomFederation:
    """The contribution of every client, with the truth of each atom.

    Parameters
    ----------
    contributions : tuple of Contribution
        One per client, sorted by name.
    mixing : ndarray of shape (d, r)
        The true mixing matrix, unit columns.
    labels : tuple of ndarray
        For each client, the true component of each atom; -1: none.
    signs : tuple of ndarray
        For each client, the sign that aligns each atom with its component.
    honest : ndarray of shape (K,)
        Whether each client is honest.
    sheet : Sheet, optional
        How the features lie beside one another, where they have places.
    """

    contributions: tuple[Contribution, ...]
    mixing: Array
    labels: tuple[IntArray, ...]
    signs: tuple[Array, ...]
    honest: BoolArray
    sheet: Sheet | None = None

    def components(self, k: int) -> IntArray:
        """Return the components of client k, without atoms of its own, in the order of its atoms."""
        return self.labels[k][self.labels[k] >= 0]

    def aligned(self, k: int) -> Array:
        """Return the atoms of client k, with signs aligned to their components: (d, r_k)."""
        return np.asarray(self.contributions[k].atoms * self.signs[k])

    def honest_atoms(self, component: int) -> Array:
        """Return all honest clients' atoms of a component, with aligned signs: (d, n)."""
        columns = [self.aligned(k)[:, self.labels[k] == component] for k in np.flatnonzero(self.honest).tolist()]
        return np.concatenate([np.empty((self.mixing.shape[0], 0)), *columns], axis=1)

    def honest_mean(self, weights: Sequence[Array] | None = None) -> Array:
        """Return the mean of the honest clients' atoms with the true labels, scaled to unit norm: (d, r).

        An oracle's answer, for comparison; a component that no honest client has is zero. weights : of each client's
        atoms, (r_k,) each; all one by default.
        """
        sums = np.zeros_like(self.mixing)
        for k in np.flatnonzero(self.honest).tolist():
            known = self.labels[k] >= 0
            weighed = self.aligned(k) if weights is None else self.aligned(k) * weights[k]
            np.add.at(sums.T, self.labels[k][known], weighed[:, known].T)
        return unit(sums)


def atoms_federation(
    n_clients: int = 30,
    n_components: int = 10,
    *,
    n_features: int | None = None,
    error: float | Sequence[float] = 0.03,
    error_law: str = "equal",
    n_samples: int | Sequence[int] = 5000,
    components_per_client: int | Sequence[int] | None = None,
    coverage_skew: float = 1.0,
    condition: float = 1.0,
    declare_mixing: bool = True,
    random_state: RandomState = 0,
) -> AtomFederation:
    """Draw atoms directly, as unit columns of A (I + error E) with E standard Gaussian, without data or fitting.

    ICA is equivariant: the errors of a client with mixing A are A times those it would make on unmixed sources. So
    this, and not A plus noise, is how local fits err for a general A. A client that has only some of the components
    also errs towards the others: they are present, but too weak to be found.

    Parameters
    ----------
    n_clients : int
        K.
    n_components : int
        r.
    n_features : int, optional
        d, at least r; r by default.
    error : float or sequence of float
        Standard deviation of the leakage from one source into another, at each client.
    error_law : {"equal", "clients", "components", "both", "heavy-tailed"}
        Which levels vary: log-normally (0.6 in the logarithm, median one) over clients, over components, or over both;
        "heavy-tailed": errors of an atom have Student's t law, with 3 degrees of freedom.
    n_samples : int or sequence of int
        Declared number of samples; the atoms do not depend on it.
    components_per_client, coverage_skew, condition, random_state
        As in `fedica.simulate.federation`.
    declare_mixing : bool
        Whether clients declare that the mixing is orthogonal (condition 1) or general; otherwise they declare nothing.

    Returns
    -------
    AtomFederation
        The contributions, each with random order and signs, and the truth.
    """
    k_clients, seed = check_int(n_clients, "n_clients", minimum=1), seed_of(random_state)
    mixing = random_mixing(n_features, n_components, condition=condition, rng=stream(seed, "mixing"))
    rng = stream(seed, "coverage")
    coverage = draw_coverage(k_clients, n_components, components_per_client, skew=coverage_skew, rng=rng)
    errors = [not_negative(e, "error") for e in per_client(error, k_clients, "error")]
    samples = per_client(n_samples, k_clients, "n_samples")
    kind = ("orthogonal" if condition == 1 else "general") if declare_mixing else None

    contributions, labels, signs = [], [], []
    for k, seen in enumerate(coverage):
        rng = stream(seed, "atoms", k)
        drawn = draw_errors(error_law, k, seen, n_components, seed=seed, rng=rng)
        leak = np.eye(n_components)[:, seen] + errors[k] * drawn
        order, sign = signed_permutation(seen.size, rng)
        atoms = (unit(mixing @ leak) * sign)[:, order]
        contributions.append(Contribution(client_name(k, k_clients), atoms, samples[k], mixing=kind))
        labels.append(seen[order])
        signs.append(sign[order])
    return all_honest(contributions, mixing, labels, signs)


def with_truth(contributions: Sequence[Contribution], mixing: Array, components: Sequence[IntArray]) -> AtomFederation:
    """Return fitted contributions with their truth: each client's atoms matched to the true columns it has.

    Parameters
    ----------
    contributions : sequence of Contribution
        One per client.
    mixing : ndarray of shape (d, r)
        The true mixing matrix.
    components : sequence of ndarray
        Indices of the true columns of each client.
    """
    if len(components) != len(contributions):
        raise InputError(f"components must be given for {len(contributions)} clients; got {len(components)}.")
    truth = unit(mixing)
    by_name = sorted(zip(contributions, components, strict=True), key=lambda pair: pair[0].client)
    labels, signs = [], []
    for contribution, seen in by_name:
        matched = match(contribution.atoms, truth[:, seen])
        labels.append(np.where(matched.labels >= 0, np.asarray(seen)[matched.labels], -1))
        signs.append(matched.signs)
    return all_honest([contribution for contribution, _ in by_name], truth, labels, signs)


def all_honest(
    contributions: Sequence[Contribution],
    mixing: Array,
    labels: Sequence[IntArray],
    signs: Sequence[Array],
    sheet: Sheet | None = None,
) -> AtomFederation:
    """Return the federation in which nobody attacks."""
    honest = readonly(np.ones(len(contributions), dtype=bool))
    return AtomFederation(tuple(contributions), readonly(mixing), tuple(labels), tuple(signs), honest, sheet)


def scramble(contribution: Contribution, rng: np.random.Generator) -> Contribution:
    """Put a contribution's atoms into a random order with random signs, which ICA leaves undetermined."""
    order, sign = signed_permutation(contribution.n_atoms, rng)
    return replace(contribution, atoms=(contribution.atoms * sign)[:, order])


def signed_permutation(n_atoms: int, rng: np.random.Generator) -> tuple[IntArray, Array]:
    """Draw an order and signs: ``(atoms * signs)[:, order]`` is the scrambled matrix."""
    return rng.permutation(n_atoms).astype(np.int64), rng.choice(np.array([-1.0, 1.0]), n_atoms)

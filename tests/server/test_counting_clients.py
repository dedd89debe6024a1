"""How many clients have a part in a component, and what is made of components that would be one client's own."""

from __future__ import annotations

import numpy as np
import pytest

from fedica import Contribution, aggregate
from fedica.server.centres import count_clients, count_weighted_clients, narrow_components


def test_a_client_counts_by_its_weight():
    """Two atoms of one client count once; a weight of nothing, or of a thousandth of the largest, is no weight."""
    owner = np.array([0, 0, 1, 2, 2, 3])
    labels = np.array([0, 0, 0, 0, 1, -1])
    weights = np.array([1.0, 0.5, 0.02, 0.001, 0.3, 1.0])
    assert count_clients(labels, owner, 2).tolist() == [3, 1]
    assert count_weighted_clients(labels, weights, owner, 2).tolist() == [2, 1]
    assert narrow_components(labels, weights, owner, 2).tolist() == [True, False]
    assert narrow_components(labels, np.ones(6), owner, 2).tolist() == [False, False]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_clients", [2, 3, 4])
def test_the_columns_of_few_clients_are_nobodys_atoms(make_federation, n_clients, seed):
    """Where the weights would leave one or two of those that match, their atoms are averaged."""
    contributions, truth, _ = make_federation(4, n_clients, d=12, noise=0.04, seed=seed)
    result = aggregate(contributions, 4)
    assert result.support.tolist() == [n_clients] * 4
    assert result.weighted_support.min() >= min(n_clients, 3)
    for contribution in contributions:
        cosines = np.abs(contribution.atoms.T @ result.mixing)
        assert cosines.max() < 1 - 1e-6
    assert np.abs(truth.T @ result.mixing).max(axis=0).min() > 0.99


def test_where_the_weights_are_shared_nothing_is_averaged_anew(make_federation):
    """Twelve clients that agree: all components are those of many."""
    contributions, _, _ = make_federation(5, 12, noise=0.05)
    result = aggregate(contributions, 5)
    assert result.weighted_support.min() >= 6
    assert np.all(result.weighted_support <= result.support)


def test_a_median_that_is_one_clients_atom_has_one_client_that_counts():
    """A geometric median can lie on an atom: the others then have no weight."""
    atoms = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    turned = [np.array([[np.cos(t), 0.0], [np.sin(t), 0.0], [0.0, 1.0]]) for t in (-0.02, 0.0, 0.3)]
    result = aggregate([Contribution(f"c{k}", x, 10) for k, x in enumerate(turned)], 2, method="srf-ica")
    own = np.flatnonzero(np.abs(atoms[:, 0] @ result.mixing) > 1 - 1e-9)
    assert result.weighted_support[own].tolist() == [1]
    assert result.support[own].tolist() == [3]

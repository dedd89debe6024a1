"""Components that replicate are told from those that each client has of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedica import Contribution, aggregate
from fedica.arrays import polar, unit


def clients_that_share(n_shared, seed, *, K=20, r=6, d=64, cosine=0.7):
    """Clients whose maps span the same r directions; n_shared of the maps are the same, the others turned at random."""
    rng = np.random.default_rng(seed)
    truth = polar(rng.standard_normal((d, r)))
    sent = []
    for k in range(K):
        own = truth[:, n_shared:] @ polar(rng.standard_normal((r - n_shared, r - n_shared)))
        noise = unit(rng.standard_normal((d, r)))
        maps = cosine * np.hstack([truth[:, :n_shared], own]) + np.sqrt(1 - cosine**2) * noise
        sent.append(Contribution(f"client-{k:02d}", maps[:, rng.permutation(r)], 1000))
    return sent, truth[:, :n_shared]


def found_again(sent, r=6):
    return aggregate(sent, r, replication=True)


@pytest.mark.parametrize("seed", range(4))
def test_clients_that_share_nothing_replicate_nothing(seed):
    """Each has its own rotation of one span: whatever a method makes of them, it is nobody else's."""
    sent, _ = clients_that_share(0, seed)
    assert not found_again(sent).replicates.any()


@pytest.mark.parametrize("seed", range(3))
def test_what_is_shared_is_found_and_nothing_else(seed):
    """Half of the components are the same for all."""
    sent, shared = clients_that_share(3, seed)
    result = found_again(sent)
    true = np.abs(shared.T @ result.mixing).max(axis=0) > 0.9
    assert true.sum() == 3
    assert np.array_equal(result.replicates, true)


def test_all_components_may_replicate():
    """Also the last, when one atom of each client is left."""
    sent, _ = clients_that_share(5, 0)  # one map turned within one dimension is the same map
    assert found_again(sent).replicates.all()
    one = [Contribution(c.client, c.atoms[:, :1], 1000) for c in clients_that_share(5, 1)[0]]
    same = [replace(c, atoms=one[0].atoms + 0.1 * c.atoms) for c in one]
    assert found_again(same, 1).replicates.tolist() == [True]


def test_it_is_told_only_when_asked_and_where_clients_are_enough():
    """Five clients make no two halves."""
    sent, _ = clients_that_share(3, 0)
    assert aggregate(sent, 6).replicates is None
    assert found_again(sent[:5]).replicates is None


def test_names_and_order_of_clients_do_not_matter():
    """The halves are drawn by content."""
    sent, _ = clients_that_share(3, 1)
    renamed = [replace(c, client=f"x{k}") for k, c in enumerate(reversed(sent))]
    assert np.array_equal(found_again(sent).replicates, found_again(renamed).replicates)


def test_the_test_changes_no_number_of_the_result():
    """It is made afterwards."""
    sent, _ = clients_that_share(3, 2)
    assert np.array_equal(found_again(sent).mixing, aggregate(sent, 6).mixing)

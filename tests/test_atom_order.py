"""The order of the atoms in a contribution tells nothing of how strong the sources are, and decides nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedica import Contribution, LocalICA, aggregate
from fedica.records import ordered_by_content
from fedica.server import METHODS
from fedica.simulate import atoms_federation


def test_other_strengths_give_the_same_order():
    """Sources made stronger or weaker are found in another order, and sent in the same."""
    rng = np.random.default_rng(0)
    sources, mixing = rng.laplace(size=(20_000, 4)), np.linalg.qr(rng.standard_normal((6, 4)))[0]
    fits = [
        LocalICA(4, random_state=0).fit((sources * strengths) @ mixing.T)
        for strengths in ([2.5, 2.0, 1.5, 1.0], [1.0, 1.5, 2.0, 2.5])
    ]
    ranked = [np.abs(fit.atoms_.T @ mixing).argmax(axis=1).tolist() for fit in fits]
    assert ranked[0] == ranked[1][::-1]  # a fit ranks the strengths
    sent = [fit.contribution("c").atoms for fit in fits]
    np.testing.assert_allclose(sent[0], sent[1], atol=0.05)


def test_what_belongs_to_an_atom_moves_with_it():
    """The Gram matrix of the sources, and which atoms are not certain."""
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((3, 3))
    sent = Contribution("c", rng.standard_normal((5, 3)), 10, gram=factor @ factor.T, uncertain=[2])
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        place = order.index(2)
        shuffled = replace(sent, atoms=sent.atoms[:, order], gram=sent.gram[np.ix_(order, order)], uncertain=[place])
        one, other = ordered_by_content(sent), ordered_by_content(shuffled)
        np.testing.assert_array_equal(one.atoms, other.atoms)
        np.testing.assert_array_equal(one.gram, other.gram)
        assert one.uncertain == other.uncertain
        np.testing.assert_array_equal(one.atoms[:, one.uncertain[0]], sent.atoms[:, 2])


@pytest.mark.parametrize(
    "method",
    ["consensus", *(name for name, method in METHODS.items() if method.in_paper and not name.startswith("naive"))],
)
def test_the_result_does_not_depend_on_it(method):
    """Sorted by content or not: the same components. (The naive methods compare the k-th atoms of all clients.)"""
    sent = atoms_federation(8, 3, n_features=5, random_state=0).contributions
    one, other = aggregate(sent, 3, method=method), aggregate(list(map(ordered_by_content, sent)), 3, method=method)
    cosines = np.abs(one.mixing.T @ other.mixing)
    np.testing.assert_allclose(cosines.max(axis=1), 1.0, atol=1e-6)

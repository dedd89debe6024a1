"""Signed linear assignment."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedica.arrays import unit
from fedica.matching import match, match_clients


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 4), r=st.integers(1, 4))
def test_no_other_assignment_is_better(seed, m, r):
    """Against all assignments, one by one, also when atoms compete or are too many."""
    rng = np.random.default_rng(seed)
    atoms, reference = unit(rng.standard_normal((3, m))), unit(rng.standard_normal((3, r)))
    found = match(atoms, reference)
    strength = np.abs(atoms.T @ reference)
    if m <= r:
        best = max(sum(strength[i, p[i]] for i in range(m)) for p in permutations(range(r), m))
    else:
        best = max(sum(strength[p[j], j] for j in range(r)) for p in permutations(range(m), r))
    used = found.labels[found.labels >= 0]
    assert len(set(used)) == used.size == min(m, r)
    assert np.isclose(found.cosines.sum(), best)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_signs_turn_every_atom_along_its_column(seed):
    """Matched atoms times their signs have a positive cosine."""
    rng = np.random.default_rng(seed)
    atoms, reference = unit(rng.standard_normal((5, 6))), unit(rng.standard_normal((5, 4)))
    found = match(atoms, reference)
    along = np.einsum("dm,dm->m", atoms * found.signs, reference[:, found.labels])
    assert np.allclose(along[found.labels >= 0], found.cosines[found.labels >= 0])
    assert np.all(found.cosines[found.labels < 0] == 0)


def test_clients_are_matched_each_by_itself():
    """All clients at once equal one after the other."""
    rng = np.random.default_rng(0)
    reference = unit(rng.standard_normal((6, 6)))
    sizes = [3, 6, 1, 8]
    blocks = [unit(rng.standard_normal((6, n))) for n in sizes]
    together = match_clients(np.hstack(blocks), np.repeat(np.arange(4), sizes), reference)
    alone = [match(b, reference) for b in blocks]
    assert np.array_equal(together.labels, np.concatenate([a.labels for a in alone]))
    assert np.array_equal(together.signs, np.concatenate([a.signs for a in alone]))

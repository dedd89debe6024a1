"""Leans whose shape is searched."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.errors import OptionError
from fedica.simulate import atoms_federation
from fedica.simulate.lean import Lean, search_lean


@pytest.fixture(scope="module")
def honest():
    return atoms_federation(20, 6, condition=5, random_state=2)


def leaks_of(federation, k):
    """Atoms of a client in terms of the true components, in their order: (r, r), one on the diagonal."""
    sources = np.linalg.pinv(federation.mixing) @ federation.contributions[k].atoms
    sources = sources[:, np.argsort(np.argmax(np.abs(sources), axis=0))]
    return sources / np.diag(sources)


def test_attackers_share_a_lean_of_the_length_asked_for(honest):
    """Its length is that many typical errors beyond the honest mean; two attackers differ by the jitter alone."""
    none, far = (Lean(size)(honest, 0.2, random_state=1) for size in (0.0, 2.0))
    first, second = np.flatnonzero(~far.honest)[:2]
    shift = np.linalg.norm(leaks_of(far, first) - leaks_of(none, first), axis=0)
    usual = [
        np.median([np.linalg.norm(np.delete(leaks_of(honest, k)[:, a], a)) for k in np.flatnonzero(far.honest)])
        for a in range(6)
    ]
    np.testing.assert_allclose(shift, 2 * np.array(usual), rtol=0.02)
    np.testing.assert_allclose(leaks_of(far, first), leaks_of(far, second), atol=1e-4)
    assert not np.array_equal(np.sort(far.contributions[first].atoms), np.sort(far.contributions[second].atoms))


def test_a_share_of_the_components_leans(honest):
    """Half of them, the first ones; the others are the honest mean."""
    none, half = (Lean(size, share=0.5)(honest, 0.2, random_state=1) for size in (0.0, 1.0))
    k = np.flatnonzero(~half.honest)[0]
    shift = np.linalg.norm(leaks_of(half, k) - leaks_of(none, k), axis=0)
    assert np.all(shift[:3] > 0.02)
    assert np.all(shift[3:] < 1e-4)


def test_steps_are_a_chain_and_scatter_is_each_ones_own(honest):
    """In two steps the first attacker leans half as far as the second; with scatter no two are alike."""
    none, chain, scattered = (
        lean(honest, 0.2, random_state=1) for lean in (Lean(0.0), Lean(1.0, steps=2), Lean(1.0, scatter=0.5))
    )
    first, second = np.flatnonzero(~chain.honest)[:2]
    shifts = [leaks_of(chain, k) - leaks_of(none, k) for k in (first, second)]
    np.testing.assert_allclose(2 * shifts[0], shifts[1], atol=1e-4)
    assert np.abs(leaks_of(scattered, first) - leaks_of(scattered, second)).max() > 0.01


def test_the_search_finds_the_most_harmful_shape():
    """A measure of harm with a known maximum: size 2, every component, three steps."""

    def harm(lean):
        return -((lean.size - 2) ** 2) - (lean.share - 1) ** 2 + lean.steps

    found = search_lean(harm, 300, random_state=0)
    assert found.steps == 3
    assert found.size == pytest.approx(2, abs=0.2)
    assert found.share == pytest.approx(1, abs=0.2)
    assert found == search_lean(harm, 300, random_state=0)
    assert search_lean(harm, 1) == Lean()


def test_a_search_tries_something():
    """Not nothing."""
    with pytest.raises(OptionError, match="evaluations"):
        search_lean(lambda _: 0.0, 0)

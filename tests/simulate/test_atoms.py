"""Simulated federations of atoms."""

from __future__ import annotations

import numpy as np
import pytest

from fedica.arrays import unit
from fedica.errors import InputError, OptionError
from fedica.evaluate import recovery_error
from fedica.records import Contribution
from fedica.simulate import atoms_federation, error_levels, scramble, with_truth


@pytest.mark.parametrize("condition", [1.0, 30.0])
def test_labels_and_signs_are_the_truth(condition):
    """With no error, signing and ordering the atoms by the truth gives the mixing matrix back."""
    drawn = atoms_federation(5, 4, n_features=6, error=0, condition=condition, components_per_client=3)
    for k, contribution in enumerate(drawn.contributions):
        np.testing.assert_allclose(drawn.aligned(k), drawn.mixing[:, drawn.labels[k]], atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(contribution.atoms, axis=0), 1)
    assert recovery_error(drawn.honest_mean(), drawn.mixing).frobenius < 1e-12


def test_errors_are_equivariant():
    """The leaks of a general mixing are those of the orthonormal one with the same seed."""
    general, orthogonal = (atoms_federation(6, 4, condition=c, random_state=2) for c in (30.0, 1.0))

    def leaks(drawn, k):
        sources = np.linalg.pinv(drawn.mixing) @ drawn.aligned(k)[:, np.argsort(drawn.labels[k])]
        return sources / np.diag(sources)  # the scale of a column is not an error

    for k in range(6):
        np.testing.assert_allclose(leaks(general, k), leaks(orthogonal, k), atol=1e-9)


def test_error_level_is_the_standard_deviation_of_a_leak():
    """At 0.03 and r = 10 an orthonormal atom is off by 0.03 sqrt(9)."""
    drawn = atoms_federation(200, 10, error=0.03)
    errors = [np.linalg.norm(drawn.aligned(k) - drawn.mixing[:, drawn.labels[k]], axis=0) for k in range(200)]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(0.09, rel=0.03)


def test_order_and_signs_are_random_at_every_client():
    """Over many clients every position holds every component, with both signs."""
    drawn = atoms_federation(200, 3)
    positions = np.stack(drawn.labels)
    assert all(np.unique(positions[:, i]).size == 3 for i in range(3))
    assert np.mean(np.concatenate(drawn.signs)) == pytest.approx(0, abs=0.15)


def test_honest_mean_leaves_attackers_out():
    """The oracle averages the honest clients' atoms of each component, and nobody else's."""
    drawn = atoms_federation(6, 3, random_state=4)
    drawn = type(drawn)(drawn.contributions, drawn.mixing, drawn.labels, drawn.signs, np.array([True, True, False] * 2))
    expected = np.stack([drawn.honest_atoms(a).mean(axis=1) for a in range(3)], axis=1)
    assert drawn.honest_atoms(0).shape == (3, 4)
    np.testing.assert_allclose(drawn.honest_mean(), unit(expected), atol=1e-12)


def test_scrambling_keeps_the_atoms_up_to_order_and_sign():
    """A signed permutation, and nothing else, is applied; everything else of the contribution stays."""
    rng = np.random.default_rng(0)
    original = Contribution("a", unit(rng.standard_normal((5, 4))), 77, solver="l4", mixing="orthogonal")
    moved = scramble(original, rng)
    gram = np.abs(moved.atoms.T @ original.atoms)
    np.testing.assert_allclose(np.sort((gram > 1 - 1e-12).sum(axis=0)), 1)
    assert np.any(moved.atoms != original.atoms)
    assert (moved.client, moved.n_samples, moved.solver, moved.mixing) == ("a", 77, "l4", "orthogonal")


def test_the_truth_of_fitted_atoms_is_found_by_matching():
    """with_truth gives the labels and signs that the generator knows, also for clients out of order."""
    drawn = atoms_federation(5, 6, components_per_client=4, random_state=3)
    components = [np.sort(labels) for labels in drawn.labels]
    found = with_truth(drawn.contributions[::-1], drawn.mixing, components[::-1])
    for k in range(5):
        np.testing.assert_array_equal(found.labels[k], drawn.labels[k])
        np.testing.assert_array_equal(found.signs[k], drawn.signs[k])
    with pytest.raises(InputError, match="for 5 clients; got 2"):
        with_truth(drawn.contributions, drawn.mixing, components[:2])


def leaks(drawn, k):
    """Errors of client k in terms of the true components, columns in the order of the components."""
    sources = np.linalg.pinv(drawn.mixing) @ drawn.aligned(k)[:, np.argsort(drawn.labels[k])]
    return sources / np.diag(sources) - np.eye(len(sources))


@pytest.mark.parametrize(
    ("law", "over_clients", "over_components"),
    [
        ("equal", False, False),
        ("clients", True, False),
        ("components", False, True),
        ("both", True, True),
        ("heavy-tailed", False, False),
    ],
)
def test_error_levels_vary_where_the_law_says(law, over_clients, over_components):
    """Log-normal with 0.6: the logarithms of the levels of clients, or of components, have that deviation."""
    drawn = atoms_federation(80, 40, error=0.001, error_law=law, random_state=3)
    levels = np.log([np.linalg.norm(leaks(drawn, k), axis=0) for k in range(80)])
    for axis, varies in ((1, over_clients), (0, over_components)):
        spread = np.std(np.median(levels, axis=axis))
        assert (spread > 0.4) == varies
        assert (spread < 0.15) == (not varies)
    tails = np.quantile(levels - np.median(levels), 0.99)
    assert (tails > 0.8) == (law != "equal")


def test_the_oracle_that_knows_the_variances_is_better_than_the_mean():
    """True levels are those that were drawn, and an inverse-variance mean uses them."""
    drawn = atoms_federation(30, 20, error=0.01, error_law="both", random_state=3)
    levels = [error_levels("both", k, own, 20, seed=3) for k, own in enumerate(drawn.labels)]
    lengths = [np.linalg.norm(leaks(drawn, k), axis=0)[own] for k, own in enumerate(drawn.labels)]
    assert np.corrcoef(np.log(np.ravel(lengths)), np.log(np.ravel(levels)))[0, 1] > 0.95
    weighed = drawn.honest_mean([level**-2 for level in levels])
    errors = [recovery_error(answer, drawn.mixing).relative for answer in (weighed, drawn.honest_mean())]
    assert errors[0] < 0.8 * errors[1]


def test_an_unknown_error_law_is_refused():
    """With those that there are."""
    with pytest.raises(OptionError, match="'heavy-tailed'; got 'wild'"):
        atoms_federation(error_law="wild")


def test_clients_may_declare_nothing_about_the_mixing():
    """Otherwise they declare what it is."""
    for condition, declared in ((1.0, "orthogonal"), (3.0, "general")):
        assert atoms_federation(2, 3, condition=condition).contributions[0].mixing == declared
        assert atoms_federation(2, 3, condition=condition, declare_mixing=False).contributions[0].mixing is None

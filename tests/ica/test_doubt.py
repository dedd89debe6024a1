"""Components that the data does not tell apart are named, others are not."""

import numpy as np
import pytest

from fedica.ica.doubt import undetermined
from fedica.local import LocalICA


def _mixture(n, n_gaussian, seed):
    """Mix six sources; the first ones Gaussian, the others Laplace. Returns the data and the mixing matrix."""
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(n, 6)) / np.sqrt(2.0)
    sources[:, :n_gaussian] = rng.standard_normal((n, n_gaussian))
    mixing = rng.standard_normal((8, 6))
    return sources @ mixing.T, mixing


@pytest.mark.parametrize("n_gaussian", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_gaussian_sources_are_named_and_no_others(n_gaussian, seed):
    """The uncertain atoms span the Gaussian sources; the certain ones are found well."""
    X, mixing = _mixture(20_000, n_gaussian, seed)
    local = LocalICA(6, random_state=0).fit(X)
    uncertain = sorted({k for doubt in local.doubts_ for k in doubt.pair})
    assert len(uncertain) == n_gaussian
    truth = mixing / np.linalg.norm(mixing, axis=0)
    certain = np.delete(local.atoms_, uncertain, axis=1)
    assert np.abs(certain.T @ truth[:, n_gaussian:]).max(axis=1).min() > 0.99
    inside, *_ = np.linalg.lstsq(mixing[:, :n_gaussian], local.atoms_[:, uncertain], rcond=None)
    assert np.linalg.norm(mixing[:, :n_gaussian] @ inside - local.atoms_[:, uncertain]) < 0.1


@pytest.mark.parametrize("n_gaussian", [0, 1])
def test_at_most_one_gaussian_source_leaves_no_doubt(n_gaussian):
    """ICA is determined with a single Gaussian source."""
    local = LocalICA(6, random_state=0).fit(_mixture(20_000, n_gaussian, 0)[0])
    assert local.doubts_ == ()
    assert local.contribution("a").uncertain is None


def test_the_contribution_lists_uncertain_atoms():
    """They follow the atoms into the order in which these are sent."""
    local = LocalICA(6, random_state=0).fit(_mixture(20_000, 2, 0)[0])
    sent = local.contribution("a")
    pair = list(local.doubts_[0].pair)
    assert np.abs(sent.atoms[:, sent.uncertain].T @ local.atoms_[:, pair]).max(axis=0) == pytest.approx([1.0, 1.0])


def test_the_numbers_of_a_doubt():
    """Curvature of four standard errors: a turn of 1/4 radian, and exp(-1/2) of Gaussian pairs show more."""
    (doubt,) = undetermined(np.array([0.04, -0.04]), np.full((2, 2), 0.01))
    assert (doubt.pair, doubt.chance) == ((0, 1), pytest.approx(np.exp(-0.5)))
    assert doubt.degrees == pytest.approx(np.degrees(0.25))
    assert undetermined(np.array([0.04, 0.2]), np.full((2, 2), 0.01)) == ()
    assert undetermined(np.zeros(2), np.full((2, 2), 0.01))[0].degrees == 45.0

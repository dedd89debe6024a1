"""Source laws."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fedica.errors import OptionError
from fedica.simulate import LAWS, find_law

KURTOSIS = {
    "bernoulli-gaussian": 27.0,
    "bernoulli-gaussian:0.5": 3.0,
    "bernoulli-gaussian:1": 0.0,
    "laplace": 3.0,
    "logistic": 1.2,
    "student-t:20": 6 / 16,
    "exponential": 6.0,
    "uniform": -1.2,
    "sinusoid": -1.5,
    "gaussian": 0.0,
}


@pytest.mark.parametrize("name", KURTOSIS)
def test_laws_have_mean_zero_variance_one_and_the_kurtosis_they_say(name):
    """Moments of a large sample, each within five of its own standard errors."""
    draws = find_law(name)(np.random.default_rng(0), (400_000,))

    def assert_mean(values, wanted):
        assert abs(values.mean() - wanted) < 5 * values.std() / np.sqrt(values.size)

    assert_mean(draws, 0)
    assert_mean(draws**2, 1)
    assert_mean(draws**4, KURTOSIS[name] + 3)


def test_heavy_tails_are_allowed():
    """Student's t with three degrees of freedom has variance one and no fourth moment; with one, no variance."""
    rng = np.random.default_rng(0)
    assert np.median(np.abs(find_law("student-t:3")(rng, 100_000))) == pytest.approx(0.7649 / np.sqrt(3), rel=0.02)
    assert np.median(np.abs(find_law("student-t:1")(rng, 100_000))) == pytest.approx(1, rel=0.02)


def test_bernoulli_gaussian_is_zero_as_often_as_its_sparsity_says():
    """A share of 0.3 is not zero."""
    draws = find_law("bernoulli-gaussian:0.3")(np.random.default_rng(0), (1000, 100))
    assert draws.shape == (1000, 100)
    assert np.mean(draws != 0) == pytest.approx(0.3, abs=0.01)


def test_every_named_law_can_go_to_another_process_and_draws_the_same_there():
    """Laws survive pickling, parameters included."""
    for name in [*LAWS, "student-t:7", "bernoulli-gaussian:0.2"]:
        law = find_law(name)
        again = pickle.loads(pickle.dumps(law))  # noqa: S301
        np.testing.assert_array_equal(law(np.random.default_rng(1), 5), again(np.random.default_rng(1), 5))


@pytest.mark.parametrize(
    ("law", "sentence"),
    [
        ("cauchy", "'laplace'.*got 'cauchy'"),
        ("laplace:2", "has no parameter"),
        ("bernoulli-gaussian:0", "sparsity"),
        ("bernoulli-gaussian:1.5", "sparsity"),
        ("student-t:x", "df"),
    ],
)
def test_unknown_laws_and_parameters_are_refused(law, sentence):
    """The sentence says what there is."""
    with pytest.raises(OptionError, match=sentence):
        find_law(law)

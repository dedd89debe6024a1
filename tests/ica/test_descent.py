"""Newton steps with the exact curvature: what they are made of, and recordings on which FastICA's steps crawl."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.signal import lfilter

from fedica.blocks import rows_of
from fedica.ica import Whitened, whiten
from fedica.ica.contrast import slope_at
from fedica.ica.curvature import Curvature
from fedica.ica.rotation import antisymmetric, random_rotation
from fedica.ica.sampling_error import gradient_errors, typical_error
from fedica.ica.trust_region import steihaug
from fedica.ica.whitened import one_of_each_stretch
from fedica.local import LocalICA


def _recording(n, r, seed=0):
    """Sources that are correlated in time, from Gaussian to heavy-tailed, mixed."""
    rng = np.random.default_rng(seed)
    gaussian = lfilter([1.0], [1.0, -0.95], rng.standard_normal((n, r)), axis=0)
    gaussian /= gaussian.std(axis=0)
    sources = np.sign(gaussian) * np.abs(gaussian) ** np.linspace(1.0, 1.3, r)
    return sources @ rng.standard_normal((r, r))


def _white(X):
    blocks = rows_of(X)
    return Whitened(blocks, whiten(blocks)[0])


@pytest.mark.parametrize("seed", range(3))
def test_a_recording_converges_in_few_passes(seed):
    """Flat directions and correlated samples: a handful of passes to the sampling error."""
    X = _recording(20_000, 10, seed)
    local = LocalICA(random_state=0).fit(X)
    assert local.n_passes_ <= 8
    data = _white(X)
    rotation = local.whitening_.whitener @ local.mixing_
    slope = slope_at(data, rotation)
    errors = gradient_errors(data.as_subsample(), rotation, slope.signs, 20_000)
    assert slope.largest <= 0.55 * typical_error(errors)


def test_a_tolerance_is_reached_on_a_recording():
    """With tol, steps go on until no column turns by more: the gradient is then zero to that precision."""
    X = _recording(20_000, 6)
    local = LocalICA(tol=1e-8, random_state=0).fit(X)
    assert slope_at(_white(X), local.whitening_.whitener @ local.mixing_).largest < 1e-9


def test_the_product_with_the_curvature_is_the_change_of_the_gradient():
    """Compared with central differences of the gradient along a turn."""
    rng = np.random.default_rng(0)
    data = _white(_recording(2000, 4))
    part, rotation = data.as_subsample(), random_rotation(4, rng)
    turn = antisymmetric(rng.standard_normal((4, 4)))
    here = slope_at(part, rotation)
    there, back = (slope_at(data, rotation @ expm(h * turn).T).gradient(here.signs) for h in (1e-4, -1e-4))
    curvature = Curvature(part)
    curvature.move_to(rotation, here)
    product = curvature.product(turn)
    # Along a one-parameter group the change of the gradient has, beside the second derivative, half a commutator.
    assert np.sum(turn * product) == pytest.approx(np.sum(turn * (there - back)) / 2e-4, rel=1e-3)


def test_the_scale_of_a_pair_is_its_curvature():
    """The diagonal is the product with a turn in the plane of two sources."""
    part = _white(_recording(2000, 3)).as_subsample()
    rotation = np.eye(3)
    curvature = Curvature(part)
    curvature.move_to(rotation, slope_at(part, rotation))
    turn = np.zeros((3, 3))
    turn[0, 2], turn[2, 0] = 1.0, -1.0
    assert curvature.product(turn)[0, 2] == pytest.approx(curvature.diagonal[0, 2], rel=1e-4)


def test_conjugate_gradients_stay_within_the_trust_region():
    """A far minimum and a direction of negative curvature end at the edge, a near minimum inside."""
    curvature, ones = np.diag([1.0, 2.0]), np.ones(2)
    inside = steihaug(lambda w: curvature @ w, np.array([0.1, 0.2]), ones, 10.0)
    assert not inside.cut
    assert np.linalg.norm(curvature @ inside.turn + [0.1, 0.2]) <= 0.3 * np.linalg.norm([0.1, 0.2])
    far = steihaug(lambda w: curvature @ w, np.array([10.0, 20.0]), ones, 1.0)
    wrong = steihaug(lambda w: -w, np.array([0.1, 0.2]), ones, 1.0)
    for step in (far, wrong):
        assert step.cut
        assert np.linalg.norm(step.turn) == pytest.approx(1.0)
        assert step.promised < 0


def test_correlated_samples_have_larger_errors():
    """Independent samples have the textbook's standard error; repeated k times, the errors of a k-th as many."""
    rng = np.random.default_rng(0)
    samples = rng.laplace(size=(16_000, 3))
    data = _white(samples)
    y = data.array()
    textbook = np.std((np.tanh(y[:, 0]) * y[:, 1] - np.tanh(y[:, 1]) * y[:, 0]) / 2) / np.sqrt(16_000)
    signs = np.ones(3)
    errors = gradient_errors(data.as_subsample(), np.eye(3), signs, 16_000)
    assert errors[0, 1] == pytest.approx(textbook, rel=0.3)
    repeated = _white(np.repeat(samples[:2000], 8, axis=0)).as_subsample()
    assert typical_error(gradient_errors(repeated, np.eye(3), signs, 16_000)) == pytest.approx(
        np.sqrt(8) * typical_error(errors), rel=0.3
    )


def test_neighbours_are_not_drawn_together():
    """One sample of every stretch, ascending; all samples when as many are asked for."""
    drawn = one_of_each_stretch(1000, 250, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn // 4, np.arange(250))
    np.testing.assert_array_equal(one_of_each_stretch(7, 7, np.random.default_rng(0)), np.arange(7))

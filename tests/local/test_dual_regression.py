"""Dual regression: both steps are least squares, and z-values are those of Student's t."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t

from fedica.errors import DataError
from fedica.local import dual_regression


@pytest.fixture(scope="module")
def person():
    """Maps of a group, and the scans of a person: (d, r) and (n, d)."""
    rng = np.random.default_rng(0)
    maps = rng.laplace(size=(60, 3))
    courses = rng.standard_normal((40, 3))
    return maps, courses @ (maps + 0.1 * rng.standard_normal(maps.shape)).T + rng.standard_normal((40, 60)) + 5.0


def test_both_steps_are_plain_least_squares(person):
    """Voxel by voxel and scan by scan, to 1e-10."""
    maps, X = person
    own = dual_regression(X, maps)
    centred = X - X.mean(axis=0)
    courses = np.array([np.linalg.lstsq(maps, scan, rcond=None)[0] for scan in centred])
    np.testing.assert_allclose(own.time_courses, courses, rtol=0, atol=1e-10)
    scaled = courses / courses.std(axis=0)
    wanted = np.array([np.linalg.lstsq(scaled, voxel, rcond=None)[0] for voxel in centred.T])
    np.testing.assert_allclose(own.maps, wanted, rtol=0, atol=1e-10)
    assert own.labels.tolist() == [0, 1, 2]


def test_z_values_are_as_improbable_as_the_t_statistics(person):
    """The t statistic of a regression with an intercept; a voxel that the time courses explain exactly stays finite."""
    maps, X = person
    X = X.copy()
    X[:, 7] = 2.0
    own = dual_regression(X, maps)
    design = np.column_stack([np.ones(len(X)), own.time_courses / own.time_courses.std(axis=0)])
    beta, left, *_ = np.linalg.lstsq(design, X[:, 0], rcond=None)
    errors = np.sqrt(left[0] / (len(X) - 4) * np.diag(np.linalg.inv(design.T @ design)))
    p = student_t.sf(np.abs(beta / errors)[1:], len(X) - 4)
    np.testing.assert_allclose(norm.sf(np.abs(own.z[0])), p, rtol=1e-8)
    assert (np.sign(own.z[0]) == np.sign(beta[1:])).all()
    np.testing.assert_array_equal(own.z[7], 0.0)
    exact = dual_regression(own.time_courses @ maps.T, maps)
    assert np.isfinite(exact.z).all()


def test_a_component_without_a_direction_is_left_out(person):
    """Its map is zero."""
    maps, X = person
    own = dual_regression(X, np.column_stack([maps[:, 0], np.zeros(60), maps[:, 1]]))
    assert own.labels.tolist() == [0, 2]
    assert own.maps.shape == own.z.shape == (60, 2)


def test_too_few_scans_are_one_sentence(person):
    """Five scans tell the errors of three maps; four do not."""
    maps, X = person
    assert dual_regression(X[:5], maps).z.shape == (60, 3)
    with pytest.raises(DataError, match=r"3 components need at least 5 samples.*got 4"):
        dual_regression(X[:4], maps)

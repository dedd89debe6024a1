"""Shared by all tests: what a machine may lack, mixtures of known laws, and errors up to a signed permutation."""

from __future__ import annotations

import importlib
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from fedica.arrays import unit
from fedica.matching import match

REQUIRE_ALL = "FEDICA_REQUIRE_ALL"
"""Environment variable, set by .ci/run: what a machine lacks is then a failure, not a reason to skip."""
if REQUIRE_ALL in os.environ:
    pytest.importorskip = lambda name, **_options: importlib.import_module(name)


settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # no test fails because a busy machine is slow

NEEDS = {
    "Chromium": "apt-get install chromium chromium-driver; pip install selenium",
    "nginx": "apt-get install nginx-light",
    "systemd-analyze": "apt-get install systemd",
    "Ray": "pip install 'fedica[simulation]'",
    "axe-core": "apt-get install npm, and a network",
    "the real data sets": "python -m fedica.datasets, with a network",
    "minutes of time": "make faults",
    "the rights to run as another user": "run the tests as root",
}
"""What a machine may lack, and the command that helps."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Report all tests that are skipped for want of one thing at one place: one line of pytest's summary."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and "needs" in report.longrepr[2]:
        report.longrepr = (__file__, None, report.longrepr[2])
    return report


@pytest.fixture(autouse=True)
def _usual_width(monkeypatch):
    """Print as wide as usual: a terminal, or a library that another test imported, may have set COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def require():
    """Return a function that skips a test for want of something that the machine may lack."""

    def require(need, found):
        if found:
            return
        reason = f"needs {need}: {NEEDS[need]}"
        if REQUIRE_ALL in os.environ:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

    return require


def _sources(law: str, n: int, r: int, rng: np.random.Generator) -> np.ndarray:
    if law == "mixed":
        return np.column_stack([_sources("laplace", n, r - r // 2, rng), _sources("uniform", n, r // 2, rng)])
    if law == "bernoulli-gaussian":
        return rng.standard_normal((n, r)) * (rng.random((n, r)) < 0.1) / np.sqrt(0.1)
    if law == "laplace":
        return rng.laplace(size=(n, r)) / np.sqrt(2)
    if law == "uniform":
        return rng.uniform(-np.sqrt(3), np.sqrt(3), size=(n, r))
    assert law == "gaussian"
    return rng.standard_normal((n, r))


@pytest.fixture
def make_mixture():
    """Return a function that mixes sources of a law: (X, mixing matrix, sources)."""

    def make(law: str, n: int, d: int, r: int | None = None, seed: int = 0):
        rng = np.random.default_rng(seed)
        r = d if r is None else r
        sources = _sources(law, n, r, rng)
        left, _, right = np.linalg.svd(rng.standard_normal((d, r)), full_matrices=False)
        mixing = left * np.geomspace(1.0, 3.0, r) @ right  # condition number 3
        return sources @ mixing.T + rng.standard_normal(d), mixing, sources

    return make


@pytest.fixture
def distance():
    """Return a function: the largest difference between unit columns, up to a signed permutation."""

    def largest(estimate: np.ndarray, truth: np.ndarray) -> float:
        estimate, truth = unit(estimate), unit(truth)
        found = match(estimate, truth)
        assert (np.sort(found.labels) == np.arange(truth.shape[1])).all()
        return float(np.linalg.norm(estimate * found.signs - truth[:, found.labels], axis=0).max())

    return largest

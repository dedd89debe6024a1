"""What a client averages at the global matrix: the same wherever its data lies."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedica import Contribution, aggregate, score
from fedica.errors import DataError, OptionError
from fedica.records import fingerprint

NAMES = ("covariance", "products", "slopes", "scale")


@pytest.fixture(scope="module")
def result():
    """Three components of five features, with names."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((5, 3))
    noisy = [
        Contribution(f"c{k}", atoms + 0.01 * rng.standard_normal((5, 3)), 100, features=tuple("abcde"))
        for k in range(4)
    ]
    return aggregate(noisy, 3)


@pytest.fixture(scope="module")
def X(result):
    rng = np.random.default_rng(1)
    return 40.0 + rng.laplace(size=(5000, 3)) * [1.0, 20.0, 300.0] @ result.mixing.T


def close(one, other):
    return all(np.allclose(getattr(one, name), getattr(other, name), rtol=1e-12, atol=1e-12) for name in NAMES)


def test_the_averages_are_what_they_are_called(X, result):
    """E[y y'], E[tanh(y) y'] and E[1 - tanh(y)^2] of sources scaled to variance one."""
    found = score(X, result, client="a")
    y = (X - X.mean(axis=0)) @ np.linalg.pinv(result.mixing).T
    np.testing.assert_allclose(found.scale, y.std(axis=0), rtol=1e-12)
    y = y / found.scale
    np.testing.assert_allclose(found.covariance, y.T @ y / 5000, atol=1e-12)
    np.testing.assert_allclose(found.products, np.tanh(y).T @ y / 5000, atol=1e-12)
    np.testing.assert_allclose(found.slopes, np.mean(1 - np.tanh(y) ** 2, axis=0), atol=1e-12)
    assert found.n_samples == 5000
    assert found.components == (0, 1, 2)
    assert found.refines == fingerprint(result.mixing)


def test_blocks_halves_and_mapped_files_give_the_same(X, result, tmp_path):
    """To 1e-12."""
    whole = score(X, result, client="a")
    assert close(whole, score([X[:2500], X[2500:]], result, client="a"))
    assert close(whole, score([X[i : i + 7] for i in range(0, 5000, 7)], result, client="a"))
    np.save(tmp_path / "X.npy", X)
    assert close(whole, score(np.load(tmp_path / "X.npy", mmap_mode="r"), result, client="a"))
    assert close(whole, score(X.tolist(), result, client="a"))


def test_the_data_is_read_once_unless_its_sources_are_too_many_to_keep(X, result, monkeypatch):
    """Blocks that come from elsewhere are read once; without room for the sources twice, to the same to 1e-12."""
    ended = []

    class Elsewhere:
        shape = X.shape

        def __iter__(self):
            yield from np.array_split(X, 7)
            ended.append(True)

    once = score(Elsewhere(), result, client="a")
    assert len(ended) == 1
    monkeypatch.setattr("fedica.local.scores.KEEP_BYTES", 0)
    assert close(score(Elsewhere(), result, client="a"), once)
    assert len(ended) == 3


def test_dask_gives_the_same(X, result):
    """To 1e-12, whatever the chunks."""
    da = pytest.importorskip("dask.array", reason="needs fedica[dask]")
    assert close(score(X, result, client="a"), score(da.from_array(X, chunks=(700, 5)), result, client="a"))


def test_halves_add_up_once_the_scale_is_common(X, result):
    """Averages of two halves, each with half the weight, are those of the whole, if both have its mean."""
    common = SimpleNamespace(mixing=result.mixing, terms=result.terms, scale=np.array([1.0, 20.0, 300.0]))
    centred = X - X.mean(axis=0)
    mirrored = np.concatenate([centred, -centred])  # every half has mean zero
    halves = [score(np.concatenate([part, -part]), common, client="a") for part in np.array_split(centred, 2)]
    whole = score(mirrored, common, client="a")
    for name in NAMES:
        mean = (getattr(halves[0], name) + getattr(halves[1], name)) / 2
        np.testing.assert_allclose(mean, getattr(whole, name), atol=1e-12)


def test_signs_of_components_change_signs_of_averages_alone(X, result):
    """Nothing is ordered or signed anew by the client."""
    signs = np.array([1.0, -1.0, -1.0])
    one = score(X, result, client="a")
    other = score(X, result.renumbered(np.arange(3), signs), client="a")
    np.testing.assert_allclose(other.products, signs[:, None] * one.products * signs, atol=1e-12)
    np.testing.assert_allclose(other.slopes, one.slopes, atol=1e-12)


def test_columns_in_another_order_and_fewer_of_them(X, result):
    """Columns are found by name; four features of five still tell three components apart."""
    whole = score(X, result, client="a")
    assert close(whole, score(X[:, [3, 1, 0, 2, 4]], result, client="a", features="dbace"))
    fewer = score(X[:, :4], result, client="a", features="abcd")
    np.testing.assert_allclose(fewer.covariance, whole.covariance, atol=1e-9)


def test_components_that_do_not_vary_are_left_out(X, result):
    """A client that lacks a component takes part with the others."""
    S = np.random.default_rng(2).laplace(size=(400, 2))
    found = score(S @ result.mixing[:, [0, 2]].T, result, client="a")
    assert found.components == (0, 2)


def test_two_samples_are_enough(X, result):
    """There is no least number of samples: sums add up."""
    assert score(X[:2], result, client="a").n_samples == 2


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        (lambda X: X[:, :4], {}, "4 features; 5 were expected"),
        (lambda X: X[:, :4], {"features": "abcz"}, "no feature 'z'"),
        (lambda X: X[:, :2], {"features": "ab"}, "2 features cannot tell 3 components apart"),
        (lambda X: np.where(X[7, 2] == X, np.nan, X), {}, "1 NaN"),
        (lambda X: np.zeros((10, 5)), {}, "'a': its data does not vary"),
    ],
)
def test_data_that_cannot_be_scored_is_refused(X, result, change, options, sentence):
    """In one sentence."""
    with pytest.raises(DataError, match=sentence):
        score(change(X), result, client="a", **options)


def test_components_that_are_not_there_are_refused(X, result):
    """So is an aggregate of spatial ICA, whose sources are independent over features."""
    with pytest.raises(OptionError, match="some of 0 to 2"):
        score(X, result, client="a", components=[3])
    spatial = replace(result, terms=replace(result.terms, independence="features"))
    with pytest.raises(OptionError, match="spatial ICA"):
        score(X, spatial, client="a")

"""Each step against its dense twin or its optimality condition."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from fedica.arrays import unit
from fedica.blocks import columns_of, leading_directions
from fedica.errors import GroupingError
from fedica.server import embedding as embedding_module
from fedica.server.affinity import absolute_affinity, absolute_product, quadratic_features
from fedica.server.centres import geometric_medians
from fedica.server.clusters import kmeans, kmeans_lower_bound, random_points
from fedica.server.embedding import embed_absolute, embed_squared
from fedica.server.signs import align_signs

seeds = st.integers(0, 2**32 - 1)


def random_atoms(rng, d=4, R=30):
    return unit(rng.standard_normal((d, R)))


class TestAffinity:
    """Eq. (9) and its square."""

    def test_absolute_is_the_formula(self):
        """M = sqrt(r/R) |A'A|, entry by entry."""
        A = random_atoms(np.random.default_rng(0))
        expected = np.array([[np.sqrt(3 / 30) * abs(A[:, i] @ A[:, j]) for j in range(30)] for i in range(30)])
        assert np.allclose(absolute_affinity(A, 3), expected)

    def test_product_never_needs_the_matrix(self, monkeypatch):
        """Block products equal the dense product, over several blocks."""
        monkeypatch.setattr("fedica.server.affinity.TILE", (7, 11))
        rng = np.random.default_rng(1)
        A, V = random_atoms(rng), rng.standard_normal((30, 3))
        assert np.allclose(absolute_product(A, V, 3), absolute_affinity(A, 3) @ V)

    def test_quadratic_features_give_squared_inner_products(self):
        """<phi(a), phi(b)> = <a, b>^2, exactly p(p+1)/2 numbers."""
        A = random_atoms(np.random.default_rng(2), d=5)
        features = quadratic_features(A)
        assert features.shape == (15, 30)
        assert np.allclose(features.T @ features, (A.T @ A) ** 2)

    @pytest.mark.parametrize(("d", "R"), [(40, 12), (12, 40)])
    def test_leading_directions_keep_inner_products_of_low_rank_atoms(self, d, R):
        """Atoms in a five-dimensional subspace lose nothing by projection on five directions."""
        rng = np.random.default_rng(3)
        A = unit(rng.standard_normal((d, 5)) @ rng.standard_normal((5, R)))
        small = leading_directions(columns_of(A), 5).coordinates(columns_of(A)).whole()
        assert small.shape == (5, R)
        assert np.allclose(small.T @ small, A.T @ A)


class TestEmbedding:
    """Q Q' and Q'Q are those of the dense eigendecomposition."""

    @pytest.mark.parametrize(("embed", "power"), [(embed_absolute, 1), (embed_squared, 2)])
    @pytest.mark.parametrize("path", ["dense", "blocks"])
    def test_equals_the_dense_eigendecomposition(self, monkeypatch, embed, power, path):
        """Whatever the path: Q = D_r U_r', up to the signs of eigenvectors."""
        monkeypatch.setattr(embedding_module, "MAX_DENSE_ATOMS", 500 if path == "dense" else 5)
        monkeypatch.setattr(embedding_module, "MAX_GRAM_FEATURES", 500 if path == "dense" else 5)
        monkeypatch.setattr(embedding_module, "LARGE_TOL", 1e-10)
        monkeypatch.setattr("fedica.blocks.cuts.MAX_COLUMNS", 32 if path == "dense" else 11)
        monkeypatch.setattr("fedica.blocks.cuts.MIN_COLUMNS", 1)
        rng = np.random.default_rng(4)
        A = unit(np.repeat(np.eye(4), 12, axis=1) + 0.1 * rng.standard_normal((4, 48)))
        M = np.sqrt(4 / 48) * np.abs(A.T @ A) ** power
        values, vectors = np.linalg.eigh(M)
        expected = vectors[:, ::-1][:, :4] * values[::-1][:4]
        found = embed(columns_of(A), 4)
        points = found.points.whole().T
        assert found.residual <= 1e-10
        assert np.allclose(points @ points.T, expected @ expected.T, atol=1e-8)
        assert np.allclose(found.spectrum[:4], values[::-1][:4])
        assert np.all(np.diff(found.spectrum) <= 1e-12)


class TestKMeans:
    """Groups, objective, bound."""

    @settings(max_examples=30, deadline=None)
    @given(seed=seeds)
    def test_the_lower_bound_is_below_every_grouping(self, seed):
        """Random labels never get below it, nor does k-means."""
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((40, 3)) + 3 * rng.standard_normal((3, 3))[rng.integers(3, size=40)]
        bound = kmeans_lower_bound(columns_of(points.T), 3)
        labels = np.concatenate([[0, 1, 2], rng.integers(3, size=37)])
        groups = [points[labels == a] for a in range(3)]
        objective = sum(((g - g.mean(axis=0)) ** 2).sum() for g in groups)
        assert bound <= objective + 1e-9
        best = kmeans(columns_of(points.T), 3, n_init=3, rng=rng)
        assert bound <= best.objective + 1e-9
        assert best.objective <= objective + 1e-9

    def test_the_bound_is_tight_where_groups_are_points(self):
        """Coinciding points: objective and bound are both zero."""
        points = np.repeat(np.eye(4), 5, axis=0)
        found = kmeans(columns_of(points.T), 4, n_init=2, rng=np.random.default_rng(0))
        assert found.objective == pytest.approx(0, abs=1e-20)
        assert found.lower_bound == pytest.approx(0, abs=1e-12)

    def test_objective_is_the_sum_of_squares_of_its_labels(self):
        """Eq. (11), recomputed from the labels."""
        rng = np.random.default_rng(5)
        points = rng.standard_normal((60, 4))
        found = kmeans(columns_of(points.T), 4, n_init=5, rng=rng)
        groups = [points[found.labels == a] for a in range(4)]
        assert found.objective == pytest.approx(sum(((g - g.mean(axis=0)) ** 2).sum() for g in groups), rel=1e-4)

    @settings(max_examples=30, deadline=None)
    @given(seed=seeds)
    def test_random_starts_are_those_of_scikit_learn(self, seed):
        """From the same seed the same points are chosen, and the generator is left in the same state."""
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((int(rng.integers(20, 200)), 4))
        ours, theirs = np.random.RandomState(seed % 2**32), np.random.RandomState(seed % 2**32)
        expected, _ = kmeans_plusplus(points, 6, random_state=theirs)
        np.testing.assert_array_equal(random_points(points, 6, ours), expected)
        assert ours.uniform() == theirs.uniform()

    def test_an_empty_group_is_an_error(self):
        """Two distinct points do not make three groups."""
        with pytest.raises(GroupingError, match="form 2 groups"):
            kmeans(columns_of(np.repeat(np.eye(3)[:2], 4, axis=0).T), 3, n_init=2, rng=np.random.default_rng(0))


class TestSigns:
    """Eq. (14)."""

    @settings(max_examples=30, deadline=None)
    @given(seed=seeds, d=st.sampled_from([3, 50]))
    def test_equals_the_svd_of_each_group(self, seed, d):
        """Given the same labels, signs agree with the dense twin up to one sign per group."""
        rng = np.random.default_rng(seed)
        atoms = random_atoms(rng, d=d)
        labels = np.concatenate([[0, 1, 2], rng.integers(3, size=27)])
        signs = align_signs(columns_of(atoms), labels, 3)
        for a in range(3):
            group = atoms[:, labels == a]
            expected = np.where(np.linalg.svd(group)[0][:, 0] @ group >= 0, 1.0, -1.0)
            assert abs(signs[labels == a] @ expected) == group.shape[1]

    def test_sign_of_zero_is_one(self):
        """An atom orthogonal to its axis stays as it is; so does one of no group."""
        atoms = np.array([[1.0, 1.0, 0.0, -1.0], [0.0, 0.0, 1.0, 0.0]])
        assert list(align_signs(columns_of(atoms), np.array([0, 0, 0, -1]), 1)) == [1, 1, 1, 1]


class TestGeometricMedian:
    """Eq. (16), certified."""

    @settings(max_examples=60, deadline=None)
    @given(seed=seeds, d=st.integers(1, 6), n=st.integers(1, 40), duplicates=st.integers(0, 30))
    def test_optimal_by_duality_whatever_coincides(self, seed, d, n, duplicates):
        """The gap is certified below tol and no nearby point is better, with duplicates as colluders send them."""
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((d, n))
        points = np.hstack([points, np.repeat(points[:, :1], duplicates, axis=1)])
        weights = rng.uniform(0.5, 2, points.shape[1])
        labels = np.zeros(points.shape[1], dtype=int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = geometric_medians(columns_of(points), labels, 1, weights=weights, tol=1e-9, max_iter=5000)

        def objective(m):
            return weights @ np.linalg.norm(points - m[:, None], axis=0)

        best = objective(found.centres[:, 0])
        rivals = [
            objective(found.centres[:, 0] + s * rng.standard_normal(d)) for s in (1e-6, 1e-3, 1e-1) for _ in range(5)
        ]
        rivals += [objective(points[:, i]) for i in range(points.shape[1])]
        assert best <= min(rivals) + 1e-8 * best + 1e-12
        assert found.gap[0] <= 1e-7

    def test_one_dimension_is_the_median(self):
        """Degenerate oracle: on a line the geometric median is the median."""
        rng = np.random.default_rng(6)
        x = rng.standard_normal((1, 31))
        assert geometric_medians(columns_of(x), np.zeros(31, dtype=int), 1).centres[0, 0] == pytest.approx(
            np.median(x), abs=1e-9
        )

    def test_symmetric_points_have_their_centre(self):
        """The corners of a cube and its centre."""
        corners = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).astype(float)
        points = np.hstack([corners, np.full((3, 1), 0.5)])
        assert np.allclose(geometric_medians(columns_of(points), np.zeros(9, dtype=int), 1).centres[:, 0], 0.5)

    def test_a_majority_of_duplicates_is_the_median_exactly(self):
        """Six of ten clients send the same atom: the median is that atom, bit by bit."""
        rng = np.random.default_rng(7)
        points = np.hstack([rng.standard_normal((4, 4)), np.repeat(rng.standard_normal((4, 1)), 6, axis=1)])
        found = geometric_medians(columns_of(points), np.zeros(10, dtype=int), 1)
        assert np.array_equal(found.centres[:, 0], points[:, -1])
        assert found.gap[0] <= 1e-12

    def test_groups_do_not_feel_each_other(self):
        """All at once equals one by one; atoms of no group count nowhere."""
        rng = np.random.default_rng(8)
        points, labels = rng.standard_normal((3, 50)), rng.integers(-1, 4, size=50)
        together = geometric_medians(columns_of(points), labels, 4)
        for a in range(4):
            alone = geometric_medians(columns_of(points[:, labels == a]), np.zeros((labels == a).sum(), dtype=int), 1)
            assert np.allclose(together.centres[:, a], alone.centres[:, 0], atol=1e-6)

    def test_arbitrary_outliers_cannot_carry_it_away(self):
        """Breakdown point one half: two fifths at infinity, and the median stays with the rest."""
        rng = np.random.default_rng(9)
        points = np.hstack([0.01 * rng.standard_normal((3, 60)), 1e6 * np.ones((3, 40))])
        assert np.linalg.norm(geometric_medians(columns_of(points), np.zeros(100, dtype=int), 1).centres) < 0.2

    def test_no_convergence_is_said_with_numbers(self):
        """One iteration is not enough: value, tolerance and remedy."""
        points = np.random.default_rng(10).standard_normal((3, 20))
        with pytest.warns(ConvergenceWarning, match=r"gap .* of component 0 still above tol 1e-10 after 1 iterations"):
            geometric_medians(columns_of(points), np.zeros(20, dtype=int), 1, max_iter=1)

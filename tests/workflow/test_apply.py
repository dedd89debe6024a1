"""Back at the client: sources by the global matrix."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedica.errors import DataError, FedicaError, InputError, OptionError
from fedica.exchange import public_part
from fedica.local import dual_regression
from fedica.records import Study, Terms
from fedica.server import aggregate
from fedica.workflow import apply_global

NAMES = [f"f{i}" for i in range(6)]


@pytest.fixture(scope="session")
def public(small_contributions):
    """What the clients get back."""
    return public_part(aggregate(small_contributions, 4))


def test_sources_are_least_squares_with_the_global_matrix(tmp_path, public, data_file, small_federation):
    """In both formats of output, and to the bit."""
    X = small_federation.clients[0].X
    wanted = (X - X.mean(axis=0)) @ np.linalg.pinv(public.mixing).T
    apply_global(public, data_file, tmp_path / "s.npy")
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), wanted, atol=1e-12)
    apply_global(public, data_file, tmp_path / "s.csv")
    lines = (tmp_path / "s.csv").read_text().splitlines()
    assert lines[0] == "component_0,component_1,component_2,component_3"
    np.testing.assert_array_equal(np.loadtxt(lines[1:], delimiter=","), np.load(tmp_path / "s.npy"))


def test_labels_of_rows_survive(tmp_path, public, small_federation):
    """Whatever stands in the first column of a table stands beside its sources, and never as a formula."""
    X = small_federation.clients[0].X
    labels = [f"p-{k}" for k in range(len(X))]
    labels[1] = '=1+"1"'
    rows = [",".join(map(repr, row)) for row in X.tolist()]
    quoted = ['"' + label.replace('"', '""') + '"' for label in labels]
    lines = [",".join(["case", *NAMES]), *(f"{a},{row}" for a, row in zip(quoted, rows, strict=True))]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    apply_global(public, tmp_path / "x.csv", tmp_path / "s.csv")
    with open(tmp_path / "s.csv", newline="") as stream:
        written = list(csv.reader(stream))
    assert written[0] == ["row", "component_0", "component_1", "component_2", "component_3"]
    assert [row[0] for row in written[1:]] == ["p-0", "'" + labels[1], *labels[2:]]


def test_the_true_matrix_beats_a_fit_to_few_samples(tmp_path, public, small_federation):
    """On unseen samples its sources are more independent; a wrong matrix's are not."""
    np.save(tmp_path / "few.npy", small_federation.clients[1].X[:150])
    truth = replace(public, mixing=small_federation.mixing)
    assert apply_global(truth, tmp_path / "few.npy").more_independent
    np.save(tmp_path / "many.npy", small_federation.clients[1].X)
    wrong = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 4)))[0]
    assert apply_global(replace(public, mixing=wrong), tmp_path / "many.npy").more_independent is False


def test_only_components_that_the_client_has(tmp_path, public, small_federation):
    """Two of four sources: they are found among the global ones, and only they are recovered."""
    client = small_federation.clients[0]
    X = client.sources[:, :2] @ small_federation.mixing[:, :2].T
    np.save(tmp_path / "two.npy", X + 1e-3 * np.random.default_rng(0).standard_normal(X.shape))
    applied = apply_global(public, tmp_path / "two.npy", n_components=2)
    cosine = np.abs(public.mixing[:, applied.recovered.labels].T @ small_federation.mixing[:, :2])
    assert (cosine.max(axis=0) > 0.99).all()
    np.save(tmp_path / "rank.npy", X)  # of rank two: nobody need be told
    assert apply_global(public, tmp_path / "rank.npy").recovered.labels.tolist() == applied.recovered.labels.tolist()


def test_a_client_that_lacks_a_feature_still_recovers(tmp_path, public, data_file, small_federation):
    """Five of six features tell four components apart; three do not."""
    X = small_federation.clients[0].X
    full = apply_global(public, data_file).recovered.sources
    for n_features in (5, 3):
        path = tmp_path / f"{n_features}.csv"
        header = ",".join(NAMES[:n_features])
        np.savetxt(path, X[:, :n_features], delimiter=",", header=header, comments="")
    applied = apply_global(public, tmp_path / "5.csv")
    assert any("'f5'" in note for note in applied.notes)
    correlation = np.corrcoef(applied.recovered.sources.T, full.T)[:4, 4:]
    assert (np.diag(correlation) > 0.98).all()
    with pytest.raises(DataError, match="3 features cannot tell 4 components apart"):
        apply_global(public, tmp_path / "3.csv")


def test_a_study_s_scales_are_applied_and_may_not_be_forgotten(public, data_file):
    """Sources in scaled units; without the study's file the aggregate of a study is refused."""
    of_study = replace(public, terms=replace(public.terms, study="s"))
    with pytest.raises(InputError, match="belongs to study 's'"):
        apply_global(of_study, data_file)
    with pytest.raises(InputError, match="'other' was given"):
        apply_global(of_study, data_file, study=Study("other", NAMES))
    doubled = apply_global(of_study, data_file, study=Study("s", NAMES, scales=[2.0] * 6)).recovered.sources
    np.testing.assert_allclose(doubled, 2 * apply_global(public, data_file).recovered.sources, atol=1e-12)


def test_what_cannot_be_compared_is_said(public, data_file):
    """Maps over features have no unseen samples."""
    spatial = replace(public, terms=Terms(6, tuple(NAMES), independence="features"))
    applied = apply_global(spatial, data_file)
    assert applied.more_independent is None
    assert any("unseen" in note for note in applied.notes)


def test_own_maps_of_a_table_are_tables(tmp_path, public, data_file, small_federation):
    """One row per feature, and the z-values beside them."""
    spatial = replace(public, terms=Terms(6, tuple(NAMES), independence="features"))
    applied = apply_global(spatial, data_file, maps=tmp_path / "own.csv")
    assert applied.map_paths == (str(tmp_path / "own.csv"), str(tmp_path / "own_Z.csv"))
    wanted = dual_regression(small_federation.clients[0].X, public.mixing)
    for path, values in zip(applied.map_paths, (wanted.maps, wanted.z), strict=True):
        lines = Path(path).read_text().splitlines()
        assert lines[0] == "feature,component_0,component_1,component_2,component_3"
        read = np.loadtxt(lines[1:], delimiter=",", usecols=range(1, 5))
        np.testing.assert_allclose(read, values, rtol=1e-10, atol=1e-10)
    assert len(applied.own.labels) == 4
    two = apply_global(spatial, data_file, maps=tmp_path / "two.csv", n_components=2)
    assert two.own.maps.shape == (6, 2)
    assert two.own.labels.tolist() == two.recovered.labels.tolist()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"output": "s.txt"}, "'.npy', '.csv'"),
        ({"n_components": 9}, "4 components; 9"),
        ({"solver": "magic"}, "solver"),
    ],
)
def test_bad_options_are_sentences(public, data_file, options, complaint):
    """Each names what is wrong."""
    with pytest.raises((OptionError, FedicaError), match=complaint):
        apply_global(public, data_file, **options)

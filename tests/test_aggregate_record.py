"""What an aggregate does by itself: sources of data, and what a notebook shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedica import FederatedICA, LocalICA, aggregate
from fedica.errors import DataError, FedicaError
from fedica.records import Rejection


@pytest.fixture(scope="module")
def federation():
    """Three clients alike, one with its features reversed, and the data of the first."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((6, 3))
    data = {name: rng.laplace(size=(2000, 3)) @ mixing.T + 5 for name in ("a", "b", "c", "<i>d</i>")}
    data["<i>d</i>"] = data["<i>d</i>"][:, ::-1]
    sent = [LocalICA(3, random_state=0).fit(X).contribution(name) for name, X in data.items()]
    return aggregate(sent, 3), data


def test_sources_are_those_of_the_estimator(federation):
    """On one client's data, those of a FederatedICA with the same matrix, of variance one, up to nothing."""
    result, data = federation
    sources = result.transform(data["a"])
    np.testing.assert_allclose(sources.std(axis=0), 1)
    X = np.concatenate([data[name] for name in "abc"])
    federated = FederatedICA(3, random_state=0).fit(X, groups=np.repeat(list("abc"), 2000))
    np.testing.assert_allclose(federated.aggregate_.transform(X), federated.transform(X), atol=1e-6)
    with pytest.raises(DataError, match="data has 5 features; the aggregate has 6"):
        result.transform(data["a"][:, :5])
    with pytest.raises(FedicaError, match="must be finite"):
        result.transform(np.full((3, 6), np.nan))


def test_a_notebook_shows_components_and_doubtful_clients(federation):
    """Names are texts, never markup."""
    result, _ = federation
    html = replace(result, rejected=(Rejection("<script>", "it is empty"),))._repr_html_()
    assert "3 components of 6 features from 4 clients" in html
    assert html.count("<tr>") == 2 + 3 + 1 + 1
    assert "&lt;i&gt;d&lt;/i&gt;" in html
    assert "<i>" not in html
    assert "<script>" not in html


def test_long_tables_are_cut(federation):
    """With the number of what is left out."""
    result, _ = federation
    many = replace(result, rejected=tuple(Rejection(f"c{k}", "it is empty") for k in range(40)))
    assert "and 21 more" in many._repr_html_()

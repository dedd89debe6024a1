"""The tables: numbers that come back exactly, names that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedica.exchange import Provenance
from fedica.exchange.tables import _cell, clients_table, components_table, mixing_table, rejected_table
from fedica.records import Aggregate, Rejection, Terms
from fedica.text import show_text


def rows(table: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.decode(), newline="")))


def test_mixing_has_one_row_a_feature(aggregate: Aggregate) -> None:
    """The matrix comes back bit by bit; features without names are numbered."""
    table = rows(mixing_table(aggregate))
    assert [row["feature"] for row in table] == ["x", "y", "z"]
    read = np.array([[float(row[f"component_{a}"]) for a in range(2)] for row in table])
    np.testing.assert_array_equal(read, aggregate.mixing)
    assert rows(mixing_table(replace(aggregate, terms=Terms(3))))[2]["feature"] == "feature_2"


def test_components_have_one_row_each(aggregate: Aggregate) -> None:
    """Support, spread, norm of the centre, and whether the component means anything."""
    assert rows(components_table(aggregate, np.array([True, False])))[1] == {
        "component": "1",
        "support": "1",
        "spread_degrees": "12.0",
        "centre_norm": "0.5",
        "degenerate": "false",
        "median_gap": "1e-12",
        "weighted_support": "",
        "published": "false",
        "replicates": "",
        "explained_variance": "",
    }
    tested = rows(components_table(replace(aggregate, replicates=np.array([True, False])), np.array([True, False])))
    assert [row["replicates"] for row in tested] == ["true", "false"]
    assert rows(components_table(replace(aggregate, certificate=None), np.array([True, False])))[0]["median_gap"] == ""


def test_explained_variance_has_a_column_in_all_and_one_of_each_client_that_told(aggregate: Aggregate) -> None:
    """A client without strengths has none, and a name is never a formula."""
    shares = np.full((len(aggregate.clients), 2), np.nan)
    shares[0] = [0.25, 0.125]
    table = rows(components_table(replace(aggregate, explained_variance=shares), np.array([True, True])))
    assert [row["explained_variance"] for row in table] == ["0.25", "0.125"]
    assert [row[f"explained_variance of {aggregate.clients[0]}"] for row in table] == ["0.25", "0.125"]
    assert f"explained_variance of {aggregate.clients[1]}" not in table[0]
    named = replace(aggregate, clients=("a,=1+1", *aggregate.clients[1:]), explained_variance=shares, trust=None)
    assert "explained_variance of a,'=1+1" in rows(components_table(named, np.array([True, True])))[0]


def test_clients_have_one_row_each(aggregate: Aggregate, provenance: list[Provenance]) -> None:
    """What each client sent, where it came from, and what the server thinks of it."""
    table = rows(clients_table(aggregate, {origin.client: origin for origin in provenance}))
    assert table[1] == {
        "client": "client-b",
        "verdict": "outlying",
        "reason": "farther from the components than the other clients (median angle 45.0 degrees)",
        "angle_degrees": "45.0",
        "influence_degrees": "nan",
        "n_atoms": "2",
        "n_unmatched": "1",
        "missing": "1",
        "n_samples": "",
        "source": "mail/b.safetensors",
        "n_bytes": "12000",
        "sha256": "0c" * 32,
        "key": "",
        "verified": "false",
        "kind": "far",
    }
    assert table[0]["verified"] == "true"


def test_clients_without_trust_still_have_their_counts(aggregate: Aggregate) -> None:
    """The paper's methods give no verdict; atoms, unmatched atoms and missing components come from the labels."""
    table = rows(clients_table(replace(aggregate, trust=None), {}))
    assert [(row["verdict"], row["n_atoms"], row["n_unmatched"], row["missing"]) for row in table] == [
        ("", "2", "0", ""),
        ("", "2", "1", "1"),
    ]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "  =1", "＝1", "'quoted"])
def test_a_hostile_name_is_no_formula(aggregate: Aggregate, name: str) -> None:
    """A cell that a spreadsheet would run starts with an apostrophe; taking it away gives the name."""
    hostile = replace(aggregate, clients=(name, "client-b"), trust=None, rejected=(Rejection(name, name, name),))
    assert rows(clients_table(hostile, {}))[0]["client"] == f"'{name}"
    assert set(rows(rejected_table(hostile))[0].values()) == {f"'{name}", ""}


@given(st.text())
def test_no_text_is_a_formula_and_no_name_is_lost(text: str) -> None:
    """Whatever a text holds: nothing that a spreadsheet runs, at the start or after a separator, nothing unprintable.

    One leading apostrophe less gives a printable text without separators back.
    """
    cell = _cell(text)
    assert cell.isprintable()
    for part in re.split("[;,|\t]", cell):
        assert not part.strip(" ") or part.strip(" ")[0] not in "=+-@＝＋－＠"
    if text.isprintable() and not set(text) & set(";,|"):
        assert (cell[1:] if cell.startswith("'") else cell) == show_text(text)


@given(st.floats())
def test_every_number_comes_back(number: float) -> None:
    """A number in a table is the number that was computed, to the last bit; a negative one is no formula."""
    assert np.array_equal(float(_cell(number)), number, equal_nan=True)


def test_text_with_separators_stays_in_its_cell(aggregate: Aggregate) -> None:
    """Commas and quotes in a reason do not start new cells; line breaks are escaped."""
    odd = replace(aggregate, rejected=(Rejection("c", 'a, "b"\nc;', "x,y"),))
    assert rows(rejected_table(odd)) == [{"client": "c", "reason": 'a, "b"\\nc;', "source": "x,y", "kind": ""}]

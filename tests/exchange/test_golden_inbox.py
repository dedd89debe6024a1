"""Inboxes and result folders that fedica 0.1.0 wrote: they are read, and the same inbox gives the same result.

``inbox`` belongs to ``study.json``: channels with an average reference, one client's in another order, one client
without C4, one of noise alone, one for another study, one with another mixing, one signed. ``inbox-grid`` has no study:
voxels, one client in another grid, one of maps of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedica.exchange import read_aggregate, read_contribution, read_folder, read_study
from fedica.matching import match
from fedica.workflow.combine import combine

RUNS: dict[str, dict[str, Any]] = {"": {"study": "study.json"}, "-grid": {"n_components": 4}}


@pytest.fixture
def v1(golden: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand where 0.1.0 stood: its result names the files by these paths."""
    monkeypatch.chdir(golden / "v1")
    return golden / "v1"


@pytest.mark.parametrize("name", RUNS)
def test_the_same_inbox_gives_the_same_result(v1: Path, name: str) -> None:
    """By Algorithm 1: labels, signs and who is refused are the same, and every number to 1e-9.

    In the first inbox a client lacks a feature, which is filled by consensus, and its weights are others now.
    """
    tolerance = {"": 1e-2, "-grid": 1e-9}[name]
    old = read_folder(f"result{name}-srf").aggregate
    new = combine(f"inbox{name}", method="srf-ica", min_support=1, **RUNS[name]).aggregate
    assert new.clients == old.clients
    assert new.terms.features == old.terms.features
    assert [(x.client, x.source) for x in new.rejected] == [(x.client, x.source) for x in old.rejected]
    for field in ("labels", "signs", "client_of_atom", "support"):
        np.testing.assert_array_equal(getattr(new, field), getattr(old, field), field)
    for field in ("mixing", "centres", "atoms", "spectrum"):
        np.testing.assert_allclose(getattr(new, field), getattr(old, field), rtol=0, atol=tolerance, err_msg=field)
    assert new.trust is not None
    assert old.trust is not None
    for field in ("has", "n_unmatched"):
        np.testing.assert_array_equal(getattr(new.trust, field), getattr(old.trust, field))
    np.testing.assert_allclose(new.spread, old.spread, rtol=0, atol=60 * tolerance)
    for field in ("angle", "angles", "influence"):  # degrees
        np.testing.assert_allclose(getattr(new.trust, field), getattr(old.trust, field), rtol=0, atol=60 * tolerance)


@pytest.mark.parametrize("name", RUNS)
def test_consensus_gives_the_same_groups(v1: Path, name: str) -> None:
    """Its weights are others than those of 0.1.0: the components stay within two degrees."""
    old = read_folder(f"result{name}").aggregate
    new = combine(f"inbox{name}", **RUNS[name]).aggregate
    assert new.clients == old.clients
    assert [(x.client, x.source) for x in new.rejected] == [(x.client, x.source) for x in old.rejected]
    assert match(new.mixing, old.mixing).cosines.min() > np.cos(np.radians(2))


@pytest.mark.parametrize("name", RUNS)
def test_the_whole_result_folder_is_read(v1: Path, name: str) -> None:
    """Details, public aggregate and summary belong together; where each contribution came from is known."""
    folder = read_folder(v1 / f"result{name}")
    assert [x.client for x in folder.provenance] == list(folder.aggregate.clients)
    assert {x.fedica for x in folder.provenance} == {"0.1.0"}
    np.testing.assert_array_equal(folder.public.mixing, folder.aggregate.mixing)
    np.testing.assert_array_equal(
        read_aggregate(v1 / f"result{name}/aggregate.safetensors").mixing, folder.public.mixing
    )


def test_the_study_is_read(v1: Path) -> None:
    """Its features are those of the inbox."""
    study = read_study(v1 / "study.json")
    assert study.features == read_contribution(v1 / "inbox" / "client-1.safetensors").features

"""Group ICA of more maps than fit in memory: a twentieth of a thousand people, 100 maps of 60,000 voxels each."""

from __future__ import annotations

import many_people
import pytest


@pytest.mark.slow
def test_a_twentieth_of_the_large_case_takes_less_memory_than_its_maps(tmp_path, monkeypatch):
    """1.2 GB of maps: read at most ten times, never held whole, and gone afterwards; the components are found."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # every thread has buffers of its own
    (row,) = many_people.large_rows([50], tmp_path, max_mb=1000)
    assert row["bytes"] > 1.2e9
    assert row["passes"] <= 10
    assert row["likeness"] > 0.98
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_through_the_command_the_disk_holds_twice_the_maps_at_most(tmp_path, monkeypatch):
    """Everybody's own file of single precision, and one temporary file of that precision; nothing else of that size."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (row,) = many_people.large_rows([50], tmp_path, max_mb=1500, by_command=True)
    assert row["bytes"] > 1.2e9
    assert 0.8 * row["bytes"] < row["temporary_bytes"] < row["bytes"]  # what fits in memory is not written
    assert row["result_bytes"] < 0.05 * row["bytes"]
    assert row["passes"] <= 10
    assert row["likeness"] > 0.98
    assert list(tmp_path.iterdir()) == []

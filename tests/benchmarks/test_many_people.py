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

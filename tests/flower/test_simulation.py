"""Flower's simulation on one machine, with Ray: ``make faults``."""

from __future__ import annotations

import importlib.util

import pytest
from simulation import simulate

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]


def test_a_simulation_listens_on_loopback_alone(tmp_path, require):
    """All sockets of Ray and Flower are looked at until there is a result, of every client."""
    require("Ray", importlib.util.find_spec("ray") is not None)
    simulate(tmp_path, n_clients=3, n_samples=300)

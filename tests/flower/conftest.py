"""Fixtures of the Flower tests; without Flower there is nothing here to test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # inprocess.py and deployment.py, beside this file
if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["*.py"]


@pytest.fixture
def federation(tmp_path, monkeypatch):
    """An empty federation in one process."""
    from flwr.supercore.task_identity import TaskIdentity
    from inprocess import InProcess

    for name, value in (("_run_id", 77), ("_node_id", 1), ("_task_id", 1)):
        monkeypatch.setattr(TaskIdentity, name, value)
    monkeypatch.setenv("FEDICA_COORDINATOR", str(tmp_path / "coordinator.toml"))
    made = InProcess(tmp_path)
    made.coordinator()
    return made


@pytest.fixture
def three(federation):
    """A federation of three good clients: a, b and c."""
    for name in "abc":
        federation.add(name)
    return federation

"""Fixtures of the Flower tests; without Flower there is nothing here to test."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # inprocess.py and deployment.py, beside this file
MAX_LOG_LINES = 20
if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["*.py"]


@pytest.fixture(autouse=True)
def _few_log_lines():
    """A failing test shows what went wrong, not what each of a thousand clients did."""
    left = iter(range(MAX_LOG_LINES))

    def is_shown(record):
        return record.levelno >= logging.WARNING and next(left, None) is not None

    logger = logging.getLogger("flwr")
    logger.addFilter(is_shown)
    yield
    logger.removeFilter(is_shown)


@pytest.fixture(scope="session")
def minutes(require):
    """Minutes of time."""
    require("minutes of time", "FEDICA_SLOW" in os.environ)


@pytest.fixture(scope="session")
def nginx(require):
    """The path of nginx."""
    from deployment import NGINX

    require("nginx", NGINX is not None)
    return NGINX


@pytest.fixture(scope="session")
def systemd_analyze(require):
    """The path of systemd-analyze, which needs no systemd that runs."""
    path = shutil.which("systemd-analyze")
    require("systemd-analyze", path is not None)
    return path


@pytest.fixture(scope="session")
def root(require):
    """The rights to run as another user."""
    require("the rights to run as another user", os.geteuid() == 0)


@pytest.fixture(scope="session")
def mounts(root):
    """The right to mount file systems. In some containers root lacks it, and nothing that can be installed gives it."""
    from deployment import may_mount

    assert root is None
    if not may_mount():
        pytest.skip("this kernel does not let root mount file systems: run it outside of a container")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Four clients, connected, whose processes, and the coordinator's, are killed."""
    from deployment import wait_until
    from kills import CLIENTS, Killed

    with Killed(tmp_path_factory.mktemp("killed"), CLIENTS) as deployment:
        deployment.start_all()
        wait_until(lambda: deployment.online() == list(CLIENTS), 300, "four clients")
        yield deployment


@pytest.fixture(scope="module")
def undisturbed(killed):
    """The folder of a run of two rounds in which nothing was killed."""
    from kills import ROUNDS

    run_id = killed.submit(**ROUNDS)
    assert killed.finish(run_id, 600) == "finished:completed"
    return killed.results(run_id)


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
def clock(monkeypatch):
    """The clock of `collect`."""
    from inprocess import Clock

    from fedica.flower import collect

    made = Clock()
    monkeypatch.setattr(collect, "time", made)
    return made


@pytest.fixture
def hour_passes_after(clock, monkeypatch):
    """Return a function: an hour passes as soon as so many answers have been taken."""
    from inprocess import HOUR

    from fedica.flower import collect

    def hour_passes_after(n_answers):
        taken, answer = [], collect._answer

        def counting(*arguments):
            found = answer(*arguments)
            if found is not None:
                taken.append(found)
                if len(taken) == n_answers:
                    clock.leap(HOUR)
            return found

        monkeypatch.setattr(collect, "_answer", counting)

    return hour_passes_after


@pytest.fixture
def three(federation):
    """A federation of three good clients: a, b and c."""
    for name in "abc":
        federation.add(name)
    return federation

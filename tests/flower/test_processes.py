"""Faults of real processes, minutes long: ``make faults``, which .ci/run calls."""

from __future__ import annotations

import csv
import os
import signal
import time
from pathlib import Path

import pytest
from deployment import NGINX, Deployment, wait_until
from inprocess import client_data

from fedica.exchange import read_folder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]


@pytest.fixture(scope="session")
def minutes(require):
    """Minutes of time."""
    require("minutes of time", "FEDICA_SLOW" in os.environ)


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return {row["client"]: row["reason"] for row in csv.DictReader(stream)}


class Faulty(Deployment):
    """A deployment whose clients fail as told."""

    def __init__(self, folder, clients, **options):
        data = {client: client_data(k) for k, client in enumerate(clients)}
        super().__init__(
            folder, data, shielded=NGINX is not None, node_app="faulty_app:app", policy="max-seconds = 15", **options
        )
        self.env["PYTHONPATH"] = str(Path(__file__).parent)

    def fault(self, client, fault):
        """From the next message on, this client fails so."""
        (self.folder / f"{client}.fault").write_text(fault)

    def asked(self, client):
        """Whether the client's app has been started by a message."""
        return (self.folder / f"{client}.fault.asked").exists()

    def over(self, client):
        """Whether the client that came late has come."""
        return (self.folder / f"{client}.fault.over").exists()

    def start_node(self, client, *arguments, **changes):
        """With the file that switches its faults."""
        env = {"FAULT": str(self.folder / f"{client}.fault")}
        return super().start_node(client, *arguments, env=env, **changes)

    def keep_starting(self, client, seconds):
        """Start a SuperNode again and again, as a supervisor does, until it is connected.

        After a hard kill Flower takes the node for connected for another minute, and refuses it that long.
        """
        before, deadline = self.log(client).count("SuperNode ID"), time.monotonic() + seconds
        process = self.start_node(client)
        while self.log(client).count("SuperNode ID") == before:
            assert time.monotonic() < deadline, self.log(client)[-2000:]
            if process.poll() is not None:
                time.sleep(5)
                process = self.start_node(client)
            time.sleep(0.5)


def test_faults_of_processes_in_one_run_and_everybody_who_can_in_the_next(tmp_path):
    """raise, hang, killed, late and announce in one run; what Flower frees takes part in the next one."""
    faults = {"c": "raise", "d": "hang", "e": "killed", "f": "late 130", "g": "announce"}
    with Faulty(tmp_path, "abcdefg") as deployment:
        for client, fault in faults.items():
            deployment.fault(client, fault)
        deployment.start_all()
        started = time.monotonic()
        run_id = deployment.submit(**{"deadline-seconds": 100.0, "return-seconds": 60.0})
        status = deployment.finish(run_id, 600)
        seconds = time.monotonic() - started
        assert status == "finished:completed", deployment.log("superlink")[-4000:]
        result = deployment.results(run_id) / "result"
        rows = rows_of(result / "rejected.csv")
        print(f"first run: {seconds:.0f} s", rows)
        assert sorted(read_folder(result).aggregate.clients) == ["a", "b"]
        assert set(rows) == set(faults)
        assert "raised an error" in rows["c"]
        assert "own time limit" in rows["d"]
        assert "killed or crashed" in rows["e"] or "did not answer" in rows["e"]
        assert "did not answer within 100 s" in rows["f"]
        assert "had not sent all of it" in rows["g"] or "did not answer" in rows["g"]

        for client in faults:
            deployment.fault(client, "")
        wait_until(lambda: deployment.over("f"), 300, "f is free again")
        run_id = deployment.submit(**{"deadline-seconds": 60.0, "return-seconds": 60.0})
        assert deployment.finish(run_id, 600) == "finished:completed"
        result = deployment.results(run_id) / "result"
        print("second run:", rows_of(result / "rejected.csv"))
        assert set("abcdef") <= set(read_folder(result).aggregate.clients)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_supernode_stopped_in_the_middle_and_started_again(tmp_path, how):
    """Its client counts once or is named; the next run has it for sure."""
    with Faulty(tmp_path, "abc") as deployment:
        deployment.fault("c", "late 600")
        deployment.start_all()
        run_id = deployment.submit(**{"deadline-seconds": 90.0, "return-seconds": 40.0})
        wait_until(lambda: deployment.asked("c"), 300, "c was asked")
        deployment.stop("c", how)
        deployment.fault("c", "")
        deployment.keep_starting("c", 300)
        assert deployment.finish(run_id, 600) == "finished:completed"
        result = deployment.results(run_id) / "result"
        clients, rows = read_folder(result).aggregate.clients, rows_of(result / "rejected.csv")
        print(f"{how.name}, started again:", clients, rows)
        assert sorted([*clients, *rows]) == ["a", "b", "c"]
        run_id = deployment.submit(**{"deadline-seconds": 120.0})
        assert deployment.finish(run_id, 600) == "finished:completed"
        assert sorted(read_folder(deployment.results(run_id) / "result").aggregate.clients) == ["a", "b", "c"]


def test_a_supernode_lost_in_the_middle_is_named(tmp_path):
    """Killed and never back: Flower says so after a minute, before the deadline."""
    with Faulty(tmp_path, "abc") as deployment:
        deployment.fault("c", "late 600")
        deployment.start_all()
        run_id = deployment.submit(**{"deadline-seconds": 200.0, "return-seconds": 40.0})
        wait_until(lambda: deployment.asked("c"), 300, "c was asked")
        deployment.stop("c", signal.SIGKILL)
        started = time.monotonic()
        assert deployment.finish(run_id, 600) == "finished:completed"
        rows = rows_of(deployment.results(run_id) / "result" / "rejected.csv")
        print(f"lost: {time.monotonic() - started:.0f} s", rows)
        assert "its node was lost" in rows["c"]


def test_the_superlink_stopped_and_started_in_the_middle(tmp_path):
    """The run fails or resumes cleanly, and Flower says which; the next run has everybody."""
    with Faulty(tmp_path, "abc") as deployment:
        deployment.fault("c", "late 10")
        deployment.start_all()
        run_id = deployment.submit(**{"deadline-seconds": 90.0, "return-seconds": 40.0})
        wait_until(lambda: deployment.asked("c"), 300, "c was asked")
        deployment.stop("superlink")
        deployment.start_superlink()
        status = deployment.finish(run_id, 600)
        folder = deployment.results(run_id)
        print("after the SuperLink's restart:", status, sorted(path.name for path in folder.iterdir()))
        if status == "finished:completed":
            assert sorted(read_folder(folder / "result").aggregate.clients) == ["a", "b", "c"]
        else:
            assert status.startswith("finished:failed")
            assert not (folder / "result").exists()
        deployment.fault("c", "")
        run_id = deployment.submit(**{"deadline-seconds": 120.0})
        assert deployment.finish(run_id, 600) == "finished:completed"
        assert sorted(read_folder(deployment.results(run_id) / "result").aggregate.clients) == ["a", "b", "c"]

"""Faults of a client's processes, minutes long: ``make faults``, which .ci/run calls."""

from __future__ import annotations

import re
import signal
import time

import pytest
from deployment import wait_until
from faulty import Faulty, rows_of

from fedica.exchange import read_folder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]


def test_faults_of_processes_in_one_run_and_everybody_who_can_in_the_next(tmp_path):
    """raise, hang, killed, late, announce, a node stopped, lost or without SuperExec in one run; all in the next."""
    faults = {
        "c": "raise",
        "d": "hang",
        "e": "killed",
        "f": "waits",
        "g": "announce",
        "k": "killed when it has sent a part",
    }
    stopped = {"j": signal.SIGKILL, "h": signal.SIGTERM, "i": "SuperExec"}  # j first: Flower notices after a minute
    with Faulty(tmp_path, "abcdefghijk") as deployment:
        for client, fault in (faults | dict.fromkeys(stopped, "waits")).items():
            deployment.fault(client, fault)
        deployment.start_all()
        started = time.monotonic()
        run_id = deployment.submit(**{"deadline-seconds": 120.0, "return-seconds": 60.0})
        for client, how in stopped.items():
            wait_until(lambda client=client: deployment.asked(client, run_id), 300, f"{client} was asked")
            if how == "SuperExec":
                deployment.kill_superexec(client)
            else:
                deployment.stop(client, how)
            deployment.fault(client, "")
        for client in "hi":
            deployment.keep_starting(client, 300)
        assert deployment.finish(run_id, 600) == "finished:completed", deployment.log("superlink")[-4000:]
        result = deployment.results(run_id) / "result"
        clients, rows = read_folder(result).aggregate.clients, rows_of(result / "rejected.csv")
        print(f"first run: {time.monotonic() - started:.0f} s", rows)
        assert sorted([*clients, *rows]) == list("abcdefghijk")  # each client counts once or is named
        assert {"a", "b"} <= set(clients) <= {"a", "b", "h", "i"}
        assert "raised an error" in rows["c"]
        assert "own time limit" in rows["d"]
        assert "killed or crashed" in rows["e"] or "did not answer" in rows["e"]
        assert "did not answer within 120 s" in rows["f"]
        for client in "gk":
            assert re.search("had not sent all of it|did not answer|killed or crashed", rows[client])
        assert "its node was lost" in rows["j"]

        for client in faults:
            deployment.fault(client, "")
        run_id = deployment.submit(**{"expect-clients": 10, "deadline-seconds": 60.0, "return-seconds": 60.0})
        assert deployment.finish(run_id, 600) == "finished:completed"
        result = deployment.results(run_id) / "result"
        print("second run:", rows_of(result / "rejected.csv"))
        assert set("abcdefghik") <= set(read_folder(result).aggregate.clients)

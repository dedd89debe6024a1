"""A deployment of real processes whose clients fail as told."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from pathlib import Path

from deployment import NGINX, Deployment, wait_until
from inprocess import client_data


def rows_of(path):
    """Why each client of a table of rejections was left out."""
    with open(path, newline="", encoding="utf-8") as stream:
        return {row["client"]: row["reason"] for row in csv.DictReader(stream)}


def children_of(pid):
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


class Faulty(Deployment):
    """A deployment whose clients fail as told."""

    def __init__(self, folder, clients, **options):
        data = {client: client_data(k) for k, client in enumerate(clients)}
        super().__init__(
            folder,
            data,
            shielded=NGINX is not None,
            apps={"client_app": "faulty_app:app", "server_app": "faulty_server:app"},
            policy="max-seconds = 15",
            **options,
        )
        for page in (self.root / "clients").glob("*.toml"):
            page.write_text(page.read_text().replace("max-rounds = 1", "max-rounds = 2"))
        self.env["PYTHONPATH"] = f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

    def fault(self, client, fault):
        """From the next message on, this client fails so; one that waits never reads half of a change."""
        path = self.folder / f"{client}.fault"
        path.with_suffix(".told").write_text(fault)
        path.with_suffix(".told").rename(path)

    def asked(self, client, run_id):
        """The number of the process that the first message of a run has started at a client; 0 if none has come."""
        return self._process_of(f"{client}.fault.asked-{run_id}")

    def kill(self, process):
        """By kill -9; a SuperLink is started again."""
        if process in ("superlink", "superexec"):
            if process == "superlink":
                self.stop("superlink", signal.SIGKILL)
            else:
                self.kill_superexec("superlink")
            self.start_superlink()
            return
        app = f"flwr-serverapp --runtime-api-address 127.0.0.1:{self.superlink_port} "
        listed = subprocess.run(["pgrep", "-f", app], capture_output=True, text=True, check=True)
        for pid in listed.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def kill_superexec(self, name):
        """Kill the SuperExec of a process by kill -9, and wait until the process has ended by itself."""
        process = self.processes.pop(name)
        (superexec,) = children_of(process.pid)
        os.kill(superexec, signal.SIGKILL)
        wait_until(lambda: process.poll() is not None, 300, f"{name} ends with its SuperExec")
        assert process.returncode == 1

    def kill_proxy(self):
        """By kill -9; it is started again."""
        if self.shielded:
            self.stop("nginx", signal.SIGKILL)
            self.start_nginx()

    def scored(self, client, run_id):
        """Whether the client's app has been asked for a second message."""
        return (self.folder / f"{client}.fault.scored-{run_id}").exists()

    def held(self, run_id):
        """Whether the server's app is held where its fault says."""
        return (self.folder / f"server.fault.held-{run_id}").exists()

    def returned(self, client, run_id):
        """The number of the process in which the client's app has been sent the aggregate; 0 if it has not been."""
        return self._process_of(f"{client}.fault.returned-{run_id}")

    def _process_of(self, mark):
        path = self.folder / mark
        return int(path.read_text()) if path.exists() else 0

    def start(self, name, arguments, env, umask=0):
        """With the file that switches the faults of a client, or of the server's app."""
        switched = {"superlink": "server"}.get(name, name)
        return super().start(name, arguments, {**env, "FAULT": str(self.folder / f"{switched}.fault")}, umask)

    def keep_starting(self, client, seconds):
        """Start a SuperNode again and again, as a supervisor does, until it is connected.

        After a hard kill Flower takes the node for connected for another minute, and refuses it that long.
        """
        before, deadline = self.log(client).count("SuperNode ID"), time.monotonic() + seconds
        process = self.start_node(client)
        while self.log(client).count("SuperNode ID") == before:
            assert time.monotonic() < deadline, self.log(client)[-2000:]
            if process.poll() is not None:
                time.sleep(10)
                process = self.start_node(client)
            time.sleep(0.5)

"""A real deployment on loopback: real processes, by the commands of ``fedica flower up``."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from flwr.proto.control_pb2 import ListRunsRequest

from fedica.flower.apps import page_fingerprint
from fedica.flower.certs import make_certificates
from fedica.flower.commands import commands
from fedica.flower.control import Control
from fedica.flower.scaffold import Federation, write_federation

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
BIN = Path(sys.executable).parent


@functools.cache
def may_mount():
    """Whether root may mount file systems, one over another among them, in a namespace of its own."""
    with tempfile.TemporaryDirectory() as folder:
        mount = "mkdir lower upper work root && mount -t overlay o -o lowerdir=lower,upperdir=upper,workdir=work root"
        command = ["unshare", "--mount", "sh", "-c", mount]
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


PORTS = itertools.cycle(range(10_000, 32_000))
"""Below those that Linux gives to outgoing connections: one of these could take a port before it is listened on."""
for _ in range(os.getpid() * 64 % 22_000):
    next(PORTS)  # processes that test side by side begin at different ones


def free_port():
    """A port of loopback that nobody listens on, each time another one."""
    for port in PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError


def wait_until(true, seconds, what):
    """Wait for something to become true, looking less often the longer it takes; fail with what it was."""
    deadline, pause = time.monotonic() + seconds, 0.1
    while time.monotonic() < deadline:
        if value := true():
            return value
        time.sleep(pause)
        pause = min(1.0, 1.2 * pause)
    raise AssertionError(f"not within {seconds} s: {what}")


@contextlib.contextmanager
def building():
    """While Flower builds the bundle of an app: a package that it uses warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class Deployment:
    """One federation of processes; everything that is started here is stopped here, by its process id."""

    def __init__(self, folder, data, *, shielded=True, apps=None, policy="", by_flwr=False):
        """by_flwr : register keys and submit runs with Flower's own commands, which take seconds to start.

        apps : what Flower loads instead of fedica's ``client_app`` and ``server_app``, by these names.
        """
        self.folder, self.data, self.shielded, self.by_flwr = Path(folder), data, shielded, by_flwr
        self.processes, self.node_ports = {}, {}
        self.port, self.superlink_port = free_port(), free_port()
        self.certs = make_certificates(self.folder / "certs", list(data), host="127.0.0.1")
        federation = Federation("127.0.0.1", self.port, self.superlink_port, self.certs.folder, listen="127.0.0.1")
        write_federation(self.folder / "federation", federation)
        self.root = self.folder / "federation"
        page = self.root / "app" / "pyproject.toml"
        own = page_fingerprint(page.read_bytes())
        for name, other in (apps or {}).items():
            page.write_text(page.read_text().replace(f"fedica.flower.{name}:app", other))
        submitted = page_fingerprint(page.read_bytes())
        for client, values in data.items():
            np.save(self.folder / f"{client}.npy", values)
            page = self.root / "clients" / f"{client}.toml"
            text = page.read_text().replace("min-samples = 1000", "min-samples = 100").replace(own, submitted)
            page.write_text(text.replace("max-seconds = 3600", policy or "max-seconds = 60"))
            signing = self.root / "clients" / "signing"
            signing.mkdir(mode=0o700, exist_ok=True)
            shutil.copy(self.certs.signing / f"{client}.key", signing)
        self.plan, self.control = commands(self.root), Control(self.root)
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("FLWR_", "FEDICA_", "COV_"))},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait(60)

    def command(self, start, *, env=True):
        """The line of the plan that starts so, as arguments, and the environment that the lines before it export."""
        exported = {}
        for _title, lines in self.plan:
            for line in lines:
                if line.startswith("export "):
                    exported |= dict(x.split("=", 1) for x in shlex.split(line.removeprefix("export ")))
                elif line.startswith(start):
                    return shlex.split(line), {**self.env, **(exported if env else {})}
        raise AssertionError(start)

    def start(self, name, arguments, env, umask=0):
        """Start a process whose output goes to a file, by default under the most generous umask."""
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                arguments, env=env, cwd=self.folder, stdout=log, stderr=log, start_new_session=True, umask=umask
            )
        return self.processes[name]

    def stop(self, name, how=signal.SIGTERM):
        """Stop a process and what it started: its own session and nothing else."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, how)
        try:
            process.wait(8)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def log(self, name):
        """What a process has said so far."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start_superlink(self):
        """Start the SuperLink, and wait until it answers."""
        self.start("superlink", *self.command("fedica flower superlink"))
        wait_until(lambda: self.get(self.superlink_port, "/health", self.certs.inner_ca) == 200, 300, "SuperLink")

    def start_nginx(self):
        """Start the shield in the foreground; as root it must stay root to reach a test's private folder."""
        arguments, env = self.command("nginx")
        user = " user root;" if os.getuid() == 0 else ""
        umask = int(self.command("umask")[0][1], 8)
        self.start("nginx", [NGINX, *arguments[1:], "-g", f"daemon off;{user}"], env, umask)
        wait_until(lambda: self.get(self.port, "/", self.certs.ca) == 404, 120, "nginx")

    def register(self, *clients):
        """Register the keys of clients with the SuperLink."""
        if not self.by_flwr:
            for client in clients:
                self.control.register(client)
            return
        with ThreadPoolExecutor() as pool:
            keys = [str(self.certs.nodes / f"{client}.pub") for client in clients]
            for said in pool.map(lambda key: self.flwr("supernode", "register", key, "study"), keys):
                assert said["success"], said

    def start_node(self, client, env=None, **changes):
        """Start a client's node."""
        arguments, _ = self.command("fedica flower client")
        self.node_ports[client] = free_port()
        values = {
            "--server": f"127.0.0.1:{self.port if self.shielded else self.superlink_port}",
            "--ca": self.certs.ca if self.shielded else self.certs.inner_ca,
            "--key": self.certs.nodes / f"{client}.key",
            "--policy": self.root / "clients" / f"{client}.toml",
            "--data": self.folder / f"{client}.npy",
            "--output": self.folder / f"{client}-output",
            "--port": self.node_ports[client],
        } | changes
        options = [str(x) for pair in values.items() for x in pair]
        return self.start(client, [BIN / arguments[0], *arguments[1:3], client, *options], {**self.env, **(env or {})})

    def start_stranger(self, name, **changes):
        """Start Flower's own SuperNode, with a client's key and certificate unless others are given."""
        values = {
            "--superlink": f"127.0.0.1:{self.port if self.shielded else self.superlink_port}",
            "--root-certificates": str(self.certs.ca if self.shielded else self.certs.inner_ca),
            "--auth-supernode-private-key": str(self.certs.nodes / f"{next(iter(self.data))}.key"),
        } | {f"--{key.replace('_', '-')}": value for key, value in changes.items()}
        options = [x for option, value in values.items() if value is not None for x in (option, value)]
        own = {**self.command("flwr run")[1], "FLWR_HOME": str(self.folder / f"{name}-home")}
        return self.start(name, [BIN / "flower-supernode", *options, "--port", str(free_port())], own)

    def start_all(self, nodes=None):
        """Everything, ready for a run; by default the nodes of all clients."""
        self.start_superlink()
        if self.shielded:
            self.start_nginx()
        self.register(*self.data)
        for client in self.data if nodes is None else nodes:
            self.start_node(client)

    def flwr(self, *arguments, home=None):
        """Run Flower's own command on the coordinator's machine; returns its JSON."""
        env = {**self.command("flwr run")[1], **({"FLWR_HOME": str(home)} if home else {})}
        result = subprocess.run(
            [BIN / "flwr", *arguments, "--format", "json"],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        try:
            return json.loads(result.stdout[result.stdout.index("{") :])
        except ValueError:
            return {"success": False, "stdout": result.stdout, "stderr": result.stderr}

    def flower(self, *arguments):
        """The command ``fedica flower ...``, as the coordinator's user runs it."""
        return [BIN / "fedica", "flower", *map(str, arguments)]

    def fedica(self, *arguments, code=0):
        """Run ``fedica flower ...``; returns its JSON, or what it said if it is to fail."""
        command = self.flower(*arguments, "--json")
        said = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=600, check=False)
        assert said.returncode == code, (arguments, said.stdout, said.stderr, self.log("superlink")[-3000:])
        return json.loads(said.stdout) if code == 0 else " ".join(said.stderr.split())

    @staticmethod
    def settings(**settings):
        """Settings of a run, as its commands take them; deadlines are far away."""
        chosen = {"components": 3, "wait-seconds": 300.0, "deadline-seconds": 300.0, "return-seconds": 300.0} | settings
        return " ".join(f"{name}={json.dumps(value)}" for name, value in chosen.items())

    def submit(self, **settings):
        """Submit a run; returns its number."""
        overrides = self.settings(**settings)
        if not self.by_flwr:
            with building():
                return self.control.start_run(overrides)
        said = self.flwr("run", str(self.root / "app"), "study", "--run-config", overrides)
        assert said["success"], said
        return int(said["run-id"])

    def status(self, run_id):
        """A run's state, as ``flwr list`` tells it."""
        with self.control._calling() as call:
            status = call.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id].status
        return f"{status.status}:{status.sub_status}" if status.sub_status else status.status

    def online(self):
        """The clients that are connected."""
        return [member.client for member in self.control.members() if member.online]

    def listed_online(self):
        """The same by ``fedica flower status``: the SuperLink answers its own user alone."""
        return [member["client"] for member in self.fedica("status", self.root)["clients"] if member["online"]]

    def finish(self, run_id, seconds):
        """Wait until a run is over; returns its last state."""
        deadline = time.monotonic() + seconds
        while not (status := self.status(run_id)).startswith("finished"):
            assert time.monotonic() < deadline, (status, self.log("superlink")[-3000:])
            time.sleep(0.5)
        return status

    def results(self, run_id):
        """The folder of a run."""
        return self.root / "coordinator" / "results" / f"run-{run_id}"

    def get(self, port, path, ca, *, method="GET", headers=None, data=None):
        """The status that a request gets, or the kind of failure."""
        context = ssl.create_default_context(cafile=str(ca))
        request = urllib.request.Request(
            f"https://127.0.0.1:{port}{path}", method=method, headers=headers or {}, data=data
        )
        try:
            with urllib.request.urlopen(request, context=context, timeout=600) as reply:  # noqa: S310
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, urllib.error.URLError) as error:
            return str(error)

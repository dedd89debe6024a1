"""A federation as docs/deploy.md sets it up, each process with a user of its own: ``make faults``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from deployment import BIN, NGINX, Deployment, wait_until
from inprocess import client_data
from others import NOBODY, as_user, ask_as_another_user, steps_of_the_proxy

from fedica.flower.guard import _kernel_address

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]
USERS = {"superlink": 20001, "nginx": 20002, "a": 20011, "b": 20012, "c": 20013}
CONTROL = ["/v1/control/list-nodes", "/v1/control/register-node", "/v1/control/start-run", "/v1/runtime/acquire-task"]


def give(folder, user):
    """Let a folder and all in it belong to a user alone."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
    folder.chmod(0o700)


class Separate(Deployment):
    """A federation whose processes have users of their own."""

    def __init__(self, folder, data):
        super().__init__(folder, data)
        for client in data:
            home = self.home(client)
            (home / "signing").mkdir(mode=0o700, parents=True)
            shutil.copy(self.certs.ca, home)
            shutil.move(self.certs.nodes / f"{client}.key", home / "node.key")
            shutil.move(self.root / "clients" / f"{client}.toml", home / "policy.toml")
            shutil.move(self.certs.signing / f"{client}.key", home / "signing")
            np.save(home / "data.npy", data[client])
            (home / "data.npy").chmod(0o600)
            (self.folder / f"{client}.npy").unlink()
        shutil.rmtree(self.root / "clients" / "signing")
        for name, user in USERS.items():
            self.home(name).mkdir(mode=0o700, exist_ok=True)
            give(self.home(name), user)
        for made in (self.certs.folder, self.root):
            give(made, USERS["superlink"])

    def home(self, name):
        """The folder of a process."""
        return self.folder / f"home-{name}"

    def start(self, name, arguments, env, umask=0):
        """As its user."""
        env = {**env, "HOME": str(self.home(name)), "TMPDIR": str(self.home(name))}
        return super().start(name, as_user(USERS[name], arguments), env, umask)

    def start_superlink(self):
        """It answers its own user alone: root, who tests, gets 404."""
        self.start("superlink", *self.command("fedica flower superlink"))
        wait_until(lambda: self.get(self.superlink_port, "/health", self.certs.inner_ca) == 404, 300, "SuperLink")

    def start_nginx(self):
        """By the steps of its unit."""
        own = self.home("nginx"), USERS["nginx"]
        for copy in steps_of_the_proxy(self.root, "ExecStartPre", *own):
            subprocess.run(copy, check=True)
        (command,) = steps_of_the_proxy(self.root, "ExecStart", *own)
        self.start("nginx", [NGINX, *command[1:]], self.env, umask=0o077)
        wait_until(lambda: self.get(self.port, "/", self.certs.ca) == 404, 120, "nginx")

    def fedica(self, *arguments, code=0):
        """As the coordinator's user."""
        command = as_user(USERS["superlink"], [BIN / "fedica", "flower", *arguments, "--json"])
        said = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=600, check=False)
        assert said.returncode == code, (arguments, said.stdout, said.stderr, self.log("superlink")[-3000:])
        return json.loads(said.stdout)

    def register(self, *clients):
        """By the command that is shown."""
        self.fedica("add", self.root, *clients)

    def start_node(self, client, **changes):
        """With what its user has, and nothing else."""
        home = self.home(client)
        own = {"--ca": "ca.crt", "--key": "node.key", "--policy": "policy.toml", "--data": "data.npy"}
        paths = {option: home / name for option, name in own.items()}
        return super().start_node(client, **{**paths, "--output": home / "results", **changes})

    def online(self):
        """The clients that are connected."""
        return [member["client"] for member in self.fedica("status", self.root)["clients"] if member["online"]]


@pytest.fixture(scope="module")
def separate(nginx, root):
    """Three clients, connected and ready; the folder is one that every user can pass through."""
    assert nginx
    assert root is None
    folder = Path(tempfile.mkdtemp(prefix="fedica-users-"))
    folder.chmod(0o711)
    with Separate(folder, {client: client_data(k) for k, client in enumerate("abc")}) as deployment:
        deployment.start_all()
        wait_until(lambda: deployment.online() == ["a", "b", "c"], 300, "three clients")
        yield deployment
    shutil.rmtree(folder)


def test_a_run_of_processes_that_share_no_user(separate):
    """Everybody contributes, and applies what comes back."""
    said = separate.fedica("run", separate.root, "--set", "components=3")
    assert (said["clients"], said["left_out"], said["not_applied"]) == (["a", "b", "c"], {}, {})


def owners_connections(port, user):
    """The client's ends of the connections to a port that a user has open, as everybody can read them."""
    server = _kernel_address("127.0.0.1", port)
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[1].split(":")[1], 16) for row in rows if (row[2], row[3], row[7]) == (server, "01", str(user))]


@pytest.mark.parametrize("user", [0, USERS["nginx"], USERS["a"], NOBODY])
def test_nobody_but_its_own_user_commands_the_superlink(separate, user):
    """Neither root, nor who runs the proxy or a client; naming the owner's connections does not help."""
    ca, port = separate.certs.inner_ca.read_text(), separate.superlink_port
    ends = wait_until(lambda: owners_connections(port, USERS["superlink"]), 300, "a connection of the SuperExec")
    for headers in ({}, *({"X-Forwarded-For": f"127.0.0.1:{end}"} for end in ends)):
        assert set(ask_as_another_user(port, CONTROL, ca, user, **headers)) == {404}


@pytest.mark.parametrize("user", [USERS["superlink"], USERS["b"], NOBODY])
def test_nobody_but_its_own_user_takes_the_task_of_a_client(separate, user):
    """On one machine with others."""
    assert set(ask_as_another_user(separate.node_ports["a"], [*CONTROL, "/health"], "", user)) == {404}


def test_every_file_belongs_to_the_user_of_its_process_alone(separate):
    """After a run: the trees of the coordinator, the proxy and the clients, and what Flower puts into homes."""
    trees = {separate.home(name): user for name, user in USERS.items()}
    trees |= dict.fromkeys((separate.root, separate.certs.folder), USERS["superlink"])
    seen = {path: user for tree, user in trees.items() for path in (tree, *tree.rglob("*"))}
    assert {"state.db", "sources.npy", "superexec.secret", "access.log"} <= {path.name for path in seen}
    told = {path: path.stat(follow_symlinks=False) for path in seen}
    assert [path for path, user in seen.items() if told[path].st_uid != user or told[path].st_mode & 0o077] == []

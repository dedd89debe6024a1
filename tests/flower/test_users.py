"""A federation as docs/deploy.md sets it up, each process with a user of its own, and confined as its unit says.

``make faults``. Where systemd-analyze is missing, which tells what a unit leaves to its service, they are not confined.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from confined import TEMPORARY
from deployment import BIN, NGINX, Deployment, may_mount, wait_until
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


CONFINED = Path(__file__).with_name("confined.py")
UNITS = {"superlink": "fedica-superlink", "nginx": "fedica-proxy"} | dict.fromkeys("abc", "fedica-client@")


class Separate(Deployment):
    """A federation whose processes have users of their own."""

    def __init__(self, folder, data):
        super().__init__(folder, data)
        for client in data:
            home = self.home(client)
            for name in ("signing", "results"):  # systemd makes the second one
                (home / name).mkdir(mode=0o700, parents=True)
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

    def written_by(self, name):
        """The only folder that a process may write: of the unit's ReadWritePaths or StateDirectory."""
        own = {"superlink": self.root / "coordinator", "nginx": self.home("nginx")}
        return own.get(name, self.home(name) / "results")

    def start(self, name, arguments, env, umask=0):
        """As its user; if possible with what its unit leaves to it, and nothing else."""
        env = {**env, "HOME": str(self.home(name))}
        if shutil.which("systemd-analyze") is None or not may_mount():
            return super().start(name, as_user(USERS[name], arguments), env | {"TMPDIR": env["HOME"]}, umask)
        unit = self.root / "systemd" / f"{UNITS[name]}.service"
        confined = [BIN / "python", CONFINED, unit, str(USERS[name]), self.written_by(name)]
        return super().start(name, [*confined, *arguments], env, umask)

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

    def flower(self, *arguments):
        """As the coordinator's user."""
        return as_user(USERS["superlink"], super().flower(*arguments))

    def register(self, *clients):
        """By the command that is shown."""
        self.fedica("add", self.root, *clients)

    def start_node(self, client, **changes):
        """With what its user has, and nothing else."""
        home = self.home(client)
        own = {"--ca": "ca.crt", "--key": "node.key", "--policy": "policy.toml", "--data": "data.npy"}
        paths = {option: home / name for option, name in own.items()}
        return super().start_node(client, **{**paths, "--output": home / "results", **changes})


@pytest.fixture(scope="module")
def separate(nginx, root):
    """Three clients, connected and ready; the folder is one that every user can pass through."""
    assert nginx
    assert root is None
    folder = Path(tempfile.mkdtemp(prefix="fedica-users-", dir="/srv"))  # services have a /tmp of their own
    folder.chmod(0o711)
    with Separate(folder, {client: client_data(k) for k, client in enumerate("abc")}) as deployment:
        deployment.start_all()
        wait_until(lambda: deployment.listed_online() == ["a", "b", "c"], 300, "three clients")
        yield deployment
    shutil.rmtree(folder)


def test_a_run_of_processes_that_share_no_user(separate):
    """Everybody contributes, and applies what comes back."""
    said = separate.fedica("run", separate.root, "--set", "components=3")
    assert (said["clients"], said["left_out"], said["not_applied"]) == (["a", "b", "c"], {}, {})


@pytest.mark.usefixtures("systemd_analyze", "mounts")
@pytest.mark.parametrize("name", USERS)
def test_the_services_did_all_this_with_what_their_units_leave_to_them(separate, name):
    """No rights, few system calls, a file system that they cannot write; as the kernel tells it of each of them."""
    process = Path(f"/proc/{separate.processes[name].pid}")
    said = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    assert {said[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    assert set(said["Uid"].split()) == set(said["Gid"].split()) == {str(USERS[name])}
    mounts = {
        line.split()[4]: line.split()[5].split(",")[0] for line in (process / "mountinfo").read_text().splitlines()
    }
    written = {path for path, how in mounts.items() if how == "rw" and path.startswith(str(separate.folder))}
    assert written == {str(separate.written_by(name))}
    assert mounts["/"] == "ro"
    assert {*TEMPORARY, "/dev", "/root"} <= mounts.keys()


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

"""The runbook of docs/deploy.md, command by command, with real processes: ``make faults``."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from deployment import NGINX, Deployment, wait_until
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from inprocess import client_data

from fedica.exchange import read_folder
from fedica.flower.certs import make_certificates

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]
QUICK = "components=3 deadline-seconds=120.0 return-seconds=120.0 wait-seconds=120.0"


class Consortium(Deployment):
    """A federation that is operated by the commands of fedica alone."""

    def run(self, settings=""):
        """A run; returns the clients of its result, and who was left out."""
        said = self.fedica("run", self.root, "--set", f"{QUICK} {settings}".strip())
        result = read_folder(f"{said['folder']}/result").aggregate
        assert said["clients"] == sorted(result.clients)
        assert said["not_applied"] == {}
        return said["clients"], sorted(said["left_out"])

    def run_when_approved(self, client):
        """A run in which a person at this client says yes to what would leave."""
        page = self.root / "clients" / f"{client}.toml"
        said = page.read_text()
        page.write_text(said.replace('approve = ""', 'approve = "ask"'))
        output = self.folder / f"{client}-output"
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.run)
            waiting = wait_until(lambda: self.fedica("approve", output)["waiting"], 300, "what would leave")
            ((name, shown),) = waiting.items()
            assert "atoms" in shown
            assert not list(self.root.glob(f"coordinator/results/*/inbox/{client}.safetensors"))
            assert self.fedica("approve", output, name, "--yes") == {"message": name, "yes": True}
            outcome = running.result(600)
        page.write_text(said)
        return outcome

    def check(self, client, **changes):
        """What a client finds out before it takes part, by the command that is shown."""
        arguments, _ = self.command("fedica flower client")
        values = dict(zip(arguments[4::2], arguments[5::2], strict=True)) | {
            "--ca": self.certs.ca,
            "--policy": self.root / "clients" / f"{client}.toml",
            "--data": self.folder / f"{client}.npy",
            "--output": self.folder / f"{client}-output",
        }
        return self.fedica("check", client, *(x for pair in (values | changes).items() for x in pair))["checks"]

    def register(self, *clients):
        """By the command that is shown."""
        added = self.fedica("add", self.root, *clients)
        assert sorted(added["files"]) == sorted(clients)
        assert added["reload"] == []  # the proxy knows them since it was started

    def reload(self, said):
        """Let nginx read its folder again, by the command that was shown."""
        words = shlex.split(said["reload"][0])
        assert words[0] == "nginx"
        subprocess.run([NGINX, *words[1:]], check=True, timeout=300)
        keys = re.findall(r'"(\S+)" "[a-z]"', (self.root / "proxy" / "nginx.conf").read_text())
        wait_until(lambda: {self.ask_with(key) for key in keys} == {400}, 300, "the proxy knows all keys")

    def ask_with(self, key):
        """The status of an empty message: 401 if the proxy does not know the key, 400 if the SuperLink was asked."""
        headers = {"content-type": PROTOBUF_MEDIA_TYPE, "flwr-public-key": key}
        path = "/v1/fleet/push-messages"
        return self.get(self.port, path, self.certs.ca, method="POST", headers=headers, data=b"")

    def bring(self, client, seed):
        """Give a new client, which has made its own keys, its policy and data."""
        self.data[client] = client_data(seed)
        np.save(self.folder / f"{client}.npy", self.data[client])
        own = make_certificates(self.folder / "own", [client], host="127.0.0.1")
        for name in ("nodes", "signing"):
            shutil.copy(own.folder / name / f"{client}.pub", self.certs.folder / name)
        shutil.copy(own.signing / f"{client}.key", self.root / "clients" / "signing")

    def allow_few_samples(self, client):
        """As the client edits its policy."""
        page = self.root / "clients" / f"{client}.toml"
        page.write_text(page.read_text().replace("min-samples = 1000", "min-samples = 100"))


@pytest.mark.usefixtures("nginx")
def test_the_runbook(tmp_path):
    """Set up, a day, a client more, a client less, new certificates, rounds, a machine lost."""
    data = {client: client_data(k) for k, client in enumerate("abc")}
    with Consortium(tmp_path, data, policy="max-seconds = 60") as consortium:
        for client in data:
            page = consortium.root / "clients" / f"{client}.toml"
            page.write_text(page.read_text().replace("max-rounds = 1", "max-rounds = 2"))
        # a day
        consortium.start_all()
        wait_until(lambda: consortium.online() == ["a", "b", "c"], 300, "three clients")
        listed = consortium.fedica("status", consortium.root)["clients"]
        assert [(member["client"], member["online"]) for member in listed] == [(x, True) for x in "abc"]
        assert consortium.run_when_approved("c") == (["a", "b", "c"], [])
        listed = consortium.fedica("status", consortium.root)["clients"]
        assert all(member["last_contribution"] for member in listed)
        said = consortium.fedica("run", consortium.root, "--set", "min-clients=4 wait-seconds=1.0", code=1)
        assert "a result needs at least 4 clients; got 3 connected" in said
        assert "there is no setting 'componnts'" in consortium.fedica(
            "run", consortium.root, "--set", "componnts=4", code=1
        )

        # a client more
        consortium.bring("d", 3)
        added = consortium.fedica("add", consortium.root, "d")
        assert [os.path.basename(path) for path in added["files"]["d"]] == ["ca.crt", "d.toml"]  # it has its keys
        assert "in this federation already" in consortium.fedica("add", consortium.root, "d", code=1)
        consortium.allow_few_samples("d")
        consortium.reload(added)
        own = {"--key": tmp_path / "own" / "nodes" / "d.key"}
        checks = consortium.check("d", **own)
        assert "key: the coordinator knows it" in checks
        assert any(line.startswith("would leave: ") for line in checks)
        consortium.start_node("d", **own)
        wait_until(lambda: "d" in consortium.online(), 300, "the fourth client")
        assert consortium.run() == (["a", "b", "c", "d"], [])

        # a client less
        consortium.reload(consortium.fedica("revoke", consortium.root, "b"))
        assert consortium.online() == ["a", "c", "d"]
        assert consortium.run() == (["a", "c", "d"], [])
        assert "is not in this federation" in consortium.fedica("revoke", consortium.root, "b", code=1)
        again = consortium.fedica("add", consortium.root, "b")["files"]["b"]  # a new start, with new keys
        assert [os.path.basename(path) for path in again] == ["ca.crt", "b.key", "b.key", "b.toml"]
        all_of_them = f"{QUICK} require-all=true".replace("wait-seconds=120.0", "wait-seconds=1.0")
        said = consortium.fedica("run", consortium.root, "--set", all_of_them, code=1)
        assert "all are required. client 'b': its node was not connected" in said
        consortium.fedica("revoke", consortium.root, "b")

        # new certificates, and the coordinator's machine lost and restored from its backup
        before = consortium.certs.proxy[0].read_bytes()
        renewed = consortium.fedica("renew", consortium.root, "--days", "30")
        assert renewed["reload"][0].endswith("-s reload")
        assert consortium.certs.proxy[0].read_bytes() != before
        for name in ("superlink", "nginx"):
            consortium.stop(name)
        backup = [
            shutil.copytree(path, tmp_path / f"backup-{path.name}")
            for path in (consortium.root, consortium.certs.folder)
        ]
        for path, copy in zip((consortium.root, consortium.certs.folder), backup, strict=True):
            shutil.rmtree(path)
            shutil.copytree(copy, path)
        consortium.start_superlink()
        consortium.start_nginx()
        wait_until(lambda: consortium.online() == ["a", "c", "d"], 300, "everybody after the restore")

        # a run with rounds
        assert consortium.run("rounds=2 min-clients=3") == (["a", "c", "d"], [])

"""The Containerfile and the compose files, step by step without a container engine: ``make faults``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from deployment import BIN, Deployment, wait_until
from inprocess import client_data

from fedica.exchange import read_folder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes", "nginx", "mounts")]
IMAGE = Path(__file__).with_name("image.py")
USER = 10001


def give(folder):
    """Let a folder and all in it belong to the user of the image alone."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, USER)
    folder.chmod(0o700)


class Contained(Deployment):
    """A federation whose coordinator, and one client, are services of the compose files."""

    def __init__(self, folder, data):
        super().__init__(folder, data)
        self.container = self.root / "container"
        self.services = yaml.safe_load((self.container / "compose.yaml").read_text())["services"]
        self.image = {}

    def build(self):
        """Build the image by its Containerfile, with a wheel of fedica beside it."""
        package = Path(__file__).parents[2]
        command = [BIN / "python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", package]
        subprocess.run(command, cwd=self.container / "wheels", check=True, timeout=600, stdout=sys.stderr)
        (self.folder / "image").mkdir()
        command = [BIN / "python", IMAGE, "build", self.container / "Containerfile", self.folder / "image"]
        with open(self.folder / "image.log", "wb") as log:
            self.processes["image"] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        with self.processes["image"].stdout as stream:
            said = stream.readline()
        assert said, self.log("image")[-3000:]
        self.image = json.loads(said)
        for made in (self.root, self.certs.folder):
            give(made)

    def __exit__(self, *error):
        super().__exit__(*error)
        if "image" in self.processes:
            self.processes["image"].stdin.close()

    def inside(self, service, command):
        """A command in the container of a service."""
        told = {**service, "root": str(self.folder / "image" / "root"), "user": self.image["user"], "command": command}
        entered = f"--mount=/proc/{self.processes['image'].pid}/ns/mnt"
        return ["nsenter", entered, BIN / "python", IMAGE, "run", json.dumps(told)]

    def flower(self, *arguments):
        """As ``podman compose exec superlink fedica flower ...``."""
        return self.inside(self.services["superlink"], [*self.image["entrypoint"], *map(str, arguments)])

    def start_superlink(self):
        """Start the service, and wait until it is healthy by the command of the compose file."""
        service = self.services["superlink"]
        self.start("superlink", self.inside(service, self.image["entrypoint"] + service["command"]), self.env)
        how, *check = service["healthcheck"]["test"]
        assert how == "CMD"
        healthy = self.inside(service, check)
        wait_until(lambda: subprocess.run(healthy, check=False, capture_output=True).returncode == 0, 300, "healthy")

    def start_nginx(self):
        """Start the service."""
        service = self.services["proxy"]
        self.start("nginx", self.inside(service, service["entrypoint"]), self.env)
        wait_until(lambda: self.get(self.port, "/", self.certs.ca) == 404, 120, "nginx")

    def register(self, *clients):
        """By the command that is shown."""
        self.fedica("add", self.root, *clients)

    def start_client(self, client):
        """Start the service of a client, from the folder of its machine; returns what comes back."""
        home = self.folder / f"machine-of-{client}"
        (home / "keys" / "signing").mkdir(parents=True)
        (home / "results").mkdir()
        (home / "data").mkdir()
        np.save(home / "data" / "export.npy", self.data[client])
        shutil.copy(self.certs.ca, home / "keys" / "ca.crt")
        shutil.copy(self.certs.nodes / f"{client}.key", home / "keys")
        shutil.copy(self.certs.signing / f"{client}.key", home / "keys" / "signing")
        shutil.copy(self.root / "clients" / f"{client}.toml", home / "keys")
        give(home)
        page = (self.container / "compose.client.yaml").read_text()
        service = yaml.safe_load(page.replace("${CLIENT}", client).replace("${DATA}", "./data"))["services"]["client"]
        service["volumes"] = [f"{home}/{volume.removeprefix('./')}" for volume in service["volumes"]]
        self.start(client, self.inside(service, self.image["entrypoint"] + service["command"]), self.env)
        return home / "results"


def test_a_federation_in_the_containers_of_the_compose_files(tmp_path):
    """The image is built, the services start with all that they are denied, and a run ends as it does elsewhere."""
    with Contained(tmp_path, {client: client_data(k) for k, client in enumerate("abc")}) as contained:
        contained.build()
        assert (contained.image["user"], contained.image["entrypoint"]) == ("fedica", ["fedica", "flower"])
        assert contained.fedica("up", contained.root)["commands"]
        contained.start_all(nodes="bc")
        results = contained.start_client("a")
        wait_until(lambda: contained.listed_online() == ["a", "b", "c"], 300, "three clients")
        said = contained.fedica("run", contained.root, "--set", contained.settings())
        assert (said["clients"], said["left_out"], said["not_applied"]) == (["a", "b", "c"], {}, {})
        assert sorted(read_folder(Path(said["folder"]) / "result").aggregate.clients) == ["a", "b", "c"]
        (returned,) = results.glob("run-*")
        assert {path.name for path in returned.iterdir()} == {"aggregate.safetensors", "sources.npy"}
        made = [path for tree in (results, contained.root) for path in tree.rglob("*") if path.suffix != ".whl"]
        assert [path for path in made if path.stat().st_uid != USER or path.stat().st_mode & 0o077] == []

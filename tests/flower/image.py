"""Build the image of a Containerfile, and run commands in it as a compose file says, without a container engine.

Needs root. ``python image.py build CONTAINERFILE FOLDER`` takes every step in a copy of this machine's file system (an
overlay in memory, which nobody else sees), prints the image's user and entrypoint, and keeps it until its input ends.
The Python of the tests, with what fedica needs, stands for that of ``FROM``. ``python image.py run JSON``, started by
``nsenter``, runs a command in it: read-only, with the volumes and the user of a service, without rights. The network is
this machine's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from confined import (
    BIND,
    DROP_CAPABILITY,
    NEW_IPC,
    NEW_MOUNTS,
    NO_NEW_PRIVILEGES,
    PRIVATE,
    READ_ONLY,
    RECURSIVE,
    REMOUNT,
    call,
    hide,
    libc,
    mount,
)

PYTHON = "/usr/local/python-of-the-image"
ENVIRONMENT = {"PATH": f"{PYTHON}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PIP_NO_INDEX": "1", "HOME": "/root"}
APT_GET = """#!/bin/sh
echo "$*" >> /apt-get.log
[ "$1" = update ] || command -v nginx || exec /usr/bin/apt-get --simulate "$@"
"""
"""Packages of the system are not fetched: the machine of the tests has them."""
MAX_CAPABILITIES = 64


def instructions_of(page):
    """The instructions of a Containerfile, each with its words."""
    text = re.sub(r"^#.*\n", "", page.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


class Image:
    """An image, as far as it is built."""

    def __init__(self, folder):
        self.root, self.user, self.entrypoint = folder / "root", "root", []
        mount("none", folder, "tmpfs", 0, "mode=755")
        for name in ("root", "upper", "work"):
            (folder / name).mkdir()
        layers = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
        mount("overlay", self.root, "overlay", 0, layers)
        for name in ("proc", "dev"):
            mount(f"/{name}", self.root / name, None, BIND | RECURSIVE)

    def inside(self, *command):
        """Run a command in the image as its user so far."""
        subprocess.run(
            ["chroot", f"--userspec={self.user}", self.root, *command], env=ENVIRONMENT, check=True, stdout=sys.stderr
        )

    def take(self, name, words, context):
        """Take a step."""
        steps = {"FROM": self.begin, "RUN": lambda words: self.inside("sh", "-ec", words)}
        if name == "COPY":
            source, target = words.split()
            subprocess.run(["cp", "-rT", context / source, f"{self.root}{target}"], check=True)
        elif name == "USER":
            self.user = words
        elif name == "ENTRYPOINT":
            self.entrypoint = json.loads(words)
        else:
            steps[name](words)

    def begin(self, words):
        """Python and pip, and the packages that fedica needs, but not fedica; as nobody's but this image's."""
        assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim", words), words
        (self.root / "root").chmod(0o755)  # where the Python of the tests may be
        self.inside(os.path.realpath(sys.executable), "-m", "venv", PYTHON)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = Path(f"{self.root}{PYTHON}/lib/{version}/site-packages")
        needed = packages / "needed"
        needed.mkdir()
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if not path.name.startswith(("fedica", "__pycache__", "_distutils", "distutils", "pip", "setuptools")):
                (needed / path.name).symlink_to(path)
        (packages / "needed.pth").write_text(f"{PYTHON}/lib/{version}/site-packages/needed\n")
        scripts = {path.name: path.read_text() for path in Path(sys.executable).parent.glob("fl*w*r*")}
        for name, text in {**scripts, "apt-get": APT_GET}.items():
            path = Path(f"{self.root}{PYTHON}/bin/{name}")
            path.write_text(re.sub(r"^#!.*python.*", f"#!{PYTHON}/bin/python", text))
            path.chmod(0o755)


def build(page, folder):
    """Build an image, and keep it."""
    call(libc.unshare, NEW_MOUNTS)
    mount(None, "/", None, RECURSIVE | PRIVATE)
    image = Image(Path(folder))
    for name, words in instructions_of(Path(page)):
        image.take(name, words, Path(page).parent)
    print(json.dumps({"user": image.user, "entrypoint": image.entrypoint}), flush=True)
    sys.stdin.read()


def run(said):
    """Run a command in an image: a service of a compose file is one, with root, user and command."""
    service = json.loads(said)
    root = service["root"]
    call(libc.unshare, NEW_MOUNTS | NEW_IPC)
    mount(None, "/", None, RECURSIVE | PRIVATE)
    hide([f"{root}{name}" for name in ("/tmp", "/home", "/srv")], [f"{root}{sys.prefix}"])  # noqa: S108
    for volume in service.get("volumes", []):
        outside, inside, *how = volume.split(":")
        os.makedirs(f"{root}{inside}", exist_ok=True)
        mount(outside, f"{root}{inside}", None, BIND)
        if how == ["ro"]:
            mount(None, f"{root}{inside}", None, REMOUNT | BIND | READ_ONLY)
    for name in service["tmpfs"]:
        if name != "/tmp":  # noqa: S108 - it is one already
            mount("none", f"{root}{name}", "tmpfs", 0, "mode=1777")
    assert service["read_only"]
    mount(None, root, None, REMOUNT | BIND | READ_ONLY)
    number = int(subprocess.run(["chroot", root, "id", "-u", service["user"]], capture_output=True, check=True).stdout)
    os.chroot(root)
    os.chdir("/")
    assert service["cap_drop"] == ["ALL"]
    for capability in range(MAX_CAPABILITIES):
        libc.prctl(DROP_CAPABILITY, capability, 0, 0, 0)  # those that this kernel lacks fail
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
    assert service["security_opt"] == ["no-new-privileges:true"]
    call(libc.prctl, NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    command, path = service["command"], ENVIRONMENT["PATH"]
    os.execvpe(command[0], command, {"PATH": path, "HOME": "/home/fedica", "OMP_NUM_THREADS": "1"})  # noqa: S606


if __name__ == "__main__":
    {"build": build, "run": run}[sys.argv[1]](*sys.argv[2:])

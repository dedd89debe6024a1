"""The coordinator's settings: those that a run may choose, and those that only the coordinator's machine decides."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from fedica.arrays import PathLike, check_int, check_number
from fedica.errors import FormatError, OptionError
from fedica.exchange import MIN_SUPPORT
from fedica.exchange.files import read_bounded
from fedica.flower.settings import make_settings, read_settings
from fedica.records import check_client

COORDINATOR = "FEDICA_COORDINATOR"
"""Environment variable of the SuperLink: path of the coordinator's file of settings."""
_MAX_KEY_FILE = 16 * 1024
_WORDS = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+""")
"""Words of a text; one may hold spaces between quotes."""


@dataclass(frozen=True)
class Coordinator:
    """Settings of the coordinator's machine, whoever submits the run: a TOML file that ``FEDICA_COORDINATOR`` names.

    With ``node_keys`` a node can send in the name of its own client alone, and a node that does not answer is reported
    by the name of its client.
    """

    results: Path  # folder in which every run makes a folder of its own
    study: Path | None = None  # contributions to another one are refused
    signing_key: Path | None = None  # the coordinator's private key, with which it signs what it sends
    trust_keys: Path | None = None  # folder of public signing keys: only contributions that they signed are taken
    node_keys: Path | None = None  # folder of the clients' public node keys, CLIENT.pub
    min_clients: int = 2  # fewest clients of a result; a run may ask for more, not for fewer
    min_support: int = MIN_SUPPORT  # components in which fewer clients count are not sent back; 1: all are
    max_megabytes: int = 256  # most that a node may send in a run

    def __post_init__(self) -> None:
        check_int(self.min_clients, "min-clients", minimum=1)
        check_int(self.min_support, "min-support", minimum=1)
        check_int(self.max_megabytes, "max-megabytes", minimum=1)


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run: ``[tool.flwr.app.config]`` of the app folder, and ``flwr run --run-config``.

    ``components`` is what clients fit and the server groups; 0: the study's number, or the rank of each client's data.
    From ``method`` to ``require_all`` as for ``fedica aggregate``; an empty text means ``None``.
    """

    components: int = 0
    method: str = "auto"
    affinity: str = "auto"
    weights: str = ""
    rounds: int = 1  # messages of each client; from the second on they refine the result
    random_state: int = 0
    fail_on: str = ""
    require_all: bool = False
    min_clients: int = 2
    expect_clients: int = 0  # connected clients to wait for before any is asked; 0: all that are registered
    wait_seconds: float = 60.0  # how long to wait for them,
    deadline_seconds: float = 3600.0  # for the messages of each round,
    return_seconds: float = 3600.0  # and for the clients to apply the aggregate and confirm it
    resume: str = ""  # the folder of an interrupted run, such as run-7, which is finished with its own settings

    def __post_init__(self) -> None:
        for name in ("components", "random_state", "expect_clients"):
            check_int(getattr(self, name), name.replace("_", "-"), minimum=0)
        for name in ("rounds", "min_clients"):
            check_int(getattr(self, name), name.replace("_", "-"), minimum=1)
        for name in ("wait_seconds", "deadline_seconds", "return_seconds"):
            check_number(getattr(self, name), name.replace("_", "-"), above=0)
        if self.resume and not re.fullmatch(r"run-\d+(-\d+)?", self.resume):
            raise OptionError(f"resume must be the folder of a run, such as run-7; got {self.resume[:80]!r}.")


def read_coordinator() -> Coordinator:
    """Read the file that the environment variable ``FEDICA_COORDINATOR`` names."""
    path = os.environ.get(COORDINATOR)
    if not path:
        raise OptionError(
            f"the SuperLink was started without {COORDINATOR}: set it to the coordinator's file of settings, which "
            "`fedica flower new` writes as coordinator/coordinator.toml."
        )
    return read_settings(path, Coordinator)


def read_run_settings(run_config: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a run from Flower's run configuration."""
    try:
        return make_settings(run_config, RunSettings)
    except OptionError as error:
        raise OptionError(f"--run-config: {error}") from error


def parse_run_settings(text: str) -> dict[str, Any]:
    """Return the settings of a run from a text like ``components=10 method="group"``, checked by name and kind."""
    values: dict[str, Any] = {}
    for word in _WORDS.findall(text):
        name, _, value = word.partition("=")
        try:
            values |= tomllib.loads(f"{name} = {value}")
        except tomllib.TOMLDecodeError as error:
            raise OptionError(
                f"settings of a run are NAME=VALUE, with spaces between them and quotes around text; got {word!r}."
            ) from error
    make_settings(values, RunSettings)
    return values


def read_node_keys(folder: PathLike) -> dict[bytes, str]:
    """Return the client of every node key ``CLIENT.pub`` of a folder, by the key in PEM, as Flower gives it."""
    clients: dict[bytes, str] = {}
    for path in sorted(p for p in Path(folder).glob("*.pub") if not p.name.startswith(".")):
        try:
            key = load_ssh_public_key(read_bounded(path, limit=_MAX_KEY_FILE, what="a public key"))
        except (ValueError, UnsupportedAlgorithm) as error:
            raise FormatError(f"{path}: the file is not an OpenSSH public key ({error}).") from error
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        if pem in clients:
            raise FormatError(f"{path}: the key is that of client {clients[pem]!r}; a node key stands for one client.")
        clients[pem] = check_client(path.stem, "a client's name")
    if not clients:
        raise FormatError(f"{os.fspath(folder)}: a folder of node keys must hold *.pub files; got none.")
    return clients

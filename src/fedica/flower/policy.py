"""A client's policy: limits on what it sends, in a file that only the client writes and the server cannot change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedica.arrays import check_choice, check_int, check_number
from fedica.errors import InputError, OptionError, PolicyError
from fedica.exchange.signatures import check_public_key
from fedica.flower.settings import make_settings
from fedica.readers import READERS, ReadOptions, suffix_of
from fedica.records import check_client

SIMULATION = "FEDICA_SIMULATION"
"""Environment variable for Flower's simulation, which gives clients no paths: folder with one data file per client."""
SIMULATED_POLICY = "policy.toml"


@dataclass(frozen=True)
class Policy:
    """What a client sends, and how it computes it; ``reading`` is the table ``[reading]`` of the file."""

    max_components: int  # most atoms that the client sends
    min_samples: int  # fewest samples that atoms may be computed from; with fewer, the client sends nothing
    apps: tuple[str, ...] = ()  # fingerprints of the apps that the client's node runs; it refuses all others
    coordinator_key: str = ""  # public key, in hexadecimal; messages that it did not sign are refused
    signing_key: Path | None = None  # private key, from fedica keygen, with which the contribution is signed
    study: Path | None = None  # the study that this client agreed to; a request for another one is refused
    components: int | None = None  # how many components this client fits, whatever the server asks for
    solver: str = "auto"
    drop_missing: bool = False  # whether rows with missing values are dropped; otherwise such data is refused
    random_state: int = 0
    max_rounds: int = 1  # most messages on one run; 2 or more: also covariances and scores of its sources may leave
    approve: str = ""  # "ask": what would leave waits until a person says yes, with fedica flower approve
    max_seconds: float = 3600.0  # after this time the client stops, says so, and is free for the next request
    settle_seconds: float = 10.0  # a file of a watched folder that has not changed for so long is finished
    reading: ReadOptions = ReadOptions()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        check_int(self.max_components, "max-components", minimum=1)
        check_int(self.min_samples, "min-samples", minimum=2)
        if self.coordinator_key:
            check_public_key(self.coordinator_key, "coordinator-key")
        if self.components is not None:
            check_int(self.components, "components", minimum=1)
        check_int(self.random_state, "random-state", minimum=0)
        check_int(self.max_rounds, "max-rounds", minimum=1)
        check_choice(self.approve, "approve", ("", "ask"))
        check_number(self.max_seconds, "max-seconds", above=0)
        check_number(self.settle_seconds, "settle-seconds", above=0)

    def check_components(self, n_components: int) -> None:
        """Refuse to send more atoms than the policy allows."""
        if n_components > self.max_components:
            raise PolicyError(
                f"this client's policy allows at most {self.max_components} components; {n_components} were requested."
            )

    def check_round(self, number: int) -> None:
        """Refuse to send more messages than the policy allows."""
        if number > self.max_rounds:
            raise PolicyError(
                f"this client's policy allows at most {self.max_rounds} messages in a run (max-rounds); message "
                f"{number} was requested."
            )


@dataclass(frozen=True)
class Node:
    """Settings of a client's node: ``--node-config 'client="a" data="..." policy="..." output="..."'``."""

    client: str  # its name, which is also that of its node key
    data: Path  # a file, or a folder that files are put into, of which a run uses the newest
    policy: Path
    output: Path  # folder for the aggregate that comes back, and for the client's sources under its mixing matrix

    def __post_init__(self) -> None:
        check_client(self.client, "a client's name")


def read_node(node_config: Mapping[str, Any]) -> Node:
    """Return the settings of this client's node from ``flower-supernode --node-config``.

    In a simulation that holds no paths: client number k is then the k-th data file of the folder that the environment
    variable ``FEDICA_SIMULATION`` names.
    """
    if "data" not in node_config and "partition-id" in node_config and os.environ.get(SIMULATION):
        return _simulated(Path(os.environ[SIMULATION]), int(node_config["partition-id"]))
    own = {name: value for name, value in node_config.items() if name not in ("partition-id", "num-partitions")}
    try:
        return make_settings(own, Node)
    except OptionError as error:
        raise OptionError(f"--node-config: {error}") from error


def _simulated(folder: Path, number: int) -> Node:
    files = sorted(path for path in folder.iterdir() if suffix_of(path) in READERS)
    if number >= len(files):
        raise InputError(
            f"{folder}: a simulation needs one data file per client; there are {len(files)} files, and none for "
            f"client number {number}."
        )
    file = files[number]
    name = file.name[: -len(suffix_of(file))]
    return Node(name, file, folder / SIMULATED_POLICY, folder / "applied" / name)

"""A client's policy: limits on what it sends, in a file that only the client writes and the server cannot change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedica.arrays import check_int, check_number
from fedica.errors import InputError, OptionError, PolicyError
from fedica.flower.settings import make_settings, read_settings
from fedica.readers import READERS, ReadOptions, suffix_of
from fedica.records import check_name

SIMULATION = "FEDICA_SIMULATION"
"""Environment variable for Flower's simulation, which gives clients no paths: folder with one data file per client."""
SIMULATED_POLICY = "policy.toml"


@dataclass(frozen=True)
class Policy:
    """What a client sends, and how it computes it.

    Parameters
    ----------
    max_components : int
        Most atoms that the client sends.
    min_samples : int
        Fewest samples that atoms may be computed from; with fewer, the client sends nothing.
    signing_key : Path, optional
        Private key, from ``fedica keygen``, with which the contribution is signed.
    study : Path, optional
        The study that this client agreed to; a request for another one is refused.
    components : int, optional
        How many components this client fits, whatever the server asks for.
    solver : str
        As in `LocalICA`.
    drop_missing : bool
        Whether rows with missing values are dropped; otherwise such data is refused.
    random_state : int
        Seed of the fit.
    max_seconds : float
        After this time the client stops, says so, and is free for the next request.
    reading : ReadOptions
        How the client's data is read: the table ``[reading]`` of the file.
    """

    max_components: int
    min_samples: int
    signing_key: Path | None = None
    study: Path | None = None
    components: int | None = None
    solver: str = "auto"
    drop_missing: bool = False
    random_state: int = 0
    max_seconds: float = 3600.0
    reading: ReadOptions = ReadOptions()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        check_int(self.max_components, "max-components", minimum=1)
        check_int(self.min_samples, "min-samples", minimum=2)
        if self.components is not None:
            check_int(self.components, "components", minimum=1)
        check_int(self.random_state, "random-state", minimum=0)
        check_number(self.max_seconds, "max-seconds", above=0)

    def check_components(self, n_components: int) -> None:
        """Refuse to send more atoms than the policy allows."""
        if n_components > self.max_components:
            raise PolicyError(
                f"this client's policy allows at most {self.max_components} components; {n_components} were requested."
            )


@dataclass(frozen=True)
class Node:
    """Settings of a client's node: ``--node-config 'client="a" data="..." policy="..." output="..."'``.

    Parameters
    ----------
    client : str
        Name of the client, which is also that of its node key.
    data : Path
        The client's data.
    policy : Path
        Its `Policy`.
    output : Path
        Folder for the aggregate that comes back, and for the client's sources under its mixing matrix.
    """

    client: str
    data: Path
    policy: Path
    output: Path

    def __post_init__(self) -> None:
        check_name(self.client, "a client's name")


def read_node(node_config: Mapping[str, Any]) -> Node:
    """Return the settings of this client's node.

    Parameters
    ----------
    node_config : mapping
        The value of ``flower-supernode --node-config``. In a simulation it holds no paths: client number k is then the
        k-th data file of the folder that the environment variable ``FEDICA_SIMULATION`` names.
    """
    if "data" not in node_config and "partition-id" in node_config and os.environ.get(SIMULATION):
        return _simulated(Path(os.environ[SIMULATION]), int(node_config["partition-id"]))
    own = {name: value for name, value in node_config.items() if name not in ("partition-id", "num-partitions")}
    try:
        return make_settings(own, Node)
    except OptionError as error:
        raise OptionError(f"--node-config: {error}") from error


def read_policy(node: Node) -> Policy:
    """Read a client's policy."""
    return read_settings(node.policy, Policy)


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

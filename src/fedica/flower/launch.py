"""The options and environment with which a federation's processes are started; Flower is not imported here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedica.arrays import PathLike
from fedica.errors import PolicyError
from fedica.flower.certs import Certificates
from fedica.flower.coordinator import COORDINATOR, Coordinator
from fedica.flower.policy import Policy
from fedica.flower.scaffold import Federation
from fedica.flower.settings import read_settings
from fedica.records import check_client

RAY_ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Without a cluster of machines, Ray takes 127.0.0.1 for its address, and listens nowhere else."""
NO_TELEMETRY = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


def superlink_options(federation: Federation, folder: Path, *, simulation: bool = False) -> list[str]:
    """Return the options of ``flower-superlink`` for the federation in ``folder``."""
    options = ["--host", "127.0.0.1", "--port", str(federation.superlink_port)]
    options += ["--disable-runtime-dependency-installation"]
    if simulation:
        return [*options, "--insecure", "--simulation"]
    certificates = Certificates(federation.certs.resolve())
    certificate, key = certificates.superlink
    options += ["--ssl-ca-certfile", str(certificates.inner_ca), "--ssl-certfile", str(certificate)]
    options += ["--ssl-keyfile", str(key), "--enable-supernode-auth"]
    return [*options, "--database", str(folder / "coordinator" / "state.db")]


def coordinator_environment(folder: Path) -> dict[str, str]:
    """Return the variables that the SuperLink and ``flwr`` need on the coordinator's machine."""
    coordinator = folder / "coordinator"
    return {
        **NO_TELEMETRY,
        "FLWR_HOME": str(coordinator / "flower"),
        COORDINATOR: str(coordinator / "coordinator.toml"),
    }


def run_superlink(folder: PathLike, *, simulation: bool = False) -> None:
    """Run the SuperLink of the federation that ``fedica flower new`` wrote; returns only by an exception."""
    target = Path(folder).resolve()
    federation = read_settings(target / "federation.toml", Federation)
    coordinator = read_settings(target / "coordinator" / "coordinator.toml", Coordinator)
    options = superlink_options(federation, target, simulation=simulation)
    os.environ.update(coordinator_environment(target))
    if simulation:  # its clients have no keys
        os.environ[COORDINATOR] = str(target / "coordinator" / "simulation.toml")
        os.environ.update(RAY_ON_LOOPBACK)

    from fedica.flower.superlink import main  # noqa: PLC0415 - Flower reads the environment when it is imported

    main(options, max_bytes=coordinator.max_megabytes * 2**20)


@dataclass(frozen=True)
class Client:
    """What a client's node is started with."""

    name: str
    server: str  # HOST:PORT of the coordinator
    ca: Path
    key: Path  # its node key
    data: Path
    policy: Path
    output: Path
    port: int = 9094  # on loopback, by which the node hands the work to its app

    def __post_init__(self) -> None:
        check_client(self.name, "a client's name")

    def options(self) -> list[str]:
        """Return the options of ``flower-supernode``."""
        paths = {"data": self.data, "policy": self.policy, "output": self.output}
        config = " ".join(f'{name}="{path.resolve()}"' for name, path in paths.items())
        return [
            *("--superlink", self.server, "--root-certificates", str(self.ca)),
            *("--auth-supernode-private-key", str(self.key), "--host", "127.0.0.1", "--port", str(self.port)),
            *("--node-config", f'client="{self.name}" {config}'),
        ]


def run_client(client: Client, tell: Callable[[str], None]) -> None:
    """Check the way to the coordinator, telling each step, and run a client's node; returns only by an exception."""
    policy = read_settings(client.policy, Policy)
    if not policy.apps:
        raise PolicyError(
            f"{client.policy}: the policy names no app, so nothing could run here. Add the line `apps = [...]` of the "
            "policy that `fedica flower new` wrote."
        )
    os.environ.update(NO_TELEMETRY)
    home = Path(os.environ.setdefault("FLWR_HOME", str(client.output.resolve() / ".flower")))

    from fedica.flower.check import check_connection  # noqa: PLC0415 - Flower reads the environment when it is imported
    from fedica.flower.supernode import main  # noqa: PLC0415 - Flower reads the environment when it is imported

    for line in check_connection(client):
        tell(line)
    main(client.options(), policy.apps, home / "superexec.secret", client.port)

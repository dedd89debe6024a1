"""The exact commands that run a federation, machine by machine."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from fedica.arrays import PathLike
from fedica.flower.certs import Certificates
from fedica.flower.scaffold import Federation
from fedica.flower.settings import read_settings

NO_TELEMETRY = "FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1"


def commands(folder: PathLike) -> list[tuple[str, list[str]]]:
    """Return titles, each with its lines for the shell, for the federation that ``fedica flower new`` wrote."""
    target = Path(folder).resolve()
    federation = read_settings(target / "federation.toml", Federation)
    certificates = Certificates(federation.certs.resolve())
    coordinator, app = target / "coordinator", _path(target / "app")
    clients = sorted(path.stem for path in (target / "clients").glob("*.toml"))
    home = f"export {NO_TELEMETRY} FLWR_HOME={_path(coordinator / 'flower')}"
    settings = f"export FEDICA_COORDINATOR={_path(coordinator / 'coordinator.toml')}"
    return [
        (
            "coordinator: the reverse proxy, and the SuperLink behind it; both keep running",
            [
                f"nginx -p {_path(coordinator)} -c nginx.conf",
                home,
                settings,
                f"{_superlink(federation)} {_authentication(certificates, coordinator)}",
            ],
        ),
        (
            "coordinator, once, in another terminal: each client's key",
            [home, *(f"flwr supernode register {_path(certificates.nodes / f'{x}.pub')} study" for x in clients)],
        ),
        *((f"client {client}, on its own machine; keeps running", _client(client, federation)) for client in clients),
        ("coordinator: one run, from the request to the result", [home, f"flwr run {app} study --stream"]),
        (
            "or all of it on one machine: a folder with one data file per client and a policy.toml",
            [
                home,
                settings,
                "export RAY_USAGE_STATS_ENABLED=0 FEDICA_SIMULATION=/path/of/the/folder",
                f"{_superlink(federation)} --insecure --simulation",
                f"flwr run {app} simulation --federation-config "
                f"'num-supernodes={len(clients)} client-resources-num-cpus=1' --stream",
            ],
        ),
    ]


def _superlink(federation: Federation) -> str:
    port = federation.superlink_port
    return f"flower-superlink --host 127.0.0.1 --port {port} --disable-runtime-dependency-installation"


def _authentication(certificates: Certificates, coordinator: Path) -> str:
    """Return the SuperLink's options for TLS and node keys."""
    certificate, key = certificates.superlink
    return (
        f"--ssl-ca-certfile {_path(certificates.inner_ca)} --ssl-certfile {_path(certificate)} "
        f"--ssl-keyfile {_path(key)} --enable-supernode-auth --database {_path(coordinator / 'state.db')}"
    )


def _client(client: str, federation: Federation) -> list[str]:
    config = {"client": client, "data": "/path/data.csv", "policy": f"/path/{client}.toml", "output": "/path/results"}
    node = " ".join(f'{name}="{value}"' for name, value in config.items())
    return [
        f"export {NO_TELEMETRY}",
        f"flower-supernode --superlink {federation.host}:{federation.port} --root-certificates ca.crt "
        f"--auth-supernode-private-key {quote(f'{client}.key')} --node-config {quote(node)}",
    ]


def _path(path: Path) -> str:
    return quote(str(path))

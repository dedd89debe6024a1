"""The exact commands that run a federation, machine by machine."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from fedica.arrays import PathLike
from fedica.flower.launch import coordinator_environment
from fedica.flower.scaffold import Federation
from fedica.flower.settings import read_settings


def commands(folder: PathLike) -> list[tuple[str, list[str]]]:
    """Return titles, each with its lines for the shell, for the federation that ``fedica flower new`` wrote."""
    target = Path(folder).resolve()
    federation = read_settings(target / "federation.toml", Federation)
    app, home = _path(target / "app"), _export(coordinator_environment(target))
    clients = sorted(path.stem for path in (target / "clients").glob("*.toml"))
    return [
        (
            "coordinator: the reverse proxy, and the SuperLink behind it; both keep running",
            [
                "umask 077",
                f"nginx -p {_path(target / 'proxy')} -c nginx.conf",
                f"fedica flower superlink {_path(target)}",
            ],
        ),
        (
            "coordinator, once, in another terminal: register the clients",
            [f"fedica flower add {_path(target)} {' '.join(map(quote, clients))}"],
        ),
        *((f"client {client}, on its own machine; keeps running", [_client(client, federation)]) for client in clients),
        ("coordinator: one run, from the request to the result", [f"fedica flower run {_path(target)}"]),
        (
            "or all of it on one machine: a folder with one data file per client and a policy.toml",
            [
                home,
                "export RAY_USAGE_STATS_ENABLED=0 FEDICA_SIMULATION=/path/of/the/folder",
                f"fedica flower superlink {_path(target)} --simulation",
                f"flwr run {app} simulation --federation-config "
                f"'num-supernodes={len(clients)} client-resources-num-cpus=1' --stream",
            ],
        ),
    ]


def _client(client: str, federation: Federation) -> str:
    own = {"--ca": "ca.crt", "--key": f"{client}.key", "--policy": f"{client}.toml"}
    files = " ".join(f"{option} {quote(name)}" for option, name in own.items())
    server = f"--server {federation.host}:{federation.port}"
    return f"fedica flower client {quote(client)} {server} {files} --data /path/data.csv --output /path/results"


def _export(variables: dict[str, str]) -> str:
    return "export " + " ".join(f"{name}={quote(value)}" for name, value in variables.items())


def _path(path: Path) -> str:
    return quote(str(path))

"""The folder of one federation: the app that ``flwr run`` takes, the coordinator's files, a policy for each client."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from fedica.arrays import PathLike, check_int
from fedica.errors import InputError
from fedica.exchange import as_study, read_public_key, read_trusted_keys
from fedica.exchange.files import PRIVATE, cannot_write, make_private_folder, write_new
from fedica.flower.apps import page_fingerprint
from fedica.flower.certs import Certificates, make_empty_folder
from fedica.flower.coordinator import RunSettings, read_node_keys
from fedica.text import list_names
from fedica.version import __version__

FLEET_PATHS = (
    "activate-node",
    "deactivate-node",
    "send-node-heartbeat",
    "pull-messages",
    "push-messages",
    "get-run",
    "get-fab",
    "pull-object",
    "push-object",
    "confirm-message-received",
)
"""The requests that a node with a key sends to the SuperLink."""
PROXY_PAGES = ("nginx.conf", "proxy.crt", "proxy.key", "inner-ca.crt")
"""The files of the folder ``proxy`` that fedica writes."""
_UNITS = {"fedica-superlink": "superlink", "fedica-proxy": "proxy", "fedica-client@": "client"}
"""The template of each service."""
_HOMES = tuple(map(Path, ("/home", "/root", "/run/user")))
"""What ``ProtectHome=`` of systemd closes."""
_MAX_PRIVILEGED_PORT = 1023
_CONTAINER = ("Containerfile", ".dockerignore", "compose.yaml", "compose.client.yaml")
_UNQUOTABLE = frozenset("\"'\\$;{}\n\r\t")
_DEFAULT_MAX_COMPONENTS, _DEFAULT_MIN_SAMPLES = 20, 1000
"""Limits in the clients' policies where no study sets them."""


@dataclass(frozen=True)
class Federation:
    """Addresses, ports and certificates of a federation: ``federation.toml`` of its folder."""

    host: str  # the name or address by which clients reach the coordinator
    port: int  # the proxy's
    superlink_port: int  # on loopback
    certs: Path  # the folder of `make_certificates`
    listen: str = ""  # address that the proxy listens on; empty: all of them

    def __post_init__(self) -> None:
        for name in ("port", "superlink_port"):
            check_int(getattr(self, name), name.replace("_", "-"), minimum=1, maximum=65535)
        for text in (self.host, self.listen, str(self.certs)):
            bad = sorted(_UNQUOTABLE & set(text))
            if bad:
                raise InputError(f"{text!r}: a name or path in a configuration must not contain {bad[0]!r}.")
        if not self.host or any(c.isspace() for c in self.host + self.listen):
            raise InputError(f"a host must be a name or an address; got {self.host!r}.")


def write_federation(folder: PathLike, federation: Federation, *, study: PathLike | None = None) -> list[Path]:
    """Write the folder of a federation, which is made and must be empty if it exists; return the files written.

    study : its file, which the policies and the coordinator's settings then name.
    """
    target = Path(folder).resolve()
    if _UNQUOTABLE & set(str(target)):
        raise InputError(f"{target}: configurations cannot quote this path. Choose another folder.")
    pages = federation_pages(target, federation, study)
    try:
        make_empty_folder(target)
        for name, page in pages.items():
            make_private_folder((target / name).parent)
            write_new(target / name, [page], mode=PRIVATE)
    except OSError as error:
        raise cannot_write(error.filename or target, error) from error
    return [target / name for name in pages]


def federation_pages(target: Path, federation: Federation, study: PathLike | None) -> dict[str, bytes]:
    """Return the text of each file of the federation's folder, by its name."""
    certificates = Certificates(federation.certs.resolve())
    keys = {client: b64encode(pem).decode() for pem, client in read_node_keys(certificates.nodes).items()}
    agreed = as_study(study)
    _check_signing_keys(certificates, keys)
    values = {
        "version": __version__,
        "federation": federation,
        "listen": f"{federation.listen}:{federation.port}" if federation.listen else federation.port,
        "certificates": certificates,
        "study": None if study is None else Path(study).resolve(),
        "defaults": RunSettings(),
        "keys": sorted(keys.items()),
        "coordinator_key": read_public_key(certificates.coordinator.with_suffix(".pub"))[1],
        "paths": FLEET_PATHS,
        "proxy": target / "proxy",
        "proxy_pages": PROXY_PAGES,
        "target": target,
        "simulation": False,  # whose clients have no keys
        "program": Path(sys.executable).with_name("fedica"),
        "max_components": (agreed and agreed.n_components) or _DEFAULT_MAX_COMPONENTS,
        "min_samples": agreed.min_samples if agreed else _DEFAULT_MIN_SAMPLES,
    }
    app = _page("app.toml", values)
    values["app_fingerprint"] = page_fingerprint(app)
    return {
        "federation.toml": _page("federation.toml", values),
        "app/pyproject.toml": app,
        "coordinator/coordinator.toml": _page("coordinator.toml", values),
        "coordinator/simulation.toml": _page("coordinator.toml", {**values, "simulation": True}),
        "coordinator/flower/config.toml": _page("flower.toml", values),
        "proxy/nginx.conf": _page("nginx.conf", values),
        **{f"systemd/{unit}.service": _unit(page, values) for unit, page in _UNITS.items()},
        "systemd/fedica-proxy.logrotate": _page("logrotate", values),
        **{f"container/{name}": _page(name, values) for name in _CONTAINER},
        "container/wheels/README.txt": _page("wheels.txt", values),
        **{f"proxy/{path.name}": path.read_bytes() for path in (*certificates.proxy, certificates.inner_ca)},
        **{f"clients/{client}.toml": _page("policy.toml", {**values, "client": client}) for client in sorted(keys)},
    }


def _unit(name: str, values: dict[str, Any]) -> bytes:
    """Return a service's page: all of them are closed in the same way."""
    privileged = name == "proxy" and values["federation"].port <= _MAX_PRIVILEGED_PORT
    used = [values["program"], values["target"], values["certificates"].folder, values["study"]]
    more = {
        "capabilities": "CAP_NET_BIND_SERVICE" if privileged else "",
        "in_home": any(path.is_relative_to(home) for path in used if path is not None for home in _HOMES),
    }
    closed = _page("hardening", {**values, **more}).decode().rstrip("\n")
    return _page(f"{name}.service", {**values, **more, "hardening": closed})


def _for_systemd(path: PathLike) -> str:
    """Return a path as one word of a unit."""
    text = str(path).replace("%", "%%")
    return f'"{text}"' if any(c.isspace() for c in text) else text


def _check_signing_keys(certificates: Certificates, clients: Iterable[str]) -> None:
    """Refuse a client without a signing key: what it sent would be left out."""
    trusted = read_trusted_keys(certificates.signing)
    missing = sorted(set(clients) - set(trusted))
    if missing:
        raise InputError(
            f"{certificates.signing}: there is no public signing key of {list_names(missing)}. A client makes its "
            f"own (fedica keygen {missing[0]}) and sends the public half, {missing[0]}.pub, which belongs here."
        )


def _page(name: str, values: dict[str, Any]) -> bytes:
    text = files("fedica.flower").joinpath("templates", name).read_text(encoding="utf-8")
    # Configurations are plain text, not HTML: the values were checked for quotes instead of escaped.
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    environment.filters["for_systemd"] = _for_systemd
    return environment.from_string(text).render(values).encode()

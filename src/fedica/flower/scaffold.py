"""The folder of one federation: the app that ``flwr run`` takes, the coordinator's files, a policy for each client."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from fedica.arrays import PathLike, check_int
from fedica.errors import InputError
from fedica.exchange import as_study
from fedica.exchange.files import cannot_write, write_new
from fedica.flower.certs import Certificates, make_empty_folder
from fedica.flower.coordinator import RunSettings, read_node_keys
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
    pages = _pages(target, federation, study)
    try:
        make_empty_folder(target)
        for name, page in pages.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            write_new(target / name, [page.encode()])
    except OSError as error:
        raise cannot_write(error.filename or target, error) from error
    return [target / name for name in pages]


def _pages(target: Path, federation: Federation, study: PathLike | None) -> dict[str, str]:
    """Return the text of each file of the federation's folder, by its name."""
    certificates = Certificates(federation.certs.resolve())
    keys = {client: b64encode(pem).decode() for pem, client in read_node_keys(certificates.nodes).items()}
    agreed = as_study(study)
    values = {
        "version": __version__,
        "federation": federation,
        "listen": f"{federation.listen}:{federation.port}" if federation.listen else federation.port,
        "certificates": certificates,
        "study": None if study is None else Path(study).resolve(),
        "defaults": RunSettings(),
        "n_clients": len(keys),
        "keys": sorted(keys.items()),
        "paths": FLEET_PATHS,
        "folder": target / "coordinator",
        "max_components": (agreed and agreed.n_components) or _DEFAULT_MAX_COMPONENTS,
        "min_samples": agreed.min_samples if agreed else _DEFAULT_MIN_SAMPLES,
    }
    return {
        "federation.toml": _page("federation.toml", values),
        "app/pyproject.toml": _page("app.toml", values),
        "coordinator/coordinator.toml": _page("coordinator.toml", values),
        "coordinator/nginx.conf": _page("nginx.conf", values),
        "coordinator/flower/config.toml": _page("flower.toml", values),
        **{f"clients/{client}.toml": _page("policy.toml", {**values, "client": client}) for client in sorted(keys)},
    }


def _page(name: str, values: dict[str, Any]) -> str:
    text = files("fedica.flower").joinpath("templates", name).read_text(encoding="utf-8")
    # Configurations are plain text, not HTML: the values were checked for quotes instead of escaped.
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    return environment.from_string(text).render(values)

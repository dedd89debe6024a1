"""Change a federation in place: a client more, a client less, new certificates."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from fedica.errors import InputError
from fedica.exchange.files import PRIVATE, make_private_folder, write_atomic, write_new
from fedica.flower.certs import check_key_name, make_client_keys, renew_certificates
from fedica.flower.control import Control
from fedica.flower.scaffold import federation_pages


def add_client(control: Control, client: str) -> tuple[list[Path], bool] | None:
    """Register a client, and make what it lacks; what is there already, also from an interrupted attempt, is taken.

    A client that makes its own keys has sent both public halves, which are in the folders of the keys. Returns the
    files that go to the client, and whether the proxy must read its folder again; nothing if nothing was to do.
    """
    check_key_name(client)
    _check_proxy_folder(control)
    certificates, policy = control.certificates, control.folder / "clients" / f"{client}.toml"
    registered = client in [member.client for member in control.members() if member.node]
    public = [folder / f"{client}.pub" for folder in (certificates.nodes, certificates.signing)]
    there = [path for path in public if path.exists()]
    if not there:
        make_client_keys(certificates, client)
    elif len(there) == 1:
        (missing,) = set(public) - set(there)
        raise InputError(f"{missing}: not found. A client that makes its own keys sends the public halves of both.")
    if not registered:
        control.register(client)
    has_policy = policy.exists()
    if not has_policy:
        write_new(policy, [_pages(control)[f"clients/{client}.toml"]], mode=PRIVATE)
    changed = rewrite_proxy(control)
    if registered and has_policy and not changed:
        return None
    private = [path.with_suffix(".key") for path in public]
    study = [control.coordinator.study] if control.coordinator.study else []
    return [certificates.ca, *(path for path in private if path.exists()), policy, *study], changed


def revoke_client(control: Control, client: str) -> None:
    """Cut a client off and take its keys away; the public ones and its policy are kept in the folder ``revoked``."""
    if client not in [member.client for member in control.members()]:
        raise InputError(f"client {client!r} is not in this federation.")
    _check_proxy_folder(control)
    control.unregister(client)
    certificates, kept = control.certificates, control.folder / "revoked"
    make_private_folder(kept)
    gone = {
        certificates.nodes / f"{client}.pub": f"{client}.node.pub",
        certificates.signing / f"{client}.pub": f"{client}.signing.pub",
        control.folder / "clients" / f"{client}.toml": f"{client}.toml",
    }
    for path, name in gone.items():
        if path.exists():
            path.replace(kept / name)
    for folder in (certificates.nodes, certificates.signing):
        (folder / f"{client}.key").unlink(missing_ok=True)
    rewrite_proxy(control)


def renew(control: Control, *, days: int) -> None:
    """Make new certificates of the proxy and the SuperLink; clients keep their ca.crt."""
    _check_proxy_folder(control)
    renew_certificates(control.certificates, host=control.federation.host, days=days)
    rewrite_proxy(control)


def rewrite_proxy(control: Control) -> bool:
    """Write what changed in the folder of the proxy, from the keys and certificates as they are now; tell if any."""
    changed = False
    for name, page in _pages(control).items():
        path = control.folder / name
        if name.startswith("proxy/") and not (path.exists() and path.read_bytes() == page):
            write_atomic(path, [page], mode=PRIVATE)
            changed = True
    return changed


def reload_commands(control: Control) -> list[str]:
    """Return the command after which the proxy uses what was written, for a proxy by hand and for a service."""
    by_hand = f"nginx -p {quote(str(control.folder / 'proxy'))} -c nginx.conf -s reload"
    return [by_hand, "systemctl reload fedica-proxy  # instead, if the proxy is a service"]


def _check_proxy_folder(control: Control) -> None:
    """Refuse to begin what could not be finished."""
    proxy = control.folder / "proxy"
    if not os.access(proxy, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(
            f"{proxy}: this user cannot write the proxy's folder, so nothing was changed. It must belong to the "
            "coordinator's user; nginx as a user of its own works in a copy of it, as fedica-proxy.service does."
        )


def _pages(control: Control) -> dict[str, bytes]:
    return federation_pages(control.folder, control.federation, control.coordinator.study)

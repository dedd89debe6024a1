"""What a client can find out before it takes part: the way to the coordinator, its clock, its key and its policy."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedica.errors import FormatError, InputError
from fedica.exchange.files import read_bounded
from fedica.flower.client_app import contribute_by_policy, describe
from fedica.flower.launch import Client
from fedica.flower.policy import Node, Policy
from fedica.flower.settings import read_settings
from fedica.flower.watched import is_watched, newest_finished
from fedica.text import counted

_SECONDS = 15.0
_MAX_AHEAD, _MAX_BEHIND = 4.0, 290.0
"""Seconds by which a clock may differ from the coordinator's: Flower refuses later signatures, and older ones."""
_MAX_KEY_FILE = 16 * 1024


def check_connection(client: Client) -> Iterator[str]:
    """Yield a line for each step that succeeds; the first that does not raises an error that says what to do."""
    host, port = split_address(client.server)
    yield _way_to(host, port)
    differs = _difference_of_clocks(client, host, port)
    yield f"port and TLS: {client.server} answers, with a certificate of {client.ca}"
    if not -_MAX_BEHIND < differs < _MAX_AHEAD:
        side = "ahead of" if differs > 0 else "behind"
        raise InputError(
            f"this machine's clock is {abs(differs):.0f} s {side} the coordinator's; signatures would be refused. Set "
            "it by NTP on both machines."
        )
    yield f"clock: within {max(abs(differs), 1):.0f} s of the coordinator's"
    yield f"key: {_check_key(client)}"


def dry_run(client: Client) -> Iterator[str]:
    """Yield a line on the policy, and what would leave if the coordinator asked now."""
    policy = read_settings(client.policy, Policy)
    signed = "signs" if policy.signing_key else "does not sign"
    most = counted(policy.max_components, "component")
    yield f"policy: {counted(len(policy.apps), 'app')}, at most {most}; this client {signed}"
    data = newest_finished(client.data, policy.settle_seconds) if is_watched(client.data) else client.data
    yield f"data: {data}"
    node = Node(client.name, data, client.policy, client.output)
    sent = contribute_by_policy(node, policy, policy.components)
    yield from (f"would leave: {line}" for line in describe(sent))


def split_address(server: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``."""
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"--server must be HOST:PORT; got {server!r}.")
    return host, int(port)


def web_proxy(host: str) -> tuple[str, int] | None:
    """Return host and port of the web proxy of this machine's network (HTTPS_PROXY), if one leads to this host."""
    if urllib.request.proxy_bypass(host):
        return None
    url = urlsplit(urllib.request.getproxies().get("https", ""))
    return (url.hostname, url.port or 80) if url.hostname else None


def _way_to(host: str, port: int) -> str:
    """Return a line on how the coordinator is reached: a web proxy knows its name, or else this machine must."""
    proxy = web_proxy(host)
    if proxy:
        return f"name: {host}, through the web proxy {proxy[0]}:{proxy[1]}"
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise InputError(f"{host}: the name of the coordinator is not known here ({error}). Check --server.") from error
    return f"name: {host} is {address}"


def _difference_of_clocks(client: Client, host: str, port: int) -> float:
    """Return by how many seconds this clock is ahead at least, or behind if negative; 0 if it may agree.

    The coordinator's proxy tells its time in every answer, in whole seconds, some time between request and answer: on a
    slow way much later than the request.
    """
    try:
        context = ssl.create_default_context(cafile=str(client.ca))
        proxy = web_proxy(host)
        connection = http.client.HTTPSConnection(*(proxy or (host, port)), context=context, timeout=_SECONDS)
        if proxy:
            connection.set_tunnel(host, port)
        with contextlib.closing(connection):
            connection.connect()
            before = time.time()
            connection.request("GET", "/")
            told = parsedate_to_datetime(connection.getresponse().getheader("Date") or "").timestamp()
            return max(before - told - 1.0, 0.0) + min(time.time() - told, 0.0)
    except ssl.SSLError as error:
        raise InputError(
            f"{client.server}: its certificate is not one that {client.ca} vouches for ({error}). Ask the coordinator "
            "for ca.crt, and for the name by which it is reached."
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise InputError(
            f"{client.server}: the coordinator cannot be reached ({error}). Is its proxy running, and does a firewall "
            "let this machine out to that port?"
        ) from error


def _check_key(client: Client) -> str:
    """Try the node key: the node is activated, and deactivated again."""
    try:
        key = load_ssh_private_key(read_bounded(client.key, limit=_MAX_KEY_FILE, what="a node key"), None)
    except (ValueError, TypeError) as error:
        raise FormatError(f"{client.key}: the file is not an OpenSSH private key ({error}).") from error
    if not isinstance(key, EllipticCurvePrivateKey):
        raise FormatError(f"{client.key}: a node key is of kind ECDSA (ssh-keygen -t ecdsa -b 384); this is not.")
    request = ActivateNodeRequest(
        public_key=public_key_to_bytes(key.public_key()), heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL
    )
    with _fleet(client, key) as fleet:
        try:
            node = fleet.ActivateNode(request).node_id
        except httpx.HTTPStatusError as error:
            return _explain(client, error)
        fleet.DeactivateNode(DeactivateNodeRequest(node_id=node))
    return "the coordinator knows it"


def _explain(client: Client, error: httpx.HTTPStatusError) -> str:
    """Return what a refused activation means, or raise an error that says it."""
    if error.response.status_code == httpx.codes.UNAUTHORIZED:
        raise InputError(
            f"{client.key}: the coordinator does not know this key as that of a client. Ask it to register "
            f"{client.name}, or use the key that it knows."
        ) from error
    if error.response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise InputError(
            f"{client.server}: the proxy answers, but not the SuperLink behind it ({error.response.status_code}). Ask "
            "the coordinator to start it."
        ) from error
    return "the coordinator knows it, and takes this client for connected"


@contextmanager
def _fleet(client: Client, key: EllipticCurvePrivateKey) -> Iterator[FleetHttpClient]:
    interceptors: list[ProtobufClientInterceptor] = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(key, key.public_key()),
    ]
    with FleetHttpClient.from_server_address(client.server, False, client.ca.read_bytes(), interceptors) as fleet:
        yield fleet

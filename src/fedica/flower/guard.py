"""What the SuperLink and the SuperNode check of every request before Flower sees it, as ASGI middleware.

Flower 1.41 serves everything on one port of loopback, and asks for no credentials there: any user of the machine could
submit a run or take a task. `OwnerGuard` admits only connections that the server's own user opened; it asks the kernel
about the connection itself, never the request: a header (X-Forwarded-For) may name any address as the sender's. Flower
also takes the sender of a message from the message: `FleetGuard` takes it from the node's key, and bounds what a node
sends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from pathlib import Path
from typing import Any

from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from google.protobuf.message import DecodeError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CONNECTIONS = Path("/proc/net/tcp")
"""The TCP connections of the machine, each with the user who opened it; Linux alone has it."""
FLEET = "/v1/fleet/"
MAX_BODY = 8 * 2**20
"""Bytes of one request: Flower cuts messages into pieces of 5 MiB, and an envelope."""
GRACE, MIN_PACE = 30.0, 16 * 2**10
"""A body has these seconds, and one more for as many bytes as have arrived: a slower one is ended."""
_MAX_PIECES_BESIDE_CHUNKS = 8
_CHUNK = 4 * 2**20
_ESTABLISHED = "01"


def owner_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the user who opened the connection from ``client`` to ``server``; ``None`` if that cannot be told.

    Only an open connection counts: the kernel shows one whose process has closed it as root's.
    """
    ends = (_kernel_address(*client), _kernel_address(*server))
    for line in CONNECTIONS.read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if (fields[1], fields[2]) == ends and fields[3] == _ESTABLISHED and fields[9] != "0":
            return int(fields[7])
    return None


def opened_by(receive: Receive) -> int | None:
    """Return the user who opened the connection of a request; ``None`` if that cannot be told.

    receive : what uvicorn gives an app, which holds the connection. While it is open nobody else has its two ends, so
    it must be open also after the user was looked up: whoever breaks it off at once could leave its ends to another.
    """
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    before = _ends(transport)
    if before is None:
        return None
    owner = owner_of(*before)
    return owner if _ends(transport) == before else None


def _ends(transport: Any) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """Return the addresses of the client and the server of an open connection; ``None`` if it is not open."""
    if transport is None or transport.is_closing():
        return None
    held = transport.get_extra_info("socket")
    if held is None:
        return None
    try:
        with socket.socket(fileno=os.dup(held.fileno())) as connection:
            return connection.getpeername(), connection.getsockname()
    except OSError:
        return None


def _kernel_address(host: str, port: int) -> str:
    """Return an IPv4 address and port as the kernel writes them."""
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


class OwnerGuard:
    """Answer 404 to other users of this machine.

    open_paths : what they may ask for nevertheless; such requests must carry credentials of their own.
    """

    def __init__(self, app: App, open_paths: Collection[str] = ()) -> None:
        self._app = app
        self._open = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what the owner asks, and what is open to all."""
        if scope["type"] == "lifespan" or self._admits(scope, receive):
            await self._app(scope, receive, send)
        else:
            await _refuse(send, 404)

    def _admits(self, scope: Scope, receive: Receive) -> bool:
        if scope["type"] != "http":
            return False
        return scope["path"] in self._open or opened_by(receive) == os.geteuid()


class FleetGuard:
    """Refuse what a node sends in the name of another one or to another one, or beyond ``max_bytes`` in a run.

    Flower checks that the request's node is that of the key which signed it, but reads all of a request before that:
    a body that is too large or too slow is ended here, whoever sends it.
    """

    def __init__(self, app: App, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._sent: dict[tuple[int, int], int] = {}  # bytes by run and node

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read what nodes send as a whole, check it, and pass it on."""
        if scope["type"] != "http" or not scope["path"].startswith(FLEET):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read_body(receive)
            status = self._check(scope["path"].removeprefix(FLEET), body)
        except _RefusedBody as refused:
            body, status = b"", refused.status
        if status:
            await _refuse(send, status)
        else:
            await self._app(scope, _replay(body, receive), self._counting(scope["path"], body, send))

    def _check(self, name: str, body: bytes) -> int:
        """Return the status of a refusal of a request, or 0."""
        checks = {"push-messages": self._check_message, "push-object": self._check_object}
        try:
            return checks[name](body) if name in checks else 0
        except DecodeError:
            return 400

    def _check_message(self, body: bytes) -> int:
        """Return the status of a refusal of a message, or 0: it is one reply to the coordinator, of an honest size."""
        request = PushMessagesRequest.FromString(body)
        if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
            return 400
        sent = request.messages_list[0].metadata
        if sent.src_node_id != request.node.node_id or sent.dst_node_id != SUPERLINK_NODE_ID:
            return 400
        if not sent.reply_to_message_id:
            return 400
        most = _MAX_PIECES_BESIDE_CHUNKS + self._max_bytes // _CHUNK
        return 413 if _count(request.message_object_trees[0], most) > most else 0

    def _check_object(self, body: bytes) -> int:
        """Return the status of a refusal of a part of a message, or 0."""
        return 413 if self._sent.get(_sender(body), 0) + len(body) > self._max_bytes else 0

    def _counting(self, path: str, body: bytes, send: Send) -> Send:
        """Return ``send``, which counts a part of a message once Flower has taken it: its sender is then verified."""
        if path != f"{FLEET}push-object":
            return send

        async def counting(event: MutableMapping[str, Any]) -> None:
            if event.get("status") == 200:
                sender = _sender(body)
                self._sent[sender] = self._sent.get(sender, 0) + len(body)
            await send(event)

        return counting


def _sender(body: bytes) -> tuple[int, int]:
    request = PushObjectRequest.FromString(body)
    return request.run_id, request.node.node_id


def _count(tree: ObjectTree, most: int) -> int:
    """Return how many parts a message announces; beyond ``most`` counting ends."""
    number, waiting = 0, [tree]
    while waiting and number <= most:
        number += 1
        waiting.extend(waiting.pop().children)
    return number


class _RefusedBody(Exception):  # noqa: N818 - not an error: an outcome
    """A body that was not read to its end."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def _read_body(receive: Receive) -> bytes:
    """Return the body of a request; refuse one that is too large or too slow, or whose sender is gone."""
    body, started = bytearray(), asyncio.get_running_loop().time()
    while True:
        try:
            async with asyncio.timeout_at(started + GRACE + len(body) / MIN_PACE):
                event = await receive()
        except TimeoutError:
            raise _RefusedBody(408) from None
        if event["type"] != "http.request":
            raise _RefusedBody(400)
        body += event.get("body", b"")
        if len(body) > MAX_BODY:
            raise _RefusedBody(413)
        if not event.get("more_body"):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that gives the body once, and then what comes after it."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> MutableMapping[str, Any]:
        return waiting.pop() if waiting else await receive()

    return replayed


async def _refuse(send: Send, status: int) -> None:
    """Answer with a status alone, and end the connection: what is left of the request is not read."""
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})

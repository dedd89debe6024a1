"""Who opened a connection is asked of the kernel: no header says it, and no connection that is gone."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import threading
from contextlib import closing
from types import SimpleNamespace

import httpx
import pytest
import uvicorn
from deployment import wait_until

from fedica.flower import guard
from fedica.flower.certs import make_certificates

LOOPBACK = "127.0.0.1"
LINE = "0: {client} {server} 01 00000000:00000000 00:00000000 00000000 {user} 0 4711 1 0 20 4 30 10 -1\n"


async def tell_sender(scope, _receive, send):
    """An app that answers with the port that it takes for the sender's."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(scope["client"][1]).encode()})


@pytest.fixture(params=["plain", "TLS"])
def server(request, tmp_path):
    """The address of a guarded app, served as Flower serves its own, and what to connect with."""
    options, trusted, scheme = {}, True, "http"
    if request.param == "TLS":
        certs = make_certificates(tmp_path / "certs", ["a"], host=LOOPBACK)
        options = dict(zip(("ssl_certfile", "ssl_keyfile"), map(str, certs.superlink), strict=True))
        trusted, scheme = ssl.create_default_context(cafile=str(certs.inner_ca)), "https"
    guarded = guard.OwnerGuard(tell_sender, open_paths=["/open"])
    options |= {"lifespan": "off", "ws": "none", "log_level": "error"}
    made = uvicorn.Server(uvicorn.Config(guarded, host=LOOPBACK, port=0, **options))
    thread = threading.Thread(target=made.run)
    thread.start()
    wait_until(lambda: made.started, 300, "the server")
    port = made.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"{scheme}://localhost:{port}", verify=trusted) as client:
        yield port, client
    made.should_exit = True
    thread.join(300)


def table_of(folder, server, *, port, user):
    """A list of connections as the kernel writes it: one, from this port, of this user."""
    ends = {"client": guard._kernel_address(LOOPBACK, port), "server": guard._kernel_address(LOOPBACK, server)}
    (folder / "tcp").write_text("heading\n" + LINE.format(**ends, user=user))
    return folder / "tcp"


def test_the_user_who_runs_the_server_is_admitted_and_another_one_is_not(server, monkeypatch):
    """What is open is open to both."""
    _, client = server
    assert [client.get(path).status_code for path in ("/", "/open")] == [200, 200]
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert [client.get(path).status_code for path in ("/", "/open")] == [404, 200]


def test_no_header_makes_a_connection_somebody_elses(server, tmp_path, monkeypatch):
    """Everybody sees the connections of the server's own user; uvicorn believes who says to come from one of them."""
    own, client = server
    monkeypatch.setattr(guard, "CONNECTIONS", table_of(tmp_path, own, port=4321, user=os.geteuid()))
    said = {"X-Forwarded-For": f"{LOOPBACK}:4321"}
    assert client.get("/open", headers=said).text == "4321"
    assert client.get("/", headers=said).status_code == 404


class Connection:
    """A connection that a server has accepted, as uvicorn holds it."""

    def __init__(self, listening):
        self.peer = connect(listening)
        self.accepted, _ = listening.accept()
        self.transport = SimpleNamespace(is_closing=lambda: False, get_extra_info=lambda _name: self.accepted)

    async def receive(self):
        """What an app is given."""

    def hand_over(self, listening):
        """Break the connection off, and let another one have its ends."""
        port = self.peer.getsockname()[1]
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.close()
        self.peer = connect(listening, port)


def connect(listening, port=0):
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    peer.bind((LOOPBACK, port))
    peer.connect(listening.getsockname())
    return peer


@pytest.fixture
def listening():
    with socket.create_server((LOOPBACK, 0)) as made:
        yield made


def test_a_connection_that_was_broken_off_is_nobodys_whoever_has_its_ends_now(listening):
    """Of the server's own user, here."""
    connection = Connection(listening)
    assert guard.opened_by(connection.receive) == os.geteuid()
    connection.hand_over(listening)
    with closing(connection.peer):
        assert guard.owner_of(connection.peer.getsockname(), listening.getsockname()) == os.geteuid()
        assert guard.opened_by(connection.receive) is None


def test_a_connection_that_is_broken_off_while_its_user_is_looked_up_is_nobodys(listening, monkeypatch):
    """Between two looks at it."""
    connection, looked_up = Connection(listening), guard.owner_of

    def slow(*ends):
        connection.hand_over(listening)
        return looked_up(*ends)

    monkeypatch.setattr(guard, "owner_of", slow)
    with closing(connection.peer):
        assert guard.opened_by(connection.receive) is None


def test_a_connection_that_is_being_closed_or_is_not_known_is_nobodys(listening):
    """Its number may be another's already."""
    connection = Connection(listening)
    with closing(connection.peer):
        connection.transport.is_closing = lambda: True
        assert guard.opened_by(connection.receive) is None
    assert guard.opened_by(lambda: None) is None


def read(*events):
    """The body that a request of these events has, or the status with which it is refused; then nothing comes."""
    waiting = list(events)

    async def receive():
        return waiting.pop(0) if waiting else await asyncio.Event().wait()

    async def body():
        try:
            return await guard._read_body(receive)
        except guard._RefusedBody as refused:
            return refused.status

    return asyncio.run(body())


def part(n_bytes, *, more=True):
    return {"type": "http.request", "body": bytes(n_bytes), "more_body": more}


def test_a_body_is_read_to_its_end_within_its_size(monkeypatch):
    """The largest that a node needs; beyond it nothing more is read, and of a sender who is gone neither."""
    assert read(part(3), part(2, more=False)) == bytes(5)
    assert read(part(guard.MAX_BODY - 1), part(1, more=False)) == bytes(guard.MAX_BODY)
    assert read(part(guard.MAX_BODY), part(1)) == 413
    assert read(part(3), {"type": "http.disconnect"}) == 400
    monkeypatch.setattr(guard, "GRACE", 0.01)
    assert read(part(3)) == 408
    assert read(part(guard.MIN_PACE // 100), part(1)) == 408


def test_the_largest_body_has_more_time_the_more_of_it_has_come(monkeypatch):
    """A line of 128 kbit/s is enough, and a body that trickles byte by byte has the seconds of an empty one."""
    deadlines, timeout_at = [], asyncio.timeout_at

    def noting(when):
        deadlines.append(when)
        return timeout_at(when)

    monkeypatch.setattr(asyncio, "timeout_at", noting)
    read(part(1), part(2**20), part(1, more=False))
    assert deadlines[1] - deadlines[0] < 0.001
    assert deadlines[2] - deadlines[0] == pytest.approx(64, rel=0.01)


@pytest.mark.parametrize("path", ["pull-messages", "push-object", "get-fab"])
def test_nothing_of_an_oversized_request_reaches_flower(path):
    """Also where Flower itself would read all of it before it asks who sent it."""
    waiting, sent = [part(guard.MAX_BODY), part(1)], []

    async def reached(*_arguments):
        raise AssertionError

    async def receive():
        return waiting.pop(0)

    async def send(event):
        sent.append(event)

    guarded = guard.FleetGuard(reached, max_bytes=2**30)
    asyncio.run(guarded({"type": "http", "path": f"{guard.FLEET}{path}"}, receive, send))
    assert [event.get("status") for event in sent] == [413, None]

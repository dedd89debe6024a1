"""The proxy as its unit runs it, with a user of its own: bodies, limits, a reload, logs and files."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from deployment import free_port, wait_until
from others import NOBODY, steps_of_the_proxy
from posts import begin_post, known_keys, post_head

from fedica.exchange.files import write_atomic
from fedica.flower.certs import make_certificates, make_client_keys
from fedica.flower.scaffold import Federation, federation_pages, write_federation


class ProxyService:
    """The proxy as its systemd unit runs it, step by step, with ``nobody`` as its user; nobody listens behind it."""

    def __init__(self, folder, nginx):
        self.certs = make_certificates(folder / "certs", ["a", "b"], host="127.0.0.1")
        self.port, self.root, self.state = free_port(), folder / "federation", folder / "state"
        self.federation = Federation("127.0.0.1", self.port, free_port(), self.certs.folder, listen="127.0.0.1")
        write_federation(self.root, self.federation)
        self.state.mkdir(mode=0o700)  # StateDirectory
        os.chown(self.state, NOBODY, NOBODY)
        (start,) = self.steps("ExecStart")
        command = [nginx, *start[1:]]
        for step in self.steps("ExecStartPre"):
            subprocess.run(step, check=True)
        self.process = subprocess.Popen(command, umask=0o077, stderr=subprocess.DEVNULL, user=NOBODY, group=NOBODY)
        wait_until(lambda: port_is_open(self.port), 300, "nginx")

    def steps(self, name):
        """The commands of a step of the unit, with this machine's folder and user."""
        return steps_of_the_proxy(self.root, name, self.state, NOBODY)

    def reload(self):
        """As systemctl reload does it."""
        for step in self.steps("ExecReload"):
            subprocess.run([word.replace("$MAINPID", str(self.process.pid)) for word in step], check=True)

    def keys(self):
        """The keys that the proxy lets through, as nodes send them."""
        return known_keys(self.root)

    def post(self, n_bytes, n_sent, key=0):
        """A connection of a known client that announces a body and sends some of it."""
        return begin_post(self.port, self.certs.ca, self.keys()[key], n_bytes, n_sent)


@pytest.fixture(scope="module")
def own_proxy(nginx, root):
    """The proxy with a user of its own, by the steps of its unit."""
    assert root is None
    folder = Path(tempfile.mkdtemp(prefix="fedica-proxy-"))
    folder.chmod(0o711)
    service = ProxyService(folder, nginx)
    yield service
    service.process.terminate()
    service.process.wait(300)
    shutil.rmtree(folder)


def port_is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_client_has_as_many_connections_as_a_node_needs(own_proxy):
    """One more is refused at once, and another client, whom the other tests are, is not."""
    with ExitStack() as stack, Holding(own_proxy) as behind:
        for k in range(32):
            stack.enter_context(own_proxy.post(100, 50, key=1))
            wait_until(lambda k=k: len(behind.held) == k + 1, 300, "the connection is held")
        assert stack.enter_context(own_proxy.post(100, 50, key=1)).recv(12) == b"HTTP/1.1 503"
        stack.enter_context(own_proxy.post(100, 50, key=0))
        wait_until(lambda: len(behind.held) == 33, 300, "the connection of another client")


def test_a_client_has_as_many_requests_as_a_node_needs(own_proxy):
    """Of a flood some are refused, and not the first ones, nor those of another client. Nobody is behind: 502."""
    wait_until(lambda: flood(own_proxy, 1) == [b"502"], 300, "the connections of the test before have ended")
    said = flood(own_proxy, 900)
    assert set(said[:400]) == {b"502"}
    while b"503" not in said:  # a machine may be so slow that it was none
        said = flood(own_proxy, 900)
    with own_proxy.post(2, 2, key=0) as connection:
        assert connection.recv(12) == b"HTTP/1.1 502"


def flood(own_proxy, n_requests):
    """The statuses of so many requests of a client, sent without waiting for answers."""
    with own_proxy.post(0, 0, key=1) as connection, connection.makefile("rb") as stream, ThreadPoolExecutor(1) as pool:
        head = post_head(own_proxy.keys()[1], 0)
        pool.submit(connection.sendall, head * (n_requests - 1))
        statuses = []
        while len(statuses) < n_requests:
            line = stream.readline()
            assert line, "the connection was ended"
            if line.startswith(b"HTTP/1.1 "):
                statuses.append(line.split()[1])
    return statuses


class Holding:
    """A server in the place of the SuperLink, which accepts connections and answers nothing."""

    def __init__(self, service):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*map(str, service.certs.superlink))
        self._listening = socket.create_server(("127.0.0.1", service.federation.superlink_port), backlog=64)
        self._thread = threading.Thread(target=self._hold)
        self.held = []

    def _hold(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.held.append(self._context.wrap_socket(connection, server_side=True))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(300)
        for connection in (self._listening, *self.held):
            connection.close()


def test_a_proxy_with_a_user_of_its_own_takes_bodies_above_its_buffer(own_proxy):
    """Where nginx must write a body above 16 KB to its folder and cannot, it answers 500. Nobody is behind: 502."""
    with own_proxy.post(2**20, 2**20) as connection:
        assert connection.recv(12) == b"HTTP/1.1 502"


def test_a_reload_of_the_service_lets_a_new_client_in(own_proxy):
    """What fedica writes belongs to the coordinator's user; the unit gives the proxy a copy."""
    make_client_keys(own_proxy.certs, "z")
    page = federation_pages(own_proxy.root, own_proxy.federation, None)["proxy/nginx.conf"]
    write_atomic(own_proxy.root / "proxy" / "nginx.conf", [page], mode=0o600)

    def said():
        with own_proxy.post(2, 2, key=2) as connection:
            return connection.recv(12)

    assert said() == b"HTTP/1.1 401"
    own_proxy.reload()
    wait_until(lambda: said() == b"HTTP/1.1 502", 300, "the key of the new client")


def test_the_logs_of_the_service_are_rotated(own_proxy):
    """By the step of the page for logrotate: the proxy writes to a new file."""
    page = (own_proxy.root / "systemd" / "fedica-proxy.logrotate").read_text()
    step = page.split("postrotate\n")[1].split("endscript")[0].replace("/var/lib/fedica-proxy", str(own_proxy.state))
    log = own_proxy.state / "access.log"
    log.rename(own_proxy.state / "access.log.1")
    subprocess.run(["/bin/sh", "-c", step], check=True)
    wait_until(log.exists, 300, "a new log")


def test_no_file_of_the_service_is_readable_by_others(own_proxy):
    """Neither the coordinator's nor the proxy's."""
    folders = own_proxy.state, own_proxy.root, own_proxy.certs.folder
    paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    assert [path for path in paths if path.stat(follow_symlinks=False).st_mode & 0o077] == []
    assert {path.stat().st_uid for path in (own_proxy.state, *own_proxy.state.rglob("*"))} == {NOBODY}

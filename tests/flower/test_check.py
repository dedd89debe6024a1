"""A client that cannot take part says why in one sentence, and ends with exit code 1."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import socketserver
import ssl
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from inprocess import client_data
from typer.testing import CliRunner

from fedica.cli import app as program
from fedica.flower.approval import answer_waiting, list_waiting
from fedica.flower.certs import make_certificates
from fedica.flower.check import check_connection, web_proxy
from fedica.flower.launch import Client


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("made") / "certs", ["a"], host="127.0.0.1")


@pytest.fixture
def proxy(certs):
    """Return a function that starts a proxy whose clock differs, and that answers fleet requests with a status."""
    servers = []

    def start(clock=0.0, status=401):
        class Handler(BaseHTTPRequestHandler):
            def date_time_string(self, timestamp=None):
                return formatdate((timestamp or time.time()) + clock, usegmt=True)

            def do_GET(self):
                self.send_response(404)
                self.send_header("content-length", "0")
                self.end_headers()

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, certs.proxy))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def invoke(command, certs, folder, port, **changes):
    """Run ``fedica flower check`` or ``client``; returns exit code and what was said, in one line."""
    np.save(folder / "data.npy", client_data(0))
    (folder / "a.toml").write_text('max-components = 6\nmin-samples = 100\napps = ["0"]\n')
    values = {
        "--server": f"127.0.0.1:{port}",
        "--ca": certs.ca,
        "--key": certs.nodes / "a.key",
        "--policy": folder / "a.toml",
        "--data": folder / "data.npy",
        "--output": folder / "output",
    } | changes
    outcome = CliRunner().invoke(program, ["flower", command, "a", *(str(x) for pair in values.items() for x in pair)])
    return outcome.exit_code, " ".join(outcome.output.split())


@pytest.mark.parametrize("command", ["check", "client"])
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("unreachable", "the coordinator cannot be reached"),
        ("unknown name", "the name of the coordinator is not known here"),
        ("wrong ca", "its certificate is not one that"),
        ("clock ahead", "clock is 3600 s ahead of the coordinator's"),
        ("clock behind", "clock is 3600 s behind the coordinator's"),
        ("unknown key", "does not know this key"),
        ("no superlink", "not the SuperLink behind it (502)"),
        ("ed25519", "of kind ECDSA"),
    ],
)
def test_what_is_in_the_way_is_said(certs, proxy, tmp_path, command, fault, sentence):
    """Before anything of Flower is started."""
    changes, closed = {}, socket.socket()
    closed.bind(("127.0.0.1", 0))  # nobody else listens there, and this does not
    port = proxy({"clock ahead": -3600.0, "clock behind": 3600.0}.get(fault, 0.0), 502 if "super" in fault else 401)
    if fault == "unreachable":
        port = closed.getsockname()[1]
    elif fault == "unknown name":
        changes["--server"] = "nowhere.invalid:8443"
    elif fault == "wrong ca":
        changes["--ca"] = make_certificates(tmp_path / "other", ["a"], host="127.0.0.1").ca
    elif fault == "ed25519":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        (tmp_path / "ed25519.key").write_bytes(pem)
        changes["--key"] = tmp_path / "ed25519.key"
    with closed:
        code, said = invoke(command, certs, tmp_path, port, **changes)
    assert code == 1
    assert sentence in re.sub(r"3[56]\d\d s", "3600 s", said)


def test_what_succeeded_before_is_said_too(certs, proxy, tmp_path):
    """Whoever looks for what is in the way sees how far the way goes."""
    said = invoke("check", certs, tmp_path, proxy(status=401))[1]
    assert "port and TLS: 127.0.0.1" in said
    assert "clock: within" in said


def test_a_dry_run_shows_what_would_leave(certs, proxy, tmp_path):
    """A client that the coordinator takes for connected: every check succeeds, and nothing is sent."""
    code, said = invoke("check", certs, tmp_path, proxy(status=409))
    assert code == 0, said
    assert "policy: 1 app, at most 6 components" in said
    assert "takes this client for connected" in said
    assert "would leave: atoms" in said
    assert not (tmp_path / "output").exists()


def test_a_policy_without_apps_starts_nothing(certs, proxy, tmp_path):
    """Nothing could run."""
    page = tmp_path / "none.toml"
    page.write_text("max-components = 6\nmin-samples = 100\n")
    code, said = invoke("client", certs, tmp_path, proxy(), **{"--policy": page})
    assert code == 1
    assert "names no app" in said


@pytest.mark.parametrize("yes", [True, False])
def test_what_would_leave_waits_for_a_person(three, yes):
    """Approve = "ask": with a yes it leaves, with a no the client refuses; nothing stays in the folder."""
    number = three.add("d", policy='max-components = 3\nmin-samples = 100\napprove = "ask"\n')
    output = three.home(number) / "output"

    def person():
        while not list_waiting(output):
            time.sleep(0.05)
        outcome = CliRunner().invoke(program, ["flower", "approve", str(output)])
        shown.append(outcome.output)
        answer_waiting(output, "run-77-contribution", yes=yes)

    shown = []
    thread = threading.Thread(target=person, daemon=True)
    thread.start()
    folder = three.run()
    thread.join(60)
    assert ("d" in {path.stem for path in (folder / "inbox").iterdir()}) == yes
    assert "run-77-contribution would leave:" in shown[0]
    assert any(line.startswith("  atoms, 144 bytes: ") for line in shown[0].splitlines())
    assert "run-77-contribution --yes" in shown[0]
    assert list((output / "waiting").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 0, "Nothing waits."),
        (["run-1-contribution", "--yes"], 1, "does not wait for an answer; waiting: nothing"),
        (["run-1-contribution"], 1, "does not wait for an answer; waiting: nothing"),
        (["--yes"], 1, "give its name too"),
    ],
)
def test_an_answer_to_what_does_not_wait_is_refused(tmp_path, arguments, code, sentence):
    """One sentence that says what waits."""
    outcome = CliRunner().invoke(program, ["flower", "approve", str(tmp_path), *arguments])
    assert outcome.exit_code == code
    assert sentence in " ".join(outcome.output.split())


class Relay(socketserver.StreamRequestHandler):
    """A web proxy: the first line says where to, and it leads to one server whatever that is."""

    def handle(self):
        """Connect, and pass on both ways."""
        self.server.asked.append(self.rfile.readline().decode().split()[:2])
        while self.rfile.readline().strip():
            pass
        with socket.create_connection(("127.0.0.1", self.server.leads_to)) as other:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=copy, args=(other, self.connection), daemon=True)
            back.start()
            copy(self.connection, other)
            back.join()


def copy(source, sink):
    """Pass on what arrives until it ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def test_a_client_behind_a_web_proxy_reaches_the_coordinator_through_it(tmp_path, monkeypatch):
    """A name that only the proxy knows; the certificate is checked through it, and loopback needs none."""
    named = make_certificates(tmp_path / "certs", ["a"], host="coordinator.invalid")
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, named.proxy))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    relay = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay)
    relay.daemon_threads, relay.leads_to, relay.asked = True, server.server_address[1], []
    for made in (server, relay):
        threading.Thread(target=made.serve_forever, daemon=True).start()
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{relay.server_address[1]}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    files = [tmp_path / name for name in ("key", "data", "policy", "output")]
    said = check_connection(Client("a", "coordinator.invalid:8443", named.ca, *files, port=9094))
    assert next(said) == f"name: coordinator.invalid, through the web proxy 127.0.0.1:{relay.server_address[1]}"
    assert next(said).startswith("port and TLS: coordinator.invalid:8443 answers")
    assert relay.asked == [["CONNECT", "coordinator.invalid:8443"]]
    assert web_proxy("127.0.0.1") is None
    for made in (server, relay):
        made.shutdown()
        made.server_close()


def test_commands_leave_loopback_out_of_what_goes_through_a_web_proxy(monkeypatch):
    """Whatever else is left out already."""
    monkeypatch.setenv("NO_PROXY", "intranet")
    monkeypatch.setenv("no_proxy", "intranet")
    CliRunner().invoke(program, ["flower", "status", "nowhere"])
    assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == "127.0.0.1,intranet,localhost"

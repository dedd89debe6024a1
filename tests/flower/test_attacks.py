"""What was tried against a running federation, with real processes and other users of the machine: ``make faults``.

docs/threats.md lists these attacks.
"""

from __future__ import annotations

import csv
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from deployment import BIN, NGINX, Deployment, free_port, wait_until
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from inprocess import client_data
from others import ask_as_another_user
from posts import begin_post, known_keys

from fedica.exchange import keygen
from fedica.flower.scaffold import FLEET_PATHS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("minutes")]
EVIL_PAGE = """
[project]
name = "fedica-app"
version = "0.2.0"
license = "BSD-3-Clause"
dependencies = []
[tool.flwr.app]
publisher = "fedica"
[tool.flwr.app.components]
serverapp = "evil:server"
clientapp = "evil:client"
"""
EVIL_CODE = """
import os
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
open("{marks}/loaded-" + str(os.getpid()), "w").close()
server = ServerApp()
client = ClientApp()

@client.train()
def steal(message, context):
    open("{marks}/ran", "w").close()
    return Message(RecordDict(), reply_to=message)

@server.main()
def main(grid, context):
    messages = [Message(RecordDict(), node, "train") for node in grid.get_node_ids()]
    replies = list(grid.send_and_receive(messages, timeout=600))
    with open("{marks}/replies", "w") as stream:
        print(*(reply.error.code if reply.has_error() else "content" for reply in replies), file=stream)
"""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """Three clients, connected and ready."""
    data = {client: client_data(k) for k, client in enumerate("abc")}
    with Deployment(tmp_path_factory.mktemp("federation"), data, shielded=NGINX is not None) as made:
        for variable in ("HOME", "TMPDIR"):  # what Flower puts there is looked at, too
            (made.folder / variable).mkdir(mode=0o700)
            made.env[variable] = str(made.folder / variable)
        made.start_all("ab" if made.shielded else "abc")
        if made.shielded:
            start_as_in_a_container(made, "c")
        wait_until(lambda: made.online() == ["a", "b", "c"], 300, "all clients")
        yield made


def start_as_in_a_container(deployment, client):
    """Start a client by the command of its compose file, with folders in the places of what is mounted."""
    home = deployment.folder / "container"
    keys, data, results = home / "keys", home / "data", deployment.folder / f"{client}-output"
    for folder in (home, keys, data, keys / "signing"):
        folder.mkdir(mode=0o700)
    clients = deployment.root / "clients"
    shutil.copy(deployment.certs.ca, keys)
    shutil.copy(deployment.certs.nodes / f"{client}.key", keys)
    shutil.copy(clients / f"{client}.toml", keys)
    shutil.copy(clients / "signing" / f"{client}.key", keys / "signing")
    np.save(data / "export.npy", deployment.data[client])  # a watched folder
    (data / "export.npy").chmod(0o600)
    page = yaml.safe_load((deployment.root / "container" / "compose.client.yaml").read_text())
    mounted = {f"={name}": f"={folder}" for name, folder in {"/keys": keys, "/data": data, "/results": results}.items()}
    words = [word.replace("${CLIENT}", client) for word in page["services"]["client"]["command"]]
    for inside, outside in mounted.items():
        words = [word.replace(inside, outside) for word in words]
    deployment.node_ports[client] = free_port()
    port = ["--port", str(deployment.node_ports[client])]
    deployment.start(client, [BIN / "fedica", "flower", *words, *port], deployment.env)


@pytest.mark.usefixtures("root")
def test_another_user_of_the_coordinators_machine_gets_404_on_everything_but_the_fleet_paths(deployment):
    """No run submitted, no key registered, no task of the server's app taken; fleet paths ask for a signature."""
    fleet = {f"/v1/fleet/{name}" for name in FLEET_PATHS}
    paths = sorted({path for _, path in PROTOBUF_REQUEST_TYPES} | {"/health", "/docs", "/openapi.json"})
    statuses = ask_as_another_user(deployment.superlink_port, paths, deployment.certs.inner_ca.read_text())
    assert len(statuses) == len(paths) > 60
    assert {status for path, status in zip(paths, statuses, strict=True) if path not in fleet} == {404}
    assert {status for path, status in zip(paths, statuses, strict=True) if path in fleet} <= {400, 401, 422}
    assert deployment.get(deployment.superlink_port, "/health", deployment.certs.inner_ca) == 200


@pytest.mark.usefixtures("root")
def test_another_user_of_a_clients_machine_cannot_take_its_task(deployment):
    """Every path of the SuperNode's own port: 404."""
    paths = sorted({path for _, path in PROTOBUF_REQUEST_TYPES if path.startswith("/v1/runtime/")} | {"/health"})
    assert set(ask_as_another_user(deployment.node_ports["a"], paths)) == {404}


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_another_user_cannot_pass_for_a_connection_of_the_owner(deployment, header):
    """Everybody can read its addresses, and Flower's servers believe what a request on loopback says of its sender."""
    ports = {deployment.superlink_port: deployment.certs.inner_ca.read_text(), deployment.node_ports["a"]: ""}
    paths = ["/v1/control/list-nodes", "/v1/control/start-run", "/v1/runtime/acquire-task", "/health"]
    for port, ca in ports.items():
        with socket.create_connection(("127.0.0.1", port), 300) as owners:
            address = f"127.0.0.1:{owners.getsockname()[1]}"
            said = f'for="{address}"' if header == "Forwarded" else address
            assert set(ask_as_another_user(port, paths, ca, **{header: said})) == {404}


def test_the_health_check_of_the_container_passes(deployment):
    """The command of the compose file, as it stands there, by the user who runs the SuperLink; others get 404."""
    page = (deployment.root / "container" / "compose.yaml").read_text()
    _, program, *arguments = yaml.safe_load(page)["services"]["superlink"]["healthcheck"]["test"]
    assert program == "python"
    assert subprocess.run([sys.executable, *arguments], check=False).returncode == 0


def test_without_the_secret_not_even_the_clients_own_user_takes_its_task(deployment):
    """Process isolation: the SuperExec signs with a secret of its own."""
    port = deployment.node_ports["a"]
    reply = httpx.post(
        f"http://127.0.0.1:{port}/v1/runtime/acquire-task", headers={"content-type": "application/protobuf"}
    )
    assert reply.status_code in (401, 403), reply.text


def test_another_app_is_refused_before_anything_of_it_is_started(deployment, tmp_path):
    """Submitted by the coordinator's own user, under the name of fedica's app: each client answers with an error."""
    folder = tmp_path / "evil-app"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(EVIL_PAGE)
    (folder / "evil.py").write_text(EVIL_CODE.replace("{marks}", str(tmp_path)))
    said = deployment.flwr("run", str(folder), "study")
    assert said["success"], said
    wait_until((tmp_path / "replies").exists, 300, "the server's part of the other app")
    wait_until(lambda: (tmp_path / "replies").read_text().strip(), 60, "its replies")
    assert (tmp_path / "replies").read_text().split() == ["7", "7", "7"]
    assert not (tmp_path / "ran").exists()
    assert len(list(tmp_path.glob("loaded-*"))) == 1  # by the server's own process
    for client in deployment.data:
        assert "was refused before anything of it was started" in deployment.log(client)
        assert not list((deployment.folder / f"{client}-output" / ".flower").rglob("evil.py"))


@pytest.fixture
def hostile(deployment):
    """Client c's key in other hands: its node, that of client a, and a way to send."""
    key = load_ssh_private_key((deployment.certs.nodes / "c.key").read_bytes(), None)
    ids = sorted(node.node_id for node in deployment.control._nodes().values())
    address = f"127.0.0.1:{deployment.port if deployment.shielded else deployment.superlink_port}"
    ca = (deployment.certs.ca if deployment.shielded else deployment.certs.inner_ca).read_bytes()
    client = FleetHttpClient.from_server_address(
        address, False, ca, interceptors=[NodeAuthHttpInterceptor(key, key.public_key())]
    )
    own = next(x for x in ids if f"SuperNode ID: {x}" in deployment.log("c"))
    with client:
        yield client, own, next(x for x in ids if x != own)


def sends(client, request):
    """The status that a pushed message gets."""
    with pytest.raises(httpx.HTTPStatusError) as error:
        client.PushMessages(request)
    return error.value.response.status_code


def message_of(node, *, source, to=1, reply_to="f" * 64, parts=1):
    tree = ObjectTree(object_id="0" * 64, children=[ObjectTree(object_id=f"{k:064x}") for k in range(1, parts)])
    sent = Message(
        metadata=Metadata(
            run_id=1,
            message_id="0" * 64,
            src_node_id=source,
            dst_node_id=to,
            reply_to_message_id=reply_to,
            ttl=60.0,
            message_type="train.contribution",
        )
    )
    return PushMessagesRequest(node=Node(node_id=node), messages_list=[sent], message_object_trees=[tree])


def test_a_client_with_a_key_cannot_answer_for_another_one(hostile):
    """Neither by the message's source nor by the request's node."""
    client, own, other = hostile
    assert sends(client, message_of(own, source=other)) == 400
    assert sends(client, message_of(other, source=other)) == 401


def test_a_client_with_a_key_cannot_send_an_aggregate_to_another_one(hostile):
    """Nodes answer the coordinator, and do nothing else."""
    client, own, other = hostile
    assert sends(client, message_of(own, source=own, to=other)) == 400
    assert sends(client, message_of(own, source=own, reply_to="")) == 400


def test_an_oversized_answer_is_refused_by_what_it_announces_and_by_what_it_sends(hostile, deployment):
    """Before the SuperLink keeps anything of it."""
    client, own, _ = hostile
    assert sends(client, message_of(own, source=own, parts=200)) == 413
    before = (deployment.root / "coordinator" / "state.db").stat().st_size
    request = PushObjectRequest(node=Node(node_id=own), run_id=1, object_id="0" * 64, object_content=bytes(9 * 2**20))
    with pytest.raises(httpx.HTTPStatusError) as error:
        client.PushObject(request)
    assert error.value.response.status_code == 413
    memory = peak_memory(deployment.processes["superlink"].pid)
    for k in range(50):  # 400 MB, in requests that pass by their size
        part = PushObjectRequest(
            node=Node(node_id=own), run_id=1, object_id=f"{k:064x}", object_content=bytes(8_000_000)
        )
        with pytest.raises(httpx.HTTPStatusError):
            client.PushObject(part)
    more = peak_memory(deployment.processes["superlink"].pid) - memory
    print(f"400 MB: {more:.0f} MB of memory")
    assert more < 400
    assert (deployment.root / "coordinator" / "state.db").stat().st_size <= before + 2**20


def peak_memory(pid):
    """The most memory that a process has had, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def completed(deployment, run_id):
    """The folder of a run that must succeed."""
    assert deployment.finish(run_id, 600) == "finished:completed", deployment.log("superlink")[-3000:]
    return deployment.results(run_id)


@contextmanager
def changed_settings(deployment, before, after):
    """The coordinator's settings with a change."""
    page = deployment.root / "coordinator" / "coordinator.toml"
    said = page.read_text()
    assert before in said
    page.write_text(said.replace(before, after))
    yield
    page.write_text(said)


def resume(deployment, folder):
    """Resume a run; returns why clients did not apply the aggregate."""
    completed(deployment, deployment.submit(resume=folder.name))
    with open(folder / "not-applied.csv", newline="", encoding="utf-8") as stream:
        return {row["client"]: row["reason"] for row in csv.DictReader(stream)}


def test_an_aggregate_that_is_forged_or_of_an_earlier_run_is_refused(deployment, tmp_path):
    """By who has all of the coordinator but its key; with its key, because the clients have this run's aggregate."""
    with changed_settings(deployment, "min-support = 3", "min-support = 99"):
        earlier = completed(deployment, deployment.submit(components=2))
    assert not (earlier / "not-applied.csv").exists()  # nothing went back yet
    forged, _ = keygen("coordinator", tmp_path)
    with changed_settings(deployment, f'"{deployment.certs.coordinator}"', f'"{forged}"'):
        refused = resume(deployment, earlier)
    assert set(refused) == {"a", "b", "c"}
    for client in refused:
        assert "not signed for this run by the coordinator's key" in deployment.log(client)
        assert not (deployment.folder / f"{client}-output" / earlier.name).exists()

    run = completed(deployment, deployment.submit())  # the federation goes on as if nothing had been tried
    assert (run / "not-applied.csv").read_text().splitlines() == ["client,reason,source,kind"]
    kept = [deployment.folder / f"{client}-output" / run.name / "aggregate.safetensors" for client in "abc"]
    before = [path.read_bytes() for path in kept]
    (run / "not-applied.csv").unlink()
    shutil.rmtree(run / "result")
    shutil.copytree(earlier / "result", run / "result")
    assert set(resume(deployment, run)) == {"a", "b", "c"}
    assert all("a second one is refused" in deployment.log(client) for client in "abc")
    assert [path.read_bytes() for path in kept] == before


def test_no_file_of_the_federation_is_readable_by_others(deployment):
    """Whatever the umask was: the trees of coordinator and clients, after a run, with all that Flower makes."""
    completed(deployment, deployment.submit())
    made = list(deployment.folder.rglob("*"))
    expected = {"state.db", "state.db-wal", "inbox", "details.safetensors", "sources.npy", "superexec.secret", ".runs"}
    assert expected <= {path.name for path in made}
    open_to_others = [path for path in made if path.stat(follow_symlinks=False).st_mode & 0o077]
    made_by_the_test = {deployment.folder / f"{client}.npy" for client in deployment.data}
    logs = {deployment.folder / f"{name}.log" for name in (*deployment.data, "superlink", "nginx")}
    assert sorted(set(open_to_others) - made_by_the_test - logs) == []


def test_no_file_of_a_client_tells_the_number_of_another_ones_node(deployment):
    """With it one could try to send in its name."""
    completed(deployment, deployment.submit())
    numbers = {str(node.node_id).encode() for node in deployment.control._nodes().values()}
    assert len(numbers) == 3
    for client in deployment.data:
        files = [path for path in (deployment.folder / f"{client}-output").rglob("*") if path.is_file()]
        assert len(files) > 3
        told = {number for number in numbers for path in files if number in path.read_bytes()}
        assert all(f"SuperNode ID: {number.decode()}" in deployment.log(client) for number in told)  # its own


def trickle(connection):
    """Send a body byte by byte, so that it never stalls, until there is an answer or the connection is ended."""
    connection.settimeout(1)
    with connection:
        for _ in range(600):
            try:
                return connection.recv(12)
            except TimeoutError:
                pass
            except OSError:
                return b""
            with suppress(OSError):
                connection.sendall(b"x")
    raise AssertionError("a body that trickles was not ended")


@pytest.mark.usefixtures("nginx")
def test_a_body_that_stalls_is_ended(deployment):
    """By the proxy: the connection is closed, without an answer of the SuperLink."""
    with begin_post(deployment.port, deployment.certs.ca, known_keys(deployment.root)[0], 2**20, 100) as connection:
        try:
            said = connection.recv(12)
        except ConnectionResetError:
            said = b""
    assert said in (b"", b"HTTP/1.1 408")


@pytest.mark.usefixtures("nginx")
def test_a_body_that_trickles_is_ended(deployment):
    """Through the proxy, and straight to the SuperLink as every user of the machine could send it."""
    ways = {deployment.port: deployment.certs.ca, deployment.superlink_port: deployment.certs.inner_ca}
    begun = [begin_post(port, ca, known_keys(deployment.root)[0], 2**20, 100) for port, ca in ways.items()]
    with ThreadPoolExecutor() as pool:
        assert set(pool.map(trickle, begun)) <= {b"", b"HTTP/1.1 408"}
    assert deployment.get(deployment.superlink_port, "/health", deployment.certs.inner_ca) == 200

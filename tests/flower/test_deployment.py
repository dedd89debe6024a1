"""One real deployment on loopback: TLS, node keys, two messages, through nginx if installed."""

from __future__ import annotations

import http.client
import ssl

import pytest
from deployment import BIN, NGINX, Deployment, free_port, wait_until
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
from inprocess import client_data
from typer.testing import CliRunner

from fedica.cli import app as program
from fedica.flower.certs import make_certificates
from fedica.flower.scaffold import FLEET_PATHS

FLEET = {f"/v1/fleet/{name}" for name in FLEET_PATHS}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """Three clients, connected and ready."""
    data = {client: client_data(k) for k, client in enumerate("abc")}
    with Deployment(tmp_path_factory.mktemp("federation"), data, shielded=NGINX is not None, by_flwr=True) as made:
        made.start_all()
        yield made


def test_three_clients_from_certificates_to_the_same_folder_as_the_file_path(deployment, tmp_path):
    """The commands of ``fedica flower up``, and ``fedica aggregate`` on what came: the same files, byte by byte."""
    run_id = deployment.submit()
    status = deployment.finish(run_id, 600)
    assert status == "finished:completed", deployment.log("superlink")[-3000:]
    folder = deployment.results(run_id)
    arguments = ["aggregate", str(folder / "inbox"), "--components", "3", "-o", str(tmp_path / "again")]
    arguments += ["--trust-keys", str(deployment.certs.signing)]
    outcome = CliRunner().invoke(program, arguments)
    assert outcome.exit_code == 0, outcome.output
    names = sorted(path.name for path in (folder / "result").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    differ = [x for x in names if (folder / "result" / x).read_bytes() != (tmp_path / "again" / x).read_bytes()]
    assert differ == []
    assert sorted(path.stem for path in (folder / "inbox").iterdir()) == ["a", "b", "c"]
    assert (folder / "not-applied.csv").read_text().splitlines() == ["client,reason,source,kind"]
    for client in deployment.data:
        kept = deployment.folder / f"{client}-output" / f"run-{run_id}"
        assert sorted(path.name for path in kept.iterdir()) == ["aggregate.safetensors", "sources.npy"]


@pytest.mark.usefixtures("nginx")
def test_a_stranger_with_the_ca_certificate_can_neither_register_a_key_nor_submit_a_run(deployment, tmp_path):
    """Flower's own commands, pointed at the port that clients reach: refused."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "study"\n[superlink.study]\naddress = "127.0.0.1:{deployment.port}"\n'
        f'root-certificates = "{deployment.certs.ca}"\n'
    )
    make_certificates(tmp_path / "own", ["stranger"], host="127.0.0.1")
    key = str(tmp_path / "own" / "nodes" / "stranger.pub")
    before = deployment.flwr("supernode", "list", "study")
    assert not deployment.flwr("supernode", "register", key, "study", home=home)["success"]
    assert not deployment.flwr("run", str(deployment.root / "app"), "study", home=home)["success"]
    after = deployment.flwr("supernode", "list", "study")
    assert len(after["nodes"]) == len(before["nodes"]) == 3


@pytest.mark.usefixtures("nginx")
def test_only_the_ten_fleet_paths_pass_and_only_with_a_known_key(deployment):
    """Every path that Flower serves, asked for through the shield: 404, or 401 without a key of the study."""
    paths = {path for _, path in PROTOBUF_REQUEST_TYPES}
    assert paths > FLEET
    assert len(paths - FLEET) > 50
    known = (deployment.root / "proxy" / "nginx.conf").read_text().split('default "";')[1].split('"')[1]
    for path in sorted(paths | {"/", "/health", "/docs", "/openapi.json", "/metrics"}):
        for header in ({}, {"flwr-public-key": "c3RyYW5nZXI="}, {"flwr-public-key": known}):
            headers = {"content-type": PROTOBUF_MEDIA_TYPE, **header}
            status = deployment.get(
                deployment.port, path, deployment.certs.ca, method="POST", headers=headers, data=b""
            )
            if path not in FLEET:
                assert status == 404, (path, header, status)
            elif path.endswith("/push-messages") and known in header.values():
                assert status == 400, (path, header, status)  # an empty request holds no message to ask a signature for
            else:  # a known public key without a signature comes as far as the SuperLink, which refuses it
                assert status == 401, (path, header, status)
        assert deployment.get(deployment.port, path, deployment.certs.ca) == 404


@pytest.mark.usefixtures("nginx")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/fleet/../control/start-run",
        "/v1/fleet/pull-messages/../../control/start-run",
        "/v1/control/start-run/../../fleet/pull-messages",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/..%2fcontrol%2fstart-run",
        "//v1/control/start-run",
        "/v1/control/start-run?/v1/fleet/pull-messages",
        "/V1/CONTROL/start-run",
        "/v1/fleet/pull-messages/",
        "/v1/fleet/register-node",
    ],
)
def test_no_spelling_of_a_path_leads_around_the_shield(deployment, path):
    """Sent as it stands, with a known key: what arrives is 404, or a fleet path that asks for a signature (401)."""
    known = (deployment.root / "proxy" / "nginx.conf").read_text().split('default "";')[1].split('"')[1]
    context = ssl.create_default_context(cafile=str(deployment.certs.ca))
    connection = http.client.HTTPSConnection("127.0.0.1", deployment.port, context=context, timeout=600)
    connection.putrequest("POST", path, skip_host=False)
    connection.putheader("flwr-public-key", known)
    connection.putheader("content-type", PROTOBUF_MEDIA_TYPE)
    connection.putheader("content-length", "0")
    connection.endheaders()
    expected = 401 if path == "/v1/control/start-run/../../fleet/pull-messages" else 404
    assert connection.getresponse().status == expected
    connection.close()


def test_unknown_key_no_key_wrong_ca_and_plain_connections_are_refused(deployment, tmp_path):
    """Each of these SuperNodes gives up, and none is ever listed."""
    other = make_certificates(tmp_path / "other", ["a"], host="127.0.0.1")
    deployment.start_stranger("unknown-key", auth_supernode_private_key=str(other.nodes / "a.key"))
    deployment.start_stranger("no-key", auth_supernode_private_key=None)
    deployment.start_stranger("wrong-ca", root_certificates=str(other.ca), max_retries="1")
    port = deployment.port if deployment.shielded else deployment.superlink_port
    options = ["--insecure", "--superlink", f"127.0.0.1:{port}", "--max-retries", "1", "--port", str(free_port())]
    env = {**deployment.command("flwr run")[1], "FLWR_HOME": str(tmp_path / "plain")}
    deployment.start("plain", [BIN / "flower-supernode", *options], env)
    names = ("unknown-key", "no-key", "wrong-ca", "plain")
    running = {name: deployment.processes[name] for name in names}
    wait_until(
        lambda: all(x.poll() is not None for x in running.values()), 300, [deployment.log(x)[-900:] for x in names]
    )
    assert all("SuperNode ID" not in deployment.log(name) for name in names)
    for name in names:
        deployment.stop(name)
    listed = deployment.flwr("supernode", "list", "study")["nodes"]
    assert len(listed) == 3

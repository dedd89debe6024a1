"""Certificates, keys, the folder of a federation and the commands: what is written is what the machines accept."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from typer.testing import CliRunner

from fedica.cli import app as program
from fedica.errors import FedicaError, InputError
from fedica.exchange import read_signing_key, write_study
from fedica.flower.apps import bundle_fingerprint, page_fingerprint
from fedica.flower.certs import make_certificates
from fedica.flower.commands import commands
from fedica.flower.coordinator import Coordinator, RunSettings, read_node_keys
from fedica.flower.launch import Client, run_superlink, superlink_options
from fedica.flower.policy import Policy, read_node
from fedica.flower.scaffold import Federation, write_federation
from fedica.flower.settings import make_settings, read_settings
from fedica.records import Study
from fedica.version import __version__


@pytest.fixture
def certs(tmp_path):
    return make_certificates(tmp_path / "certs", ["a", "b"], host="127.0.0.1")


@pytest.fixture
def folder(certs, tmp_path):
    write_federation(tmp_path / "federation", Federation("127.0.0.1", 8443, 8000, certs.folder))
    return tmp_path / "federation"


def handshake(server_files, ca, name):
    """One TLS connection on loopback; returns the certificate that the client accepted."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*map(str, server_files))
    client = ssl.create_default_context(cafile=str(ca))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                server.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listening.getsockname(), timeout=600) as raw,
                client.wrap_socket(raw, server_hostname=name) as connection,
            ):
                return connection.getpeercert()
        finally:
            thread.join(60)


def test_each_side_accepts_its_own_ca_alone(certs):
    """Strictly checked: the proxy under the outer CA, the SuperLink under the inner one, never across."""
    assert handshake(certs.proxy, certs.ca, "127.0.0.1")
    assert handshake(certs.superlink, certs.inner_ca, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(certs.proxy, certs.inner_ca, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(certs.superlink, certs.ca, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(certs.proxy, certs.ca, "elsewhere.example.org")


def test_private_files_are_for_their_owner_alone_and_the_inner_ca_has_no_key(certs):
    """Mode 0600 for every key; nobody can sign for the inner side again."""
    keys = [*certs.folder.glob("*.key"), *certs.nodes.glob("*.key")]
    assert len(keys) == 5
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in keys)
    assert not (certs.folder / "inner-ca.key").exists()
    ca = x509.load_pem_x509_certificate(certs.ca.read_bytes())
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


def test_node_keys_are_what_flower_takes(certs):
    """ECDSA P-384 in OpenSSH's format, each public half that of its private one."""
    for client in "ab":
        private = load_ssh_private_key((certs.nodes / f"{client}.key").read_bytes(), None)
        public = load_ssh_public_key((certs.nodes / f"{client}.pub").read_bytes())
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        assert private.curve.name == "secp384r1"
        assert private.public_key() == public
    assert sorted(read_node_keys(certs.nodes).values()) == ["a", "b"]


def test_keys_are_never_overwritten(certs):
    """A second call changes nothing."""
    before = {path: path.read_bytes() for path in certs.folder.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="never overwritten"):
        make_certificates(certs.folder, ["a"], host="127.0.0.1")
    assert all(path.read_bytes() == data for path, data in before.items())


@pytest.mark.parametrize("clients", [[], ["a", "a"], ["../a"], ["a b"], ["x.pub"]])
def test_clients_that_cannot_be_files_are_refused(clients, tmp_path):
    """A key's file has its client's name."""
    with pytest.raises(FedicaError):
        make_certificates(tmp_path / "certs", clients, host="127.0.0.1")


def test_two_files_of_one_key_are_refused(certs):
    """A node key stands for one client."""
    shutil.copy(certs.nodes / "a.pub", certs.nodes / "z.pub")
    with pytest.raises(FedicaError, match="stands for one client"):
        read_node_keys(certs.nodes)


def test_the_app_folder_explains_every_setting_and_holds_nothing_else(folder):
    """Every run-config key has a comment above it and its default; only this page is sent to clients."""
    text = (folder / "app" / "pyproject.toml").read_text()
    config = tomllib.loads(text)["tool"]["flwr"]["app"]["config"]
    settings = make_settings(config, RunSettings)
    assert set(config) == {name.replace("_", "-") for name in RunSettings.__dataclass_fields__}
    assert settings == RunSettings()
    lines = text.splitlines()
    for name in config:
        (place,) = [k for k, line in enumerate(lines) if line.startswith(f"{name} = ")]
        assert lines[place - 1].startswith("# ")
    assert [path.name for path in (folder / "app").iterdir()] == ["pyproject.toml"]


def test_flower_accepts_the_app_folder(folder):
    """Flower's own check of the page, which loads both apps."""
    config = pytest.importorskip("flwr.common.config")
    page = tomllib.loads((folder / "app" / "pyproject.toml").read_text())
    valid, errors, warnings = config.validate_config(page, True, folder / "app")
    assert (valid, errors, warnings) == (True, [], [])


def test_the_coordinators_and_clients_files_are_read_as_they_are_written(folder, certs):
    """The comments can be edited; what is there is valid."""
    coordinator = read_settings(folder / "coordinator" / "coordinator.toml", Coordinator)
    assert coordinator.results == folder / "coordinator" / "results"
    assert coordinator.node_keys == certs.nodes
    simulated = read_settings(folder / "coordinator" / "simulation.toml", Coordinator)
    assert simulated == replace(coordinator, signing_key=None, trust_keys=None, node_keys=None)
    assert sorted(path.stem for path in (folder / "clients").iterdir()) == ["a", "b"]
    policy = read_settings(folder / "clients" / "a.toml", Policy)
    assert (policy.max_components, policy.min_samples) == (20, 1000)
    assert policy.signing_key == folder / "clients" / "signing" / "a.key"
    assert coordinator.trust_keys == certs.signing
    assert read_signing_key(coordinator.signing_key).public == policy.coordinator_key


def test_a_study_sets_the_limits_of_the_policies(certs, tmp_path):
    """Its components and samples, and its file's name."""
    write_study(Study("s", ["x", "y", "z"], n_components=2, min_samples=77), tmp_path / "study.json")
    federation = Federation("host.example.org", 1, 2, certs.folder)
    write_federation(tmp_path / "federation", federation, study=tmp_path / "study.json")
    policy = read_settings(tmp_path / "federation" / "clients" / "a.toml", Policy)
    assert (policy.max_components, policy.min_samples) == (2, 77)
    assert policy.study == tmp_path / "federation" / "clients" / "study.json"
    coordinator = read_settings(tmp_path / "federation" / "coordinator" / "coordinator.toml", Coordinator)
    assert coordinator.study == tmp_path / "study.json"


@pytest.mark.parametrize("host", ['a"; return 200; #', "a b", "", "a$b", "a;b", "a{b"])
def test_a_host_that_would_change_the_configuration_is_refused(certs, host):
    """Nginx's file is written with nothing that its grammar could take for more than a name."""
    with pytest.raises(FedicaError):
        Federation(host, 8443, 8000, certs.folder)


def test_nginx_accepts_its_configuration(nginx, folder):
    """Its own check."""
    command = [nginx, "-t", "-p", str(folder / "proxy"), "-c", "nginx.conf"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr


def test_nothing_is_overwritten(folder, certs):
    """A folder that holds anything is left alone."""
    with pytest.raises(InputError, match="not empty"):
        write_federation(folder, Federation("127.0.0.1", 1, 2, certs.folder))


def test_processes_are_started_with_options_that_flower_knows(folder, tmp_path):
    """Every option that fedica passes on stands in that program's own help."""
    pytest.importorskip("flwr")
    bin_folder = sys.executable.rpartition("/")[0]
    env = {"FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_TELEMETRY_ENABLED": "0", "PATH": bin_folder}
    federation = read_settings(folder / "federation.toml", Federation)
    client = Client("a", "host:8443", *(tmp_path / name for name in ("ca", "key", "data", "policy", "output")), 9094)
    shared = ["--superexec-auth-secret-file", "--isolation"]
    passed_on = {
        "flower-superlink": [
            *superlink_options(federation, folder),
            *superlink_options(federation, folder, simulation=True),
        ],
        "flower-supernode": [*client.options(), *shared],
    }
    for program_name, options in passed_on.items():
        command = [f"{bin_folder}/{program_name}", "--help"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=env).stdout
        assert [x for x in options if x.startswith("--") and x not in shown] == []


def test_the_commands_of_fedica_take_the_options_that_are_shown(folder):
    """Every option of a line that starts with fedica stands in that command's own help."""
    lines = [shlex.split(line) for _title, lines in commands(folder) for line in lines if line.startswith("fedica ")]
    assert {words[2] for words in lines} == {"superlink", "add", "client", "run"}
    for words in lines:
        shown = CliRunner().invoke(program, [*words[1:3], "--help"]).output
        assert [x for x in words if x.startswith("--") and x not in shown] == []


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_an_app_has_the_same_fingerprint_before_and_after_flower_bundles_it(folder):
    """Flower writes the page anew; what it says counts. The policies name it."""
    build = pytest.importorskip("flwr.cli.build")
    page = (folder / "app" / "pyproject.toml").read_bytes()
    bundle = build.build_fab_from_disk(folder / "app")
    assert bundle_fingerprint(bundle) == (page_fingerprint(page), "fedica/fedica-app", __version__)
    assert read_settings(folder / "clients" / "a.toml", Policy).apps == (page_fingerprint(page),)


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
@pytest.mark.parametrize("change", ["a module", "another component", "another default"])
def test_another_app_has_another_fingerprint(folder, change):
    """Whatever differs from fedica's page, or stands beside it."""
    build = pytest.importorskip("flwr.cli.build")
    page = folder / "app" / "pyproject.toml"
    known, text = page_fingerprint(page.read_bytes()), page.read_text()
    if change == "a module":
        (folder / "app" / "more.py").write_text("")
        with pytest.raises(FedicaError, match="alone"):
            bundle_fingerprint(build.build_fab_from_disk(folder / "app"))
        return
    new = ("client_app:app", "server_app:app") if change == "another component" else ("affinity = ", "affinities = ")
    assert new[0] in text
    page.write_text(text.replace(*new))
    assert bundle_fingerprint(build.build_fab_from_disk(folder / "app"))[0] != known


def test_the_page_on_deployment_names_options_and_files_that_exist(folder, certs):
    """docs/deploy.md: every option stands in a command that is shown, every file of the federation is written."""
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    lines = [line for _title, lines in commands(folder) for line in lines]
    shown = set(re.findall(r"--[a-z-]+", " ".join(lines)))
    for block in re.findall(r"```\n((?:nginx|fedica flower (?:superlink|client)|flwr).*?)```", page, flags=re.DOTALL):
        assert set(re.findall(r"(?<= )--[a-z-]+", block)) <= shown
    for name in re.findall(r"`(certs/[a-z./-]+|federation/[a-z./-]+)`", page):
        assert (folder.parent / name).exists() or "results/" in name, name


def test_the_three_commands_work_together(tmp_path):
    """certs, new, up: as text and as JSON; a second new is refused with a sentence."""
    run = CliRunner()
    certs, target = str(tmp_path / "certs"), str(tmp_path / "federation")
    made = run.invoke(program, ["flower", "certs", certs, "--clients", "a, b", "--host", "localhost", "--json"])
    assert made.exit_code == 0, made.output
    assert len(json.loads(made.stdout)["keys"]) == 2
    new = ["flower", "new", target, "--certs", certs, "--host", "localhost"]
    assert "nginx.conf" in run.invoke(program, new).output
    shown = run.invoke(program, ["flower", "up", target])
    assert shown.exit_code == 0
    assert "fedica flower client a --server localhost:8443" in shown.stdout
    again = run.invoke(program, new)
    assert again.exit_code == 1
    assert "not empty" in again.output


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("max-components = 'three'\nmin-samples = 2\n", "a whole number"),
        ("max-components = true\nmin-samples = 2\n", "a whole number"),
        ("max-components = 3\nmin-samples = 1\n", "min-samples"),
        ("max-components = 3\nmin-samples = 2\nmax-seconds = 0\n", "max-seconds"),
        ("max-components = 3\nmin-samples = 2\nstudy = 7\n", "a path"),
        ("max-components 3", "not TOML"),
    ],
)
def test_a_policy_with_a_mistake_is_refused_with_its_file_and_what_was_wanted(text, wrong, tmp_path):
    """Never guessed: a client whose policy cannot be read sends nothing."""
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(FedicaError, match=wrong):
        read_settings(tmp_path / "policy.toml", Policy)


def test_a_node_config_must_be_complete(tmp_path):
    """What is missing is named."""
    with pytest.raises(FedicaError, match="'policy' is missing"):
        read_node({"client": "a", "data": str(tmp_path / "x.npy"), "output": str(tmp_path)})
    with pytest.raises(FedicaError, match="no setting 'polcy'"):
        read_node({"client": "a", "data": "x.npy", "output": "o", "polcy": "p"})


def test_in_a_simulation_a_client_is_the_file_of_its_number(tmp_path, monkeypatch):
    """In the order of their names; one number too many is refused."""
    for name in ("b.npy", "a.csv", "policy.toml"):
        (tmp_path / name).write_text("")
    monkeypatch.setenv("FEDICA_SIMULATION", str(tmp_path))
    assert [read_node({"partition-id": k, "num-partitions": 2}).client for k in range(2)] == ["a", "b"]
    with pytest.raises(FedicaError, match="there are 2 files"):
        read_node({"partition-id": 2, "num-partitions": 3})


def test_a_simulation_keeps_ray_on_loopback_and_its_coordinator_asks_for_no_keys(folder, monkeypatch):
    """By the environment that the SuperLink and all that it starts have."""
    pytest.importorskip("flwr")
    from fedica.flower import superlink

    seen = {}
    monkeypatch.setattr(superlink, "main", lambda *_arguments, **_options: seen.update(os.environ))
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", dict(os.environ))
        run_superlink(folder, simulation=True)
    assert seen["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert seen["FEDICA_COORDINATOR"] == str(folder / "coordinator" / "simulation.toml")

"""Services of systemd, and containers: what ``fedica flower new`` writes for those who run a federation by them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml
from confined import read_unit
from typer.testing import CliRunner

from fedica.cli import app as program
from fedica.flower.certs import make_certificates
from fedica.flower.commands import commands
from fedica.flower.scaffold import Federation, write_federation
from fedica.flower.settings import read_settings
from fedica.version import __version__

SERVICES = ["fedica-superlink", "fedica-proxy", "fedica-client@"]
CLOSED = """
    NoNewPrivileges PrivateTmp PrivateDevices PrivateIPC PrivateMounts PrivateUsers ProtectClock ProtectControlGroups
    ProtectHostname ProtectKernelLogs ProtectKernelModules ProtectKernelTunables RestrictNamespaces RestrictRealtime
    RestrictSUIDSGID RemoveIPC LockPersonality MemoryDenyWriteExecute
"""
CLOSED_SO = {
    "UMask": ["0077"],
    "CapabilityBoundingSet": [""],
    "AmbientCapabilities": [""],
    "ProtectSystem": ["strict"],
    "ProtectProc": ["invisible"],
    "RestrictAddressFamilies": ["AF_INET AF_INET6 AF_UNIX"],
    "SystemCallArchitectures": ["native"],
    "SystemCallFilter": ["@system-service", "~@privileged @resources"],
    "KeyringMode": ["private"],
    "LimitCORE": ["0"],
} | {name: ["yes"] for name in CLOSED.split()}
MAX_EXPOSURE = 1.5
"""Of ten, by the count of systemd-analyze; 0.5 of it for the network, which all of them need."""


def write(folder, port=8443, name="federation"):
    """Write a federation; returns its folder."""
    certs = make_certificates(folder / "certs", ["a", "b"], host="127.0.0.1")
    write_federation(folder / name, Federation("127.0.0.1", port, 8000, certs.folder))
    return folder / name


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path)


def page_of(folder, name):
    """The file of a service."""
    return folder / "systemd" / f"{name}.service"


@pytest.mark.parametrize("name", SERVICES)
def test_services_run_as_users_of_their_own_and_write_where_they_must(folder, name):
    """Their commands and folders exist, and they are started again, with a limit."""
    unit = read_unit(page_of(folder, name))
    assert unit["Restart"] == ["on-failure"]
    assert unit["User"][0] in ("fedica", "fedica-proxy")
    assert int(unit["StartLimitBurst"][0]) > 0
    words = shlex.split(unit["ExecStart"][0])
    if name == "fedica-proxy":
        assert words[1:5] == ["-p", f"/var/lib/{unit['StateDirectory'][0]}", "-c", "nginx.conf"]
        copied = [Path(word) for word in shlex.split(unit["ExecStartPre"][0]) if word.startswith(str(folder))]
        assert sorted(copied) == sorted((folder / "proxy").iterdir())
    else:
        shown = CliRunner().invoke(program, [*words[1:3], "--help"]).output
        assert [x for x in words if x.startswith("--") and x not in shown] == []
    assert all(Path(path).is_dir() for path in unit.get("ReadWritePaths", []))
    assert ("ReadWritePaths" in unit) != ("StateDirectory" in unit)


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_closed(folder, name):
    """Whoever takes one over has no rights, and few system calls; that they work so, test_users.py shows."""
    unit = read_unit(page_of(folder, name))
    assert {key: unit.get(key) for key in CLOSED_SO} == CLOSED_SO
    assert unit["ProtectHome"][0] in ("yes", "read-only")
    assert (unit.get("IPAddressDeny"), unit.get("IPAddressAllow")) == (
        (["any"], ["localhost"]) if name == "fedica-superlink" else (None, None)
    )


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(("port", "target"), [(8443, "federation"), (443, "100% of us")])
def test_systemd_accepts_the_services_and_calls_them_closed(tmp_path, systemd_analyze, request, name, port, target):
    """By its own checks, also where a path has to be quoted and the proxy needs the right to a low port."""
    if name == "fedica-proxy":
        request.getfixturevalue("nginx")  # systemd wants to see the program that a service starts
    page = page_of(write(tmp_path, port, target), name)
    said = subprocess.run([systemd_analyze, "verify", page], capture_output=True, text=True, timeout=600, check=False)
    assert page.name not in said.stderr, said.stderr
    command = [systemd_analyze, "security", "--offline=yes", "--no-pager", page]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    assert float(re.search(r"exposure level for \S+: ([0-9.]+)", shown)[1]) <= MAX_EXPOSURE


def test_a_proxy_on_a_low_port_has_the_right_to_it_and_no_other_one(tmp_path):
    """It runs as a user of its own from the start."""
    folder = write(tmp_path, 443)
    unit = read_unit(page_of(folder, "fedica-proxy"))
    assert unit["CapabilityBoundingSet"] == unit["AmbientCapabilities"] == ["CAP_NET_BIND_SERVICE"]
    assert unit["PrivateUsers"] == ["no"]  # rights in a name space of users are none on the machine's ports
    assert read_unit(page_of(folder, "fedica-superlink"))["AmbientCapabilities"] == [""]


def test_a_client_that_starts_while_the_coordinator_is_away_is_started_again_for_half_a_day(folder):
    """Nobody has to go there when the coordinator is back; a limit there is nevertheless."""
    unit = (folder / "systemd" / "fedica-client@.service").read_text()
    values = {name: int(value) for name, value in re.findall(r"^([A-Za-z]+)=(\d+)$", unit, flags=re.MULTILINE)}
    assert values["RestartSec"] * values["StartLimitBurst"] >= 12 * 3600
    assert values["StartLimitIntervalSec"] >= values["RestartSec"] * values["StartLimitBurst"]
    policy, _, most = composed(folder, "compose.client.yaml")["client"]["restart"].partition(":")
    assert (policy, int(most)) == ("on-failure", values["StartLimitBurst"])


def composed(folder, name):
    """The services of a compose file."""
    return yaml.safe_load((folder / "container" / name).read_text())["services"]


def test_containers_run_the_commands_that_are_shown(folder):
    """The image's ENTRYPOINT and each service's command are lines of ``fedica flower up``; logs have a limit."""
    lines = [shlex.split(line) for _, lines in commands(folder) for line in lines]
    image = (folder / "container" / "Containerfile").read_text().splitlines()
    entrypoint = json.loads(next(x for x in image if x.startswith("ENTRYPOINT")).partition(" ")[2])
    coordinator, client = composed(folder, "compose.yaml"), composed(folder, "compose.client.yaml")["client"]
    assert entrypoint + coordinator["superlink"]["command"] in lines
    *shell, script = coordinator["proxy"]["entrypoint"]
    umask, proxy = script.split(" && exec ")
    assert shell == ["sh", "-c"]
    assert shlex.split(umask) in lines
    assert shlex.split(proxy)[:5] in lines
    shown = next(line for line in lines if line[:3] == ["fedica", "flower", "client"])
    assert entrypoint + client["command"][:1] == shown[:3]
    assert {x.partition("=")[0] for x in client["command"][2:]} == {x for x in shown if x.startswith("--")}
    assert client["command"][2] == f"--server={shown[shown.index('--server') + 1]}"
    for service in (*coordinator.values(), client):
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["logging"]["options"]["max-size"] == "10m"


def test_the_image_installs_this_version_and_the_proxy_is_in_the_network_of_the_superlink(folder):
    """The extra that it names exists; ports are the federation's; what is mounted is there."""
    image = (folder / "container" / "Containerfile").read_text()
    assert f"'fedica[flower]=={__version__}'" in image
    assert "flower" in metadata("fedica").get_all("Provides-Extra")
    assert image.splitlines()[-2:] == ["USER fedica", 'ENTRYPOINT ["fedica", "flower"]']
    assert (folder / "container" / "wheels").is_dir()
    sent = [x for x in (folder / "container" / ".dockerignore").read_text().splitlines() if not x.startswith("#")]
    assert sent == ["*", "!Containerfile", "!wheels"]  # no keys, which a client has beside it
    services = composed(folder, "compose.yaml")
    assert services["proxy"]["network_mode"] == "service:superlink"
    assert services["proxy"]["depends_on"] == {"superlink": {"condition": "service_healthy"}}
    federation = read_settings(folder / "federation.toml", Federation)
    assert services["superlink"]["ports"][0].endswith(f":{federation.port}")
    for service in services.values():
        for volume in service["volumes"]:
            inside, outside = volume.split(":")[:2]
            assert inside == outside
            assert Path(outside).is_dir()


def test_the_logs_of_the_proxy_are_rotated(folder):
    """All of them, in the folder of the service, by the user who owns them; the proxy is told to open them again."""
    said = (folder / "systemd" / "fedica-proxy.logrotate").read_text()
    assert "/var/lib/fedica-proxy/*.log {" in said
    assert 'kill -USR1 "$(cat /var/lib/fedica-proxy/nginx.pid)"' in said
    assert "StateDirectory=fedica-proxy" in (folder / "systemd" / "fedica-proxy.service").read_text()
    logs = re.findall(r"(?:access|error)_log (\S+)", (folder / "proxy" / "nginx.conf").read_text())
    assert {log.rstrip(";").rpartition(".")[2] for log in logs} == {"log"}

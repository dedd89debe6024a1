"""The coordinator's requests to its own SuperLink: who is connected, keys, and runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from flwr.cli.build import build_fab_from_disk
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.error import FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fedica.arrays import PathLike
from fedica.errors import FedicaError, InputError
from fedica.exchange import file_name
from fedica.exchange.files import sha256
from fedica.exchange.intake import SUFFIX
from fedica.flower.certs import Certificates
from fedica.flower.coordinator import Coordinator, parse_run_settings, read_node_keys
from fedica.flower.finish import last_carrier, read_run
from fedica.flower.scaffold import Federation
from fedica.flower.settings import read_settings

_POLL = 1.0


@dataclass(frozen=True)
class Member:
    """A registered client as the coordinator sees it; times are in UTC, "" where there is none."""

    client: str
    node: str  # the last four digits of its number
    online: bool
    last_seen: str
    last_contribution: str


class Control:
    """Requests to the SuperLink of the federation in ``folder``; only the user who runs it is answered."""

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder).resolve()
        self.federation = read_settings(self.folder / "federation.toml", Federation)
        self.certificates = Certificates(self.federation.certs.resolve())
        self.coordinator = read_settings(self.folder / "coordinator" / "coordinator.toml", Coordinator)

    def members(self) -> list[Member]:
        """Return every client whose node key the coordinator has, by name."""
        nodes = self._nodes()
        return [
            self._member(client, nodes.get(key)) for key, client in sorted(self._keys().items(), key=lambda x: x[1])
        ]

    def register(self, client: str) -> None:
        """Make a client's key known to the SuperLink."""
        keys = {name: key for key, name in self._keys().items()}
        with self._calling() as call:
            call.RegisterNode(RegisterNodeRequest(public_key=keys[client]))

    def unregister(self, client: str) -> None:
        """Let the SuperLink forget a client's key; the client is cut off at once."""
        nodes = self._nodes()
        for key, name in self._keys().items():
            if name == client and key in nodes:
                with self._calling() as call:
                    call.UnregisterNode(UnregisterNodeRequest(node_id=nodes[key].node_id))

    def start_run(self, settings: str = "") -> int:
        """Submit a run of fedica's app, with settings as for ``flwr run --run-config``; return its number."""
        chosen = parse_run_settings(settings)
        bundle = build_fab_from_disk(self.folder / "app")
        request = StartRunRequest(
            fab=fab_to_proto(Fab(sha256(bundle), bundle, {})),
            override_config=user_config_to_proto(chosen),
        )
        with self._calling() as call:
            return int(call.StartRun(request).run_id)

    def resume(self, folder: Path) -> int:
        """Submit a run that finishes the interrupted one of this folder; return its number.

        Flower takes a run whose processes were killed for running for a while: it is stopped first.
        """
        read_run(folder)
        before = last_carrier(folder)
        with self._calling() as call:
            known = call.ListRuns(ListRunsRequest()).run_dict
            if before in known and known[before].status.status != "finished":
                call.StopRun(StopRunRequest(run_id=before))
        return self.start_run(f'resume="{folder.name}"')

    def follow(self, run_id: int, tell: Callable[[str], None], folder: Path | None = None) -> Path:
        """Wait until a run is over; return its folder, or raise an error that says why it failed.

        folder : of the run that it resumes, if it does.
        """
        folder, before = folder or self.coordinator.results / f"run-{run_id}", -1
        while True:
            with self._calling() as call:
                status = call.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id].status
            arrived = len(list((folder / "inbox").glob(f"*{SUFFIX}")))
            if arrived > before:
                tell(f"run {run_id}: {arrived} contributions")
                before = arrived
            if status.status == "finished":
                break
            time.sleep(_POLL)
        if status.sub_status != "completed":
            told = folder / "failure.txt"
            reason = told.read_text(encoding="utf-8") if told.is_file() else status.details or status.sub_status
            table = folder / "rejected.csv"
            some = table.is_file() and len(table.read_bytes().splitlines()) > 1  # below its heading
            named = f" Who was left out: {table}" if some else ""
            raise FedicaError(f"run {run_id} failed: {' '.join(reason.split())}{named}")
        return folder

    def _keys(self) -> dict[bytes, str]:
        return read_node_keys(self.certificates.nodes)

    def _nodes(self) -> Mapping[bytes, NodeInfo]:
        with self._calling() as call:
            nodes = call.ListNodes(ListNodesRequest()).nodes_info
        return {node.public_key: node for node in nodes if not node.unregistered_at}

    def _member(self, client: str, node: NodeInfo | None) -> Member:
        if node is None:
            return Member(client, "", False, "", self._last_contribution(client))
        online = node.status == "online"
        seen = datetime.now(UTC).isoformat() if online else node.last_deactivated_at or node.last_activated_at
        return Member(client, f"{node.node_id % 10_000:04d}", online, _minute(seen), self._last_contribution(client))

    def _last_contribution(self, client: str) -> str:
        files = list(self.coordinator.results.glob(f"run-*/inbox/{file_name(client)}{SUFFIX}"))
        last = max((path.stat().st_mtime for path in files), default=None)
        return "" if last is None else _minute(datetime.fromtimestamp(last, UTC).isoformat())

    @contextmanager
    def _calling(self) -> Iterator[Any]:
        """Give a connection; what fails on it is one sentence."""
        address = f"127.0.0.1:{self.federation.superlink_port}"
        certificate = self.certificates.inner_ca.read_bytes()
        interceptors = [RuntimeVersionHttpInterceptor(component_name="fedica")]
        try:
            with ControlHttpClient.from_server_address(address, False, certificate, interceptors) as client:
                yield client
        except httpx.HTTPStatusError as error:
            said = FlowerError.from_json(error.response.text)
            if said is None and error.response.status_code == 404:
                raise InputError(f"the SuperLink on {address} answers only the user who started it.") from error
            raise InputError(f"the SuperLink refused it: {said.message if said else error}") from error
        except httpx.HTTPError as error:
            raise InputError(
                f"the SuperLink on {address} cannot be reached ({error}). "
                f"Start it: fedica flower superlink {self.folder}"
            ) from error


def _minute(text: str) -> str:
    """Return a time as it is shown: to the minute, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M") if text else ""

"""From the inbox of a run to its result: what the server's app does once the answers are in, and what resumes a run.

A run's folder holds ``run.json``, its settings, from its start, and ``nonces.json`` before anybody is asked; every
answer stands in the inbox from the moment it arrives. So a run whose processes were killed is finished from its folder,
with the same bytes: by another run of Flower, which asks the clients whose answers are missing, or without the clients.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedica.arrays import PathLike
from fedica.errors import FedicaError, InputError
from fedica.exchange import as_study, file_name, read_contributions, read_folder
from fedica.exchange.files import PRIVATE, read_bounded, sha256, write_atomic
from fedica.flower.coordinator import Coordinator, RunSettings, read_node_keys
from fedica.flower.reception import check_any_sent, read_inbox, rejected_on_failure
from fedica.records import Rejection
from fedica.workflow import Combined, combine

_RUN, _NONCES = "run.json", "nonces.json"
_MAX_RUN = 64 * 1024
_MAX_NONCES = 64 * 2**20
NOT_APPLIED = "not-applied.csv"
"""The last file of a run: the clients that did not apply the aggregate."""


def write_run(folder: Path, run: RunSettings) -> None:
    """Write the settings of a run to its folder."""
    write_atomic(folder / _RUN, [json.dumps(asdict(run), indent=1).encode()], mode=PRIVATE)


def combine_inbox(folder: Path, run: RunSettings, coordinator: Coordinator) -> Combined:
    """Aggregate what a run's inbox holds as ``fedica aggregate`` does; if that is refused, write rejected.csv."""
    files, failed = read_inbox(folder / "inbox")
    failed += absent_clients(coordinator, files, failed)
    settings: dict[str, Any] = {
        "n_components": run.components or None,
        "method": run.method,
        "affinity": run.affinity,
        "weights": run.weights or None,
        "random_state": run.random_state,
        "trust_keys": coordinator.trust_keys,
        "study": as_study(coordinator.study),
        "min_support": coordinator.min_support,
        "failed": failed,
    }
    min_clients = max(run.min_clients, coordinator.min_clients)
    gates: dict[str, Any] = {"min_clients": min_clients, "fail_on": run.fail_on or None, "require_all": run.require_all}
    with rejected_on_failure(folder, lambda: _left_out(files, failed, settings)):
        check_any_sent(files, failed, "a contribution")
        return combine(files, folder / "result", **settings, **gates)


def absent_clients(
    coordinator: Coordinator, files: Iterable[Path] = (), failed: Iterable[Rejection] = ()
) -> list[Rejection]:
    """Return a rejection for every registered client of which there is neither a file nor a failure, by its name."""
    if coordinator.node_keys is None:
        return []
    sent, named = {path.stem for path in files}, {rejection.client for rejection in failed}
    registered = sorted(read_node_keys(coordinator.node_keys).values())
    missing = [name for name in registered if file_name(name) not in sent and name not in named]
    return [Rejection.because(name, "absent") for name in missing]


def read_result(folder: Path) -> Combined | None:
    """Return the result that stands in a folder, if there is one."""
    return Combined(read_folder(folder).aggregate, path=str(folder)) if folder.exists() else None


def read_run(folder: Path) -> RunSettings:
    """Return the settings of a run that is to be finished, from its folder."""
    if not (folder / _RUN).is_file():
        raise InputError(f"{folder}: there is no {_RUN} here. Give the folder of a run: coordinator/results/run-N.")
    if (folder / NOT_APPLIED).exists():
        raise InputError(f"{folder}: this run is over. There is nothing to resume.")
    return RunSettings(**json.loads(read_bounded(folder / _RUN, limit=_MAX_RUN, what="the settings of a run")))


def finish_without_clients(run_folder: PathLike, coordinator: Coordinator) -> Combined:
    """Aggregate the answers of an interrupted run that arrived; nobody is asked, and nothing goes back."""
    folder = Path(run_folder)
    run = read_run(folder)
    if (folder / "result").exists():
        raise InputError(f"{folder / 'result'}: this run has its result. There is nothing to resume without clients.")
    return combine_inbox(folder, run, coordinator)


def keep_nonces(folder: Path, carrier: int, nodes: Iterable[int]) -> dict[int, str]:
    """Return the nonce of each node: that of the run's folder, or a new one.

    They are on disk before anybody is asked: whoever resumes the run needs them. carrier : the run of Flower that works
    in this folder now.
    """
    before = _read_nonces(folder).get("nonces", {})
    names = {node: sha256(str(node).encode()) for node in nodes}  # no file tells the number of a node
    nonces = {node: before.get(name) or secrets.token_hex(16) for node, name in names.items()}
    kept = {"carrier": carrier, "nonces": before | {names[node]: nonce for node, nonce in nonces.items()}}
    write_atomic(folder / _NONCES, [json.dumps(kept).encode()], mode=PRIVATE)
    return nonces


def run_of(folder: Path) -> int:
    """Return the number of the run that a folder belongs to."""
    return int(folder.name.split("-")[1])


def last_carrier(folder: Path) -> int:
    """Return the run of Flower that worked last in a run's folder."""
    return int(_read_nonces(folder).get("carrier", run_of(folder)))


def _read_nonces(folder: Path) -> dict[str, Any]:
    path = folder / _NONCES
    if not path.is_file():
        return {}
    said: dict[str, Any] = json.loads(read_bounded(path, limit=_MAX_NONCES, what="the nonces of a run"))
    return said


def _left_out(files: list[Path], failed: list[Rejection], settings: dict[str, Any]) -> Iterable[Rejection]:
    """Return the clients that would be left out if the conditions on the result were not checked."""
    try:
        return combine(files, None, **settings, min_clients=1).aggregate.rejected
    except FedicaError:
        return [*failed, *(item for item in read_contributions(files) if isinstance(item, Rejection))]

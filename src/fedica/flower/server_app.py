"""The coordinator's side of the Flower app: ask every client, aggregate the replies, send the public part back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from logging import INFO, WARNING
from pathlib import Path

from flwr.app import Context
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from fedica.errors import FedicaError
from fedica.exchange import PublicAggregate, aggregate_to_bytes, as_signing_key, as_study, public_part, published
from fedica.exchange.files import PRIVATE, make_private_folder, write_atomic
from fedica.exchange.intake import UNKNOWN_CLIENT
from fedica.exchange.tables import rejections_table
from fedica.flower import messages
from fedica.flower.collect import Answer, wait_for_nodes
from fedica.flower.coordinator import Coordinator, RunSettings, read_coordinator, read_node_keys, read_run_settings
from fedica.flower.finish import (
    NOT_APPLIED,
    absent_clients,
    combine_inbox,
    keep_nonces,
    read_result,
    read_run,
    run_of,
    write_run,
)
from fedica.flower.fleet import Fleet, ask_into, clients_of_nodes
from fedica.flower.reception import Inbox, describe_refusal, rejected_on_failure
from fedica.flower.rounds import refine_in_rounds
from fedica.records import Rejection
from fedica.workflow import Combined

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one federation, from the request to the result folder and back to the clients, or finish one."""
    run, coordinator = read_run_settings(context.run_config), read_coordinator()
    if run.resume:
        folder = coordinator.results / run.resume
        run = replace(read_run(folder), resume=run.resume)
    else:
        folder = _new_folder(coordinator.results, context.run_id)
        write_run(folder, run)
    for name in ("failure.txt", "rejected.csv"):
        (folder / name).unlink(missing_ok=True)
    try:
        fleet = _find_clients(grid, context.run_id, run, coordinator, folder)
        combined = read_result(folder / "result") or _first_round(fleet, run, coordinator, folder)
        _finish(combined, fleet, run, coordinator, folder)
    except FedicaError as error:
        write_atomic(folder / "failure.txt", [f"{error}\n".encode()], mode=PRIVATE)
        raise


def _find_clients(grid: Grid, run_id: int, run: RunSettings, coordinator: Coordinator, folder: Path) -> Fleet:
    """Wait for the clients; those of a resumed run that are not there are asked for nothing."""
    min_clients = 0 if run.resume else max(run.min_clients, coordinator.min_clients)
    registered = read_node_keys(coordinator.node_keys) if coordinator.node_keys else {}
    with rejected_on_failure(folder, lambda: _not_connected(grid, coordinator, registered)):
        expected = run.expect_clients or len(registered)
        nodes = wait_for_nodes(grid, min_nodes=min_clients, expected=expected, seconds=run.wait_seconds)
    clients = {node: client for node, client in clients_of_nodes(grid, registered).items() if node in nodes}
    nonces = keep_nonces(folder, run_id, nodes)
    resumes = run_of(folder) if run.resume else 0
    return Fleet(grid, run_id, nodes, clients, nonces, as_signing_key(coordinator.signing_key), resumes)


def _first_round(fleet: Fleet, run: RunSettings, coordinator: Coordinator, folder: Path) -> Combined:
    """Ask for contributions, and aggregate them."""
    study = as_study(coordinator.study)
    log(INFO, "fedica: asking %d clients; results go to %s", len(fleet.nodes), folder)
    request = messages.pack_fields(messages.REQUEST, {"components": run.components, "study": study.id if study else ""})
    inbox = Inbox(folder / "inbox", messages.CONTRIBUTION, fleet.clients)
    ask_into(inbox, fleet, request, messages.CONTRIBUTION_TYPE, run.deadline_seconds)
    combined = combine_inbox(folder, run, coordinator)
    for failure in combined.aggregate.rejected:
        log(WARNING, "fedica: client %r: %s", failure.client, failure.reason)
    for note in combined.notes:
        log(INFO, "fedica: %s", note)
    counts = len(combined.aggregate.clients), len(combined.aggregate.rejected)
    log(INFO, "fedica: %d clients aggregated, %d left out: %s", *counts, combined.path)
    return combined


def _finish(first: Combined, fleet: Fleet, run: RunSettings, coordinator: Coordinator, folder: Path) -> None:
    """Refine the first result in further rounds, if the run has any, and send the last one back to the clients."""
    if not published(first.aggregate, coordinator.min_support).any():
        log(WARNING, "fedica: nothing goes back to the clients; min-support in the coordinator's settings decides")
        return
    inbox = Inbox(folder / "inbox", messages.CONTRIBUTION, fleet.clients)
    fleet.answered.update(node for node in fleet.nodes if inbox.has(node, sent=True))
    min_clients = max(run.min_clients, coordinator.min_clients)
    combined = refine_in_rounds(first, folder, fleet, run, coordinator, min_clients)
    public = public_part(combined.aggregate, min_support=coordinator.min_support)
    n_answered = len(fleet.answered)
    not_applied = _return_aggregate(fleet, public, run)
    write_atomic(folder / NOT_APPLIED, [rejections_table(not_applied)], mode=PRIVATE)
    log(INFO, "fedica: %d of %d clients applied the aggregate", n_answered - len(not_applied), n_answered)


def _return_aggregate(fleet: Fleet, public: PublicAggregate, run: RunSettings) -> list[Rejection]:
    """Send the public aggregate to the nodes that answered; return the clients that did not apply it, and why."""
    content = messages.pack_file(messages.AGGREGATE, aggregate_to_bytes(public))
    returned = fleet.ask(content, messages.AGGREGATE_TYPE, run.return_seconds, nodes=sorted(fleet.answered))
    reasons = [_reason_not_applied(answer, fleet.clients.get(answer.node)) for answer in returned]
    return [reason for reason in reasons if reason is not None]


def _new_folder(results: Path, run_id: int) -> Path:
    """Make the run's own folder; a run that Flower starts again gets another folder."""
    make_private_folder(results)
    for attempt in range(1, 1000):
        folder = results / (f"run-{run_id}" if attempt == 1 else f"run-{run_id}-{attempt}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise FedicaError(f"{results}: it holds 999 folders of run {run_id}. Remove some of them.")


def _not_connected(grid: Grid, coordinator: Coordinator, registered: Mapping[bytes, str]) -> list[Rejection]:
    connected = set(clients_of_nodes(grid, registered).values())
    return [rejection for rejection in absent_clients(coordinator) if rejection.client not in connected]


def _reason_not_applied(answer: Answer, owner: str | None) -> Rejection | None:
    """Return why a client did not apply the aggregate, or ``None`` if it did."""
    node, name = answer.node_digits, owner or UNKNOWN_CLIENT
    source = f"node {node}"
    if answer.message is None:
        return Rejection.because(name, "no-answer", source, node=node, problem=answer.reason)
    refusal = messages.unpack_fields(answer.message.content, messages.REFUSAL)
    if refusal is not None:
        problem, client = describe_refusal(refusal, owner)
        return Rejection.because(client or name, "refused", source, node=node, problem=problem)
    if messages.unpack_fields(answer.message.content, messages.APPLIED) != {"done": True}:
        return Rejection.because(name, "other-answer", source, node=node)
    return None

"""The coordinator's side of the Flower app: ask every client once, aggregate the replies, send the public part back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from fedica.errors import FedicaError, InputError
from fedica.exchange import PublicAggregate, aggregate_to_bytes, as_study, public_part, published, read_contributions
from fedica.exchange.files import PRIVATE, write_atomic
from fedica.exchange.intake import UNKNOWN_CLIENT
from fedica.exchange.tables import rejections_table
from fedica.flower import messages
from fedica.flower.collect import Answer, collect, wait_for_nodes
from fedica.flower.coordinator import Coordinator, RunSettings, read_coordinator, read_node_keys, read_run_settings
from fedica.flower.reception import describe_refusal, receive_answers
from fedica.records import Rejection, Study
from fedica.workflow import Combined, combine

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one federation, from the request to the result folder and back to the clients."""
    run, coordinator = read_run_settings(context.run_config), read_coordinator()
    study = as_study(coordinator.study)
    min_clients = max(run.min_clients, coordinator.min_clients)
    folder = _new_folder(coordinator.results, context.run_id)

    nodes = wait_for_nodes(grid, min_nodes=min_clients, expected=run.expect_clients, seconds=run.wait_seconds)
    clients = _clients_of_nodes(grid, coordinator)
    log(INFO, "fedica: asking %d clients; results go to %s", len(nodes), folder)
    request = messages.pack_fields(messages.REQUEST, {"components": run.components, "study": study.id if study else ""})
    answers = _ask(grid, nodes, request, messages.CONTRIBUTION_TYPE, run.deadline_seconds)
    files, failed = receive_answers(answers, folder / "inbox", clients=clients)
    for failure in failed:
        log(WARNING, "fedica: client %r: %s", failure.client, failure.reason)

    combined = _combine(files, failed, folder, run, coordinator, study, min_clients)
    for note in combined.notes:
        log(INFO, "fedica: %s", note)
    counts = len(combined.aggregate.clients), len(combined.aggregate.rejected)
    log(INFO, "fedica: %d clients aggregated, %d left out: %s", *counts, combined.path)

    answered = [answer.node for answer in answers if answer.message is not None]
    if not published(combined.aggregate, coordinator.min_support).any():
        log(WARNING, "fedica: nothing goes back to the clients; min-support in the coordinator's settings decides")
        return
    public = public_part(combined.aggregate, min_support=coordinator.min_support)
    not_applied = _return_aggregate(grid, answered, public, run, clients)
    write_atomic(folder / "not-applied.csv", [rejections_table(not_applied)], mode=PRIVATE)
    log(INFO, "fedica: %d of %d clients applied the aggregate", len(answered) - len(not_applied), len(answered))


def _return_aggregate(
    grid: Grid, nodes: list[int], public: PublicAggregate, run: RunSettings, clients: Mapping[int, str]
) -> list[Rejection]:
    """Send the public aggregate to the nodes; return the clients that did not apply it, with the reasons."""
    content = messages.pack_file(messages.AGGREGATE, aggregate_to_bytes(public))
    returned = _ask(grid, nodes, content, messages.AGGREGATE_TYPE, run.return_seconds)
    reasons = [_reason_not_applied(answer, clients.get(answer.node)) for answer in returned]
    return [reason for reason in reasons if reason is not None]


def _new_folder(results: Path, run_id: int) -> Path:
    """Make the run's own folder with an empty inbox; a run that Flower starts again gets another folder."""
    results.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, 1000):
        folder = results / (f"run-{run_id}" if attempt == 1 else f"run-{run_id}-{attempt}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        (folder / "inbox").mkdir()
        return folder
    raise FedicaError(f"{results}: it holds 999 folders of run {run_id}. Remove some of them.")


def _clients_of_nodes(grid: Grid, coordinator: Coordinator) -> dict[int, str]:
    """Return the client of every node whose key is known."""
    if coordinator.node_keys is None:
        return {}
    owners = read_node_keys(coordinator.node_keys)
    return {info.node_id: owners[info.public_key] for info in grid.get_nodes() if info.public_key in owners}


def _ask(grid: Grid, nodes: Iterable[int], content: RecordDict, message_type: str, seconds: float) -> list[Answer]:
    """Send the same content to every node, and collect the answers; messages expire at the deadline."""
    return collect(grid, [Message(content, node, message_type, ttl=seconds) for node in nodes], seconds=seconds)


def _combine(
    files: list[Path],
    failed: list[Rejection],
    folder: Path,
    run: RunSettings,
    coordinator: Coordinator,
    study: Study | None,
    min_clients: int,
) -> Combined:
    """Aggregate the files as ``fedica aggregate`` does; if the result is refused, write who failed to rejected.csv."""
    settings: dict[str, Any] = {
        "n_components": run.components or None,
        "method": run.method,
        "affinity": run.affinity,
        "weights": run.weights or None,
        "random_state": run.random_state,
        "trust_keys": coordinator.trust_keys,
        "study": study,
        "min_support": coordinator.min_support,
        "failed": failed,
    }
    gates: dict[str, Any] = {"min_clients": min_clients, "fail_on": run.fail_on or None, "require_all": run.require_all}
    try:
        if not files:
            raise InputError(
                f"no client sent a contribution; the first of {len(failed)} that failed is {failed[0].client!r}: "
                f"{failed[0].reason}"
            )
        return combine(files, folder / "result", **settings, **gates)
    except FedicaError:
        write_atomic(folder / "rejected.csv", [rejections_table(_left_out(files, failed, settings))], mode=PRIVATE)
        raise


def _left_out(files: list[Path], failed: list[Rejection], settings: dict[str, Any]) -> Iterable[Rejection]:
    """Return the clients that would be left out if the conditions on the result were not checked."""
    try:
        return combine(files, None, **settings, min_clients=1).aggregate.rejected
    except FedicaError:
        return [*failed, *(item for item in read_contributions(files) if isinstance(item, Rejection))]


def _reason_not_applied(answer: Answer, owner: str | None) -> Rejection | None:
    """Return why a client did not apply the aggregate, or ``None`` if it did."""
    source, name = f"node {answer.node}", owner or UNKNOWN_CLIENT
    if answer.message is None:
        return Rejection.because(name, "no-answer", source, node=answer.node, problem=answer.reason)
    refusal = messages.unpack_fields(answer.message.content, messages.REFUSAL)
    if refusal is not None:
        problem, client = describe_refusal(refusal, owner)
        return Rejection.because(client or name, "refused", source, node=answer.node, problem=problem)
    if messages.unpack_fields(answer.message.content, messages.APPLIED) != {"done": True}:
        return Rejection.because(name, "other-answer", source, node=answer.node)
    return None

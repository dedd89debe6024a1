"""A client's side of the Flower app: reply to requests with a contribution or scores, and to the aggregate with "done".

Errors are written to the client's own log in full. The server is told only the kind of error: a sentence with a path, a
column's name or a number of samples would disclose something about the data.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import ERROR, INFO
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log

from fedica.errors import DataError, FedicaError, FormatError, InputError, PolicyError
from fedica.exchange import PublicAggregate, aggregate_from_bytes, as_study
from fedica.exchange.files import PRIVATE, make_private_folder, write_atomic
from fedica.flower import messages
from fedica.flower.approval import wait_for_approval
from fedica.flower.envelope import Envelope, answer_with, digest_of, open_envelope, read_envelope
from fedica.flower.memory import RunMemory
from fedica.flower.policy import Node, Policy, read_node
from fedica.flower.settings import read_settings
from fedica.flower.watched import data_of_run
from fedica.records import Study
from fedica.text import counted
from fedica.workflow import Contributed, Scored, apply_global, contribute, send_scores

app = ClientApp()

Work = Callable[[RecordDict, int, Node, Policy], RecordDict]
"""From a request, the number of its run and the client's settings to the content of the answer."""


@app.train("contribution")
def contribution(message: Message, context: Context) -> Message:
    """Answer the first message: fit this client's data, and reply with its contribution."""
    return _reply(message, context, _contribute)


@app.train("scores")
def scores(message: Message, context: Context) -> Message:
    """Answer the request of a further round: score this client's data at the aggregate, and reply with the scores."""
    return _reply(message, context, _score)


@app.query("aggregate")
def aggregate(message: Message, context: Context) -> Message:
    """Answer the last message: apply the aggregate to this client's data, keep the sources, and confirm it."""
    return _reply(message, context, _apply)


def _contribute(content: RecordDict, run_id: int, node: Node, policy: Policy) -> RecordDict:
    n_components = _components_to_fit(content, as_study(policy.study), policy)
    return _pack(messages.CONTRIBUTION, contribute_by_policy(node, policy, n_components), run_id, node, policy)


def contribute_by_policy(node: Node, policy: Policy, n_components: int | None) -> Contributed:
    """Fit a client's data, and return what its policy lets leave."""
    sent = contribute(
        node.data,
        client=node.client,
        study=as_study(policy.study),
        n_components=n_components,
        solver=policy.solver,
        drop_missing=policy.drop_missing,
        min_samples=policy.min_samples,
        key=policy.signing_key,
        random_state=policy.random_state,
        options=policy.reading,
    )
    policy.check_components(sent.contribution.n_atoms)  # the rank of the data may have set the number
    return sent


def _components_to_fit(content: RecordDict, study: Study | None, policy: Policy) -> int | None:
    """Return how many components to fit: the policy's number, or the server's; ``None`` leaves it to the study."""
    fields = messages.unpack_fields(content, messages.REQUEST) or {}
    asked, of_study = fields.get("components"), fields.get("study")
    if type(asked) is not int or asked < 0 or not isinstance(of_study, str):
        raise FormatError("a request must name the study and the number of components; the server's does not.")
    if (study.id if study else "") != of_study:
        agreed = f"study {study.id!r}" if study else "no study"
        raise PolicyError(f"this client's policy names {agreed}; got a request for study {of_study[:200]!r}.")
    n_components = policy.components or asked or None
    if n_components is not None:
        policy.check_components(n_components)
    return n_components


def _score(content: RecordDict, run_id: int, node: Node, policy: Policy) -> RecordDict:
    public, _ = _keep_aggregate(content, run_id, node)
    policy.check_round(public.round + 1)
    policy.check_components(public.n_components)
    sent = send_scores(
        public,
        node.data,
        client=node.client,
        study=policy.study,
        drop_missing=policy.drop_missing,
        min_samples=policy.min_samples,
        key=policy.signing_key,
        options=policy.reading,
    )
    return _pack(messages.SCORES, sent, run_id, node, policy)


def _pack(kind: str, sent: Contributed | Scored, run_id: int, node: Node, policy: Policy) -> RecordDict:
    """Write to the client's log what leaves, ask a person if the policy says so, and return it."""
    for note in sent.notes:
        log(INFO, "fedica: %s", note)
    page = describe(sent)
    for line in page:
        log(INFO, "fedica: leaves: %s", line)
    if policy.approve == "ask":
        wait_for_approval(node.output, f"run-{run_id}-{kind}", sent.data, page)
    return messages.pack_file(kind, sent.data)


def describe(sent: Contributed | Scored) -> list[str]:
    """Return a line for each field that leaves, and for what it tells."""
    return [*(f"{field.name}, {counted(field.n_bytes, 'byte')}: {field.value}" for field in sent.leaves), *sent.tells]


def _keep_aggregate(content: RecordDict, run_id: int, node: Node) -> tuple[PublicAggregate, Path]:
    """Write the aggregate that the server sent to the client's folder of this run; return both."""
    data = messages.unpack_file(content, messages.AGGREGATE)
    public = aggregate_from_bytes(data, source="the aggregate")
    folder = node.output / f"run-{run_id}"
    make_private_folder(folder)
    write_atomic(folder / "aggregate.safetensors", [data], mode=PRIVATE)
    return public, folder


def _apply(content: RecordDict, run_id: int, node: Node, policy: Policy) -> RecordDict:
    public, folder = _keep_aggregate(content, run_id, node)
    applied = apply_global(
        public,
        node.data,
        folder / "sources.npy",
        study=policy.study,
        n_components=None if policy.components is None else min(policy.components, public.n_components),
        solver=policy.solver,
        drop_missing=policy.drop_missing,
        random_state=policy.random_state,
        options=policy.reading,
    )
    for note in applied.notes:
        log(INFO, "fedica: %s", note)
    log(INFO, "fedica: sources written to %s; more independent than own fit: %s", folder, applied.more_independent)
    return messages.pack_fields(messages.APPLIED, {"done": True})


def _reply(message: Message, context: Context, work: Work) -> Message:
    """Reply with the result of the work, or with the kind of error: a handler never raises, and always ends."""
    client = ""
    try:
        node = read_node(context.node_config)
        client = node.client
        policy = read_settings(node.policy, Policy)
        request, envelope = _open_request(message, context, node, policy)
        with (
            _time_limit(min(policy.max_seconds, envelope.seconds)),
            data_of_run(node, envelope.of_run, policy.settle_seconds) as node,
        ):
            content = work(request, envelope.of_run, node, policy)
    except Exception as error:  # its text must not leave this machine
        expected = isinstance(error, FedicaError | OSError | TimeoutError)
        reason = next(text for kind, text in _PUBLIC_REASONS if isinstance(error, kind))
        log(ERROR, "fedica: client %r sends nothing: %s", client, error, exc_info=None if expected else error)
        content = messages.pack_fields(messages.REFUSAL, {"client": client, "reason": reason})
    nonce = open_envelope(message.content)[0].get("nonce", "")
    return Message(answer_with(content, nonce), reply_to=message)


def _open_request(message: Message, context: Context, node: Node, policy: Policy) -> tuple[RecordDict, Envelope]:
    """Return what a message asks, and its envelope, if it is the coordinator's and belongs to the run that it names."""
    kind = message.metadata.message_type
    envelope, signature, request = read_envelope(message.content, context.run_id, kind)
    if policy.coordinator_key:
        envelope.check(request, signature, policy.coordinator_key)
    memory = RunMemory(node.output, envelope.of_run)
    if kind == messages.CONTRIBUTION_TYPE:
        memory.begin(envelope.nonce, context.run_id)
    elif kind == messages.AGGREGATE_TYPE:
        memory.end(envelope.nonce, digest_of(request), context.run_id)
    else:
        memory.check(envelope.nonce)
    return request, envelope


_PUBLIC_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "it did not finish within its own time limit"),
    (PolicyError, "its policy does not allow it"),
    (DataError, "its data cannot be used"),
    (InputError, "its files or settings cannot be used"),
    (OSError, "its files or settings cannot be used"),
    (Exception, "its app met an unexpected error"),
)
"""Sentences for the server: that of the first kind of error that fits."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after ``seconds``: a node whose handler hangs is lost to every later run.

    Only the main thread of a process on a POSIX system can be interrupted; elsewhere there is no limit.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: Any) -> None:
        raise TimeoutError(f"not finished after {seconds:g} s (max-seconds)")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

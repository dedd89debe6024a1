"""A client's side of the Flower app: reply to a request with a contribution, and to the aggregate with "done".

Errors are written to the client's own log in full. The server is told only the kind of error: a sentence with a path, a
column's name or a number of samples would disclose something about the data.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import ERROR, INFO
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log

from fedica.errors import DataError, FedicaError, FormatError, InputError, PolicyError
from fedica.exchange import aggregate_from_bytes, as_study
from fedica.exchange.files import write_atomic
from fedica.flower import messages
from fedica.flower.policy import Node, Policy, read_node
from fedica.flower.settings import read_settings
from fedica.records import Study
from fedica.workflow import apply_global, contribute

app = ClientApp()

Work = Callable[[RecordDict, Context, Node, Policy], RecordDict]


@app.train("contribution")
def contribution(message: Message, context: Context) -> Message:
    """Answer the first message: fit this client's data, and reply with its contribution."""
    return _reply(message, context, _contribute)


@app.query("aggregate")
def aggregate(message: Message, context: Context) -> Message:
    """Answer the second message: apply the aggregate to this client's data, keep the sources, and confirm it."""
    return _reply(message, context, _apply)


def _contribute(content: RecordDict, _context: Context, node: Node, policy: Policy) -> RecordDict:
    study = as_study(policy.study)
    n_components = _components_to_fit(content, study, policy)
    sent = contribute(
        node.data,
        client=node.client,
        study=study,
        n_components=n_components,
        solver=policy.solver,
        drop_missing=policy.drop_missing,
        min_samples=policy.min_samples,
        key=policy.signing_key,
        random_state=policy.random_state,
        options=policy.reading,
    )
    policy.check_components(sent.contribution.n_atoms)  # the rank of the data may have set the number
    for note in sent.notes:
        log(INFO, "fedica: %s", note)
    for field in sent.leaves:
        log(INFO, "fedica: leaves: %s, %d bytes: %s", field.name, field.n_bytes, field.value)
    for line in sent.tells:
        log(INFO, "fedica: leaves: %s", line)
    return messages.pack_file(messages.CONTRIBUTION, sent.data)


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


def _apply(content: RecordDict, context: Context, node: Node, policy: Policy) -> RecordDict:
    data = messages.unpack_file(content, messages.AGGREGATE)
    public = aggregate_from_bytes(data, source="the aggregate")
    folder = node.output / f"run-{context.run_id}"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "aggregate.safetensors", [data])
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
        with _time_limit(policy.max_seconds):
            content = work(message.content, context, node, policy)
    except Exception as error:  # its text must not leave this machine
        expected = isinstance(error, FedicaError | OSError | TimeoutError)
        reason = next(text for kind, text in _PUBLIC_REASONS if isinstance(error, kind))
        log(ERROR, "fedica: client %r sends nothing: %s", client, error, exc_info=None if expected else error)
        content = messages.pack_fields(messages.REFUSAL, {"client": client, "reason": reason})
    return Message(content, reply_to=message)


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

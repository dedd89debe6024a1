"""Write the contributions that nodes sent to an inbox, with a reason for each client that sent none.

The files are read by the same code as contributions that were sent as files, and they are kept: a client can be
withdrawn later with ``fedica aggregate INBOX --exclude CLIENT``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from fedica.errors import FedicaError, FormatError
from fedica.exchange import contribution_from_bytes, file_name
from fedica.exchange.files import write_atomic
from fedica.exchange.intake import SUFFIX, UNKNOWN_CLIENT
from fedica.flower.collect import Answer
from fedica.flower.messages import CONTRIBUTION, REFUSAL, unpack_fields, unpack_file
from fedica.records import Rejection, check_client

_MAX_REASON = 200


def receive_answers(
    answers: Iterable[Answer], inbox: Path, *, clients: Mapping[int, str]
) -> tuple[list[Path], list[Rejection]]:
    """Write every contribution unchanged to a file; return these files, and why each of the other nodes sent none.

    inbox : an empty folder. clients : the client of each node whose key is known; such a node can send in the name of
    its own client alone.
    """
    files: list[Path] = []
    failed: list[Rejection] = []
    for answer in answers:
        owner = clients.get(answer.node)
        try:
            data, client = _contribution(answer, owner)
        except _Failed as failure:
            client, numbers = failure.client or owner or UNKNOWN_CLIENT, {"node": answer.node, "problem": str(failure)}
            failed.append(Rejection.because(client, failure.kind, f"node {answer.node}", **numbers))
            continue
        # Two nodes with one name get two files: `combine`, which reads both, decides whether they are one client.
        path = inbox / f"{file_name(client or f'node-{answer.node}')}{SUFFIX}"
        if path.exists():
            path = path.with_name(f"{path.stem}-node-{answer.node}{SUFFIX}")
        write_atomic(path, [data], mode=0o600)
        files.append(path)
    return sorted(files), sorted(failed, key=lambda x: (x.client, x.source))


class _Failed(Exception):  # noqa: N818 - not an error: an outcome
    """A node sent no contribution."""

    def __init__(self, kind: str, problem: str, client: str = "") -> None:
        super().__init__(problem)
        self.kind = kind
        self.client = client


def _contribution(answer: Answer, owner: str | None) -> tuple[bytes, str]:
    """Return the bytes of a contribution and the client that it names; an unreadable one is kept, without a name."""
    if answer.message is None:
        raise _Failed("no-answer", answer.reason)
    refusal = unpack_fields(answer.message.content, REFUSAL)
    if refusal is not None:
        raise _Failed("refused", *describe_refusal(refusal, owner))
    try:
        data = unpack_file(answer.message.content, CONTRIBUTION)
    except FormatError as error:
        raise _Failed("unreadable-answer", str(error)) from error
    try:
        client = contribution_from_bytes(data).client
    except FedicaError:
        return data, ""
    if owner is not None and client != owner:
        raise _Failed("other-name", client, owner)
    return data, client


def describe_refusal(fields: Mapping[str, object], owner: str | None) -> tuple[str, str]:
    """Return why a client sent nothing, in its own words, and its name: the owner of its key, or the name it gives."""
    client, reason = fields.get("client"), fields.get("reason")
    try:
        name = owner or check_client(client, "a client's name")
    except FedicaError:
        name = ""
    words = " ".join(reason.split())[:_MAX_REASON] if isinstance(reason, str) else ""
    return words or "it does not say why", name

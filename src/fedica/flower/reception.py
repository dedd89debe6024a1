"""Write the contributions or scores that nodes sent to an inbox, with a reason for each client that sent none.

The files are read by the same code as those that were sent as files, and they are kept: a client can be
withdrawn later with ``fedica aggregate INBOX --exclude CLIENT``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedica.errors import FedicaError, FormatError, InputError
from fedica.exchange import contribution_from_bytes, file_name, scores_from_bytes
from fedica.exchange.files import PRIVATE, make_private_folder, sha256, write_atomic
from fedica.exchange.intake import SUFFIX, UNKNOWN_CLIENT
from fedica.exchange.tables import rejections_table
from fedica.flower.collect import Answer
from fedica.flower.messages import CONTRIBUTION, REFUSAL, SCORES, unpack_fields, unpack_file
from fedica.records import Contribution, Rejection, Scores, check_client

_MAX_REASON = 200
_READERS: dict[str, Callable[[bytes], Contribution | Scores]] = {
    CONTRIBUTION: contribution_from_bytes,
    SCORES: scores_from_bytes,
}
"""How the file of each kind of message is read."""


class Inbox:
    """The folder that holds what nodes sent, each file as soon as it arrives, and why the others sent nothing.

    folder : made if it is not there. A node's failure is a file in ``failed`` beside it. kind : CONTRIBUTION or SCORES.
    clients : the client of each node whose key is known; such a node can send in the name of its own client alone.
    """

    def __init__(self, folder: Path, kind: str, clients: Mapping[int, str]) -> None:
        self._folder = folder
        self._kind = kind
        self._clients = clients
        make_private_folder(folder)
        make_private_folder(_failures_of(folder))

    def take(self, answer: Answer) -> None:
        """Write the file that a node sent, unchanged, or why it sent none."""
        owner = self._clients.get(answer.node)
        digits = answer.node_digits
        try:
            data, client = _sent_file(answer, self._kind, owner)
            client = client or owner or ""
        except _Failed as failure:
            client = failure.client or owner or UNKNOWN_CLIENT
            said = {"client": client, "kind": failure.kind, "node": digits, "problem": str(failure)}
            write_atomic(self._failure(answer.node), [json.dumps(said).encode()], mode=PRIVATE)
            return
        # Two nodes with one name get two files: `combine`, which reads both, decides whether they are one client.
        path = self._folder / f"{file_name(client or f'node-{digits}')}{SUFFIX}"
        if path.exists():
            path = path.with_name(f"{path.stem}-node-{_unique(answer.node)}{SUFFIX}")
        write_atomic(path, [data], mode=PRIVATE)

    def has(self, node: int, *, sent: bool = False) -> bool:
        """Whether the outcome of a node whose key is known stands here; with ``sent``, whether it answered anything."""
        owner, failure = self._clients.get(node), self._failure(node)
        if owner is not None and (self._folder / f"{file_name(owner)}{SUFFIX}").exists():
            return True
        return failure.exists() and not (sent and json.loads(failure.read_bytes())["kind"] == "no-answer")

    def _failure(self, node: int) -> Path:
        return _failures_of(self._folder) / f"{_unique(node)}.json"


def read_inbox(folder: Path) -> tuple[list[Path], list[Rejection]]:
    """Return the files in an inbox, and the rejections of the nodes that sent none."""
    failed = []
    for path in _failures_of(folder).glob("*.json"):
        said = json.loads(path.read_bytes())
        node, problem = said["node"], said["problem"]
        failed.append(Rejection.because(said["client"], said["kind"], f"node {node}", node=node, problem=problem))
    return sorted(folder.glob(f"*{SUFFIX}")), sorted(failed, key=lambda x: (x.client, x.source))


def _unique(node: int) -> str:
    """Return a name for a node that does not tell its number."""
    return sha256(str(node).encode())[:12]


def _failures_of(inbox: Path) -> Path:
    return inbox.with_name("failed")


@contextmanager
def rejected_on_failure(folder: Path, rejections: Callable[[], Iterable[Rejection]]) -> Iterator[None]:
    """If the block fails with a sentence, write rejected.csv: who was left out until then."""
    try:
        yield
    except FedicaError:
        write_atomic(folder / "rejected.csv", [rejections_table(rejections())], mode=PRIVATE)
        raise


def check_any_sent(files: Sequence[Path], failed: Sequence[Rejection], what: str) -> None:
    """Refuse to go on where no client sent anything."""
    if not files:
        raise InputError(
            f"no client sent {what}; the first of {len(failed)} that failed is {failed[0].client!r}: {failed[0].reason}"
        )


class _Failed(Exception):  # noqa: N818 - not an error: an outcome
    """A node sent no file."""

    def __init__(self, kind: str, problem: str, client: str = "") -> None:
        super().__init__(problem)
        self.kind = kind
        self.client = client


def _sent_file(answer: Answer, kind: str, owner: str | None) -> tuple[bytes, str]:
    """Return the bytes of a file and the client that it names; an unreadable one is kept, without a name."""
    if answer.message is None:
        raise _Failed("no-answer", answer.reason)
    refusal = unpack_fields(answer.message.content, REFUSAL)
    if refusal is not None:
        raise _Failed("refused", *describe_refusal(refusal, owner))
    try:
        data = unpack_file(answer.message.content, kind)
    except FormatError as error:
        raise _Failed("unreadable-answer", str(error)) from error
    try:
        client = _READERS[kind](data).client
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

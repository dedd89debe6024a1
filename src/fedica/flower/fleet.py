"""The nodes of one run: which client each of them is, what they are asked, and which of them answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedica.exchange import SigningKey
from fedica.flower.collect import Answer, collect
from fedica.flower.envelope import Envelope, open_envelope
from fedica.flower.reception import Inbox


@dataclass
class Fleet:
    """The nodes that a run asks, by Flower's numbers of them.

    grid : Flower's connection to them. clients : the client of each node whose key is known. nonces : of each node.
    key : the coordinator's, with which it signs. resumes : the run that is resumed, if one is. answered : the nodes
    that have answered anything in this run.
    """

    grid: Grid
    run_id: int
    nodes: list[int]
    clients: Mapping[int, str]
    nonces: Mapping[int, str]
    key: SigningKey | None = None
    resumes: int = 0
    answered: set[int] = field(default_factory=set)

    def ask(
        self,
        content: RecordDict,
        kind: str,
        seconds: float,
        *,
        nodes: Iterable[int] | None = None,
        take: Callable[[Answer], None] | None = None,
    ) -> list[Answer]:
        """Send the same content to the nodes, by default all, each in an envelope of its own; collect the answers.

        Messages expire at the deadline, after ``seconds``. ``take`` is called with each answer as it arrives; one
        without the nonce of its request is none.
        """
        asked = self.nodes if nodes is None else nodes
        requests = [Message(self._seal(content, node, kind, seconds), node, kind, ttl=seconds) for node in asked]
        answers: list[Answer] = []
        for answer in collect(self.grid, requests, seconds=seconds):
            answers.append(self._open(answer))
            if answers[-1].message is not None:
                self.answered.add(answer.node)
            if take is not None:
                take(answers[-1])
        return sorted(answers, key=lambda answer: answer.node)

    def _seal(self, content: RecordDict, node: int, kind: str, seconds: float) -> RecordDict:
        return Envelope(self.nonces[node], float(seconds), self.run_id, kind, self.resumes).seal(content, self.key)

    def _open(self, answer: Answer) -> Answer:
        """Take an answer out of its envelope, if that carries the nonce of the request."""
        if answer.message is None:
            return answer
        fields, content = open_envelope(answer.message.content)
        if fields != {"nonce": self.nonces[answer.node]}:
            return Answer(answer.node, None, "its answer does not carry the nonce of its request, and was left out.")
        answer.message.content = content
        return answer


def ask_into(inbox: Inbox, fleet: Fleet, content: RecordDict, kind: str, seconds: float) -> None:
    """Ask the nodes of which the inbox has no answer yet; each answer goes there as it arrives."""
    fleet.ask(content, kind, seconds, nodes=[x for x in fleet.nodes if not inbox.has(x)], take=inbox.take)
    fleet.answered.update(x for x in fleet.nodes if inbox.has(x, sent=True))


def clients_of_nodes(grid: Grid, registered: Mapping[bytes, str]) -> dict[int, str]:
    """Return the client of every connected node whose key is registered."""
    return {info.node_id: registered[info.public_key] for info in grid.get_nodes() if info.public_key in registered}

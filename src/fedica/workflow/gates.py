"""What must hold before and after contributions are combined: one bad file is named; too many stop everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedica.arrays import PathLike
from fedica.blocks import Spool
from fedica.errors import ContributionError, InputError
from fedica.exchange import Received, TrustedKeys, read_contributions
from fedica.records import Aggregate, Contribution, Rejection, Scores, Study
from fedica.records.study import OWN_STEPS
from fedica.text import counted, list_names, show_text
from fedica.workflow.preparation import COMMON

UNSIGNED = frozenset({"unsigned", "no-trusted-key", "other-key", "not-canonical", "bad-signature"})
"""Kinds of rejections of files that anybody can have sent in a client's name."""
MAX_VALUES = 3
"""Values of a step of preparing data that a note lists, those that most clients declare."""


def read_inbox(
    paths: PathLike | Iterable[PathLike], trusted: TrustedKeys | None
) -> tuple[list[Received], tuple[Rejection, ...]]:
    """Read all files; one that cannot be used is a rejection, as long as another can.

    Of very many atoms all but the first 256 MB go to a temporary file, in the precision in which they were sent.
    """
    received: list[Received] = []
    rejected: list[Rejection] = []
    spool = Spool()
    for item in read_contributions(paths, trusted=trusted):
        if isinstance(item, Received):
            received.append(Received(spool.keep(item.contribution, item.narrow), item.provenance))
        else:
            rejected.append(item)
    if not (received or rejected):
        raise InputError("got no contribution. Give files, or folders of *.safetensors files.")
    if not received:
        n_refused = counted(len(rejected), "file", "were")
        raise InputError(f"no contribution can be used: {n_refused} refused. The first: {rejected[0].reason}")
    return received, tuple(rejected)


def keep_newest(received: Sequence[Received], trusted: TrustedKeys | None) -> tuple[list[Received], tuple[str, ...]]:
    """Of several messages that one client signed for one study keep those of the highest number, and say so.

    Without trusted keys nobody knows who numbered them: all are kept, and different ones refused later.
    """
    sent = [item.contribution for item in received]
    newest, notes = _newest([(one.client, one.study, one.serial) for one in sent], trusted)
    return [received[k] for k in newest], notes


def keep_newest_scores(scores: Sequence[Scores], trusted: TrustedKeys | None) -> tuple[list[Scores], tuple[str, ...]]:
    """Of several second messages that one client signed for one aggregate keep those of the highest number."""
    newest, notes = _newest([(one.client, one.refines, one.serial) for one in scores], trusted)
    return [scores[k] for k in newest], notes


def _newest(
    messages: Sequence[tuple[str, str | None, int | None]], trusted: TrustedKeys | None
) -> tuple[list[int], tuple[str, ...]]:
    """Return which messages count, of those with client, purpose and number; one without number is before all."""
    if trusted is None:
        return list(range(len(messages))), ()
    numbers: dict[tuple[str, str | None], set[int]] = {}
    for client, purpose, serial in messages:
        numbers.setdefault((client, purpose), set()).add(-1 if serial is None else serial)
    notes = tuple(
        f"client {client!r} sent messages of {len(own)} different numbers: number {max(own)}, the highest, counts."
        for (client, _), own in numbers.items()
        if len(own) > 1
    )
    highest = {thread: max(own) for thread, own in numbers.items()}
    newest = [k for k, (*_, n) in enumerate(messages) if highest[messages[k][:2]] == (-1 if n is None else n)]
    return newest, notes


def preparation_notes(received: Sequence[Received], study: Study | None) -> tuple[str, ...]:
    """Name the clients that prepared their data otherwise than the study says, and those that do not tell.

    Where no study says how, name what clients did differently. Nobody is refused for it, and silence is no difference.
    """
    if study is None or study.preprocessing is None:
        return _different_preparations([item.contribution for item in received])
    if study.other_preprocessing == "refuse":  # those are refused
        return ()
    steps = {item.contribution.client: study.other_step(item.contribution.preprocessing) for item in received}
    silent = sorted(client for client, step in steps.items() if step is not None and not step["step"])
    notes = [
        f"client {client!r} prepared its data otherwise than the study says: {show_text(step['step'])} is "
        f"{show_text(step['value'])}, not {step['agreed']}."
        for client, step in sorted(steps.items())
        if step is not None and step["step"]
    ]
    if silent:
        notes.append(f"{list_names(silent)} did not tell how the data was prepared, which the study fixes.")
    return tuple(notes)


def _different_preparations(contributions: Sequence[Contribution]) -> tuple[str, ...]:
    """Return a note for each step of preparing data whose value is not the same at all clients that tell it."""
    notes = []
    for step in COMMON:
        clients: dict[str, list[str]] = {}
        for sent in sorted(contributions, key=lambda sent: sent.client):
            if step not in OWN_STEPS and step in (sent.preprocessing or {}):
                clients.setdefault((sent.preprocessing or {})[step], []).append(sent.client)
        if len(clients) > 1:
            most = sorted(clients.items(), key=lambda one: (-len(one[1]), one[0]))
            values = [f"{show_text(value, 40)} ({list_names(names, 3)})" for value, names in most[:MAX_VALUES]]
            more = f" and {len(most) - MAX_VALUES} other values" if len(most) > MAX_VALUES else ""
            notes.append(
                f"clients prepared their data differently: {step} is {', '.join(values)}{more}. Different preparations "
                "move atoms apart; a study says how all prepare: fedica study new --from DATA."
            )
    return tuple(notes)


def check_absent(
    trusted: TrustedKeys | None,
    study: Study | None,
    present: set[str],
    refused: Sequence[Rejection],
    *,
    require_all: bool,
) -> tuple[str, ...]:
    """Return notes on the clients with a trusted key that sent nothing; refuse that if all are required.

    What a client did not sign, it did not send: a refused file counts only if its signature held.
    """
    if trusted is None:
        return ()
    notes = []
    absent = sorted(set(trusted) - present - {x.client for x in refused if x.kind not in UNSIGNED})
    if absent:
        sentence = f"{counted(len(absent), 'client')} with a trusted key sent nothing: {list_names(absent)}."
        if require_all:
            raise InputError(f"all are required, and {sentence}")
        notes.append(sentence)
    if study is None:
        notes.append("without --study, a signed contribution to another study is only noticed if most are to this one.")
    return tuple(notes)


def check_enough(n_clients: int, min_clients: int, rejected: Sequence[Rejection]) -> None:
    """Refuse to go on with too few clients."""
    if n_clients < min_clients:
        first = (
            f" {counted(len(rejected), 'contribution', 'were')} left out, the first because: {rejected[0].reason}"
            if rejected
            else ""
        )
        raise InputError(
            f"at least {counted(min_clients, 'client', 'are')} wanted; {n_clients} can be used.{first} "
            "(--min-clients sets the number.)"
        )


def check_complete(rejected: Sequence[Rejection], require_all: bool) -> None:
    """Refuse to go on without a contribution that was refused, if all are required."""
    if require_all and rejected:
        raise rejected[0].error("a contribution was refused, and all are required. ")


def check_verdicts(result: Aggregate, verdicts: tuple[str, ...]) -> None:
    """Refuse a result with clients of these verdicts."""
    if sentence := doubted_clients(result, verdicts):
        first = next(row.client for row in result.trust or () if row.verdict in verdicts)
        raise ContributionError(f"{sentence} Nothing was written.", first)


def doubted_clients(result: Aggregate, verdicts: tuple[str, ...]) -> str:
    """Name the clients of these verdicts in one sentence; an empty text if there are none."""
    doubted = [row for row in result.trust or () if row.verdict in verdicts]
    if not doubted:
        return ""
    n_clients = len(result.clients)
    return (
        f"{len(doubted)} of {n_clients} clients {'is' if len(doubted) == 1 else 'are'} {' or '.join(verdicts)}: "
        f"{list_names([x.client for x in doubted])}. {doubted[0].client!r}: {doubted[0].reason}."
    )

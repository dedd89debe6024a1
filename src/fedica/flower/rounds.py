"""Rounds after the first: clients score their data at the result so far, and the coordinator refines it.

Each round has a folder of its own, with its inbox and its result. Whatever goes wrong in a round costs that round
alone: the result before it stands, and is what goes back to the clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from logging import INFO, WARNING
from pathlib import Path

from flwr.common.logger import log

from fedica.errors import FedicaError, OptionError
from fedica.exchange import aggregate_to_bytes, public_part, read_second_messages
from fedica.flower import messages
from fedica.flower.coordinator import Coordinator, RunSettings
from fedica.flower.finish import read_result
from fedica.flower.fleet import Fleet, ask_into
from fedica.flower.reception import Inbox, check_any_sent, read_inbox, rejected_on_failure
from fedica.records import Rejection
from fedica.workflow import Combined, refine_result


def refine_in_rounds(
    first: Combined, folder: Path, fleet: Fleet, run: RunSettings, coordinator: Coordinator, min_clients: int
) -> Combined:
    """Refine the result of the first round in the others that the run asks for; return the last one that succeeded.

    folder : that of the run; round k gets the folder ``round-k`` in it. Rounds end with one whose step was not taken.
    """
    combined = first
    for number in range(2, run.rounds + 1):
        try:
            combined = _refine(combined, folder / f"round-{number}", fleet, run, coordinator, min_clients)
        except Exception as error:  # the result before this round goes back to the clients whatever happened
            expected = isinstance(error, FedicaError | OSError)
            sentence = "fedica: round %d failed, and the result before it stands: %s"
            log(WARNING, sentence, number, error, exc_info=None if expected else error)
            break
        refinement = combined.aggregate.refinement
        assert refinement is not None
        log(INFO, "fedica: round %d: %s %s", number, refinement.reason, combined.path)
        if not refinement.taken:
            break
    return combined


def _refine(
    before: Combined, folder: Path, fleet: Fleet, run: RunSettings, coordinator: Coordinator, min_clients: int
) -> Combined:
    """Ask for scores at the result before, and refine it as ``fedica aggregate --refine`` does."""
    done = read_result(folder / "result")
    if done is not None:
        return done
    if before.aggregate.terms.independence == "features":
        raise OptionError("second messages are for components that are independent over samples (rounds = 1).")
    assert before.path is not None
    public = public_part(before.aggregate, min_support=coordinator.min_support)
    request = messages.pack_file(messages.AGGREGATE, aggregate_to_bytes(public))
    inbox = Inbox(folder / "inbox", messages.SCORES, fleet.clients)
    ask_into(inbox, fleet, request, messages.SCORES_TYPE, run.deadline_seconds)
    files, failed = read_inbox(folder / "inbox")
    for failure in failed:
        log(WARNING, "fedica: client %r: %s", failure.client, failure.reason)
    with rejected_on_failure(folder, lambda: [*failed, *_unreadable(files)]):
        check_any_sent(files, failed, "a second message")
        return refine_result(
            before.path,
            files,
            folder / "result",
            min_clients=min_clients,
            trust_keys=coordinator.trust_keys,
            study=coordinator.study,
            require_all=run.require_all,
            failed=failed,
        )


def _unreadable(files: Sequence[Path]) -> list[Rejection]:
    return [item for item in read_second_messages(files) if isinstance(item, Rejection)]

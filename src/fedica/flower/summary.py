"""What a run came to, for the person who started it: who counted, who did not and why, and where the result is."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedica.exchange import read_folder
from fedica.flower.finish import NOT_APPLIED
from fedica.text import counted


@dataclass(frozen=True)
class RunSummary:
    """The outcome of a run."""

    result: Path  # the folder of the last result
    clients: tuple[str, ...]
    left_out: dict[str, str]  # the reason of each client that is not in the first result
    not_applied: dict[str, str] | None  # the reason of each client that did not apply it; None: nothing went back

    def lines(self) -> Iterator[str]:
        """Yield lines for a person."""
        yield f"{counted(len(self.clients), 'client')} aggregated, {len(self.left_out)} left out."
        yield from (f"left out: {client}: {reason}" for client, reason in self.left_out.items())
        if self.not_applied is None:
            yield "Nothing went back to the clients."
        else:
            yield from (f"aggregate not applied: {client}: {reason}" for client, reason in self.not_applied.items())


def summarise(folder: Path) -> RunSummary:
    """Return the outcome of the run in this folder, which has a result."""
    first = read_folder(folder / "result").aggregate
    results = [folder / "result", *sorted(folder.glob("round-*/result"), key=_round_of)]
    left_out = {rejection.client: rejection.reason for rejection in first.rejected}
    return RunSummary(results[-1], tuple(sorted(first.clients)), left_out, _not_applied(folder / NOT_APPLIED))


def _round_of(result: Path) -> int:
    return int(result.parent.name.rpartition("-")[2])


def _not_applied(table: Path) -> dict[str, str] | None:
    if not table.exists():
        return None
    with open(table, newline="", encoding="utf-8") as stream:
        return {row["client"]: row["reason"] for row in csv.DictReader(stream)}

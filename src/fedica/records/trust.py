"""The verdict on every client, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.records.reasons import Reason

IN_DOUBT = ("outlying", "weak")
"""Verdicts that cast doubt on a client, the worse first. Others agree, be it on a part of the components."""


@dataclass(frozen=True)
class ClientTrust:
    """One row of `Trust`: the verdict on one client.

    Parameters
    ----------
    client : str
        Its name.
    verdict : {"trusted", "partial", "weak", "outlying"}
        The verdict.
    why : Reason
        Why, as a kind and its numbers; `reason` is the same in words.
    angle : float
        Median angle of its atoms to the components they match, in degrees.
    missing : tuple of int
        Components that it lacks.
    n_unmatched : int
        How many of its atoms match no component.
    influence : float
        How far the aggregate moves without it: the largest angle over components, in degrees.
    """

    client: str
    verdict: str
    why: Reason
    angle: float
    missing: tuple[int, ...]
    n_unmatched: int
    influence: float

    @property
    def reason(self) -> str:
        """Why, in words."""
        return self.why.sentence


@dataclass(frozen=True, eq=False)
class Trust:
    """The verdict on every client, as columns; ``trust["client-07"]`` is one row.

    Parameters
    ----------
    clients : tuple of str
        The K clients.
    verdict : tuple of str
        "trusted"; "partial" (agrees on what it has, but lacks components or has others of its own); "weak" (noisy, as
        few samples explain); or "outlying".
    why : tuple of Reason
        Why, as a kind and its numbers; `reason` is the same in words.
    angle : ndarray of shape (K,)
        Median angle of a client's atoms to the components they match, in degrees.
    angles : ndarray of shape (K, r)
        Angle of the client's atom to each component; 90 where it has none.
    has : ndarray of shape (K, r)
        Whether the client has an atom for the component.
    n_unmatched : ndarray of shape (K,)
        Atoms that match no component.
    influence : ndarray of shape (K,)
        How far the aggregate moves without the client, in degrees.
    """

    clients: tuple[str, ...]
    verdict: tuple[str, ...]
    why: tuple[Reason, ...]
    angle: Array
    angles: Array
    has: Any
    n_unmatched: IntArray
    influence: Array

    @property
    def reason(self) -> tuple[str, ...]:
        """Why, in words, for each client."""
        return tuple(why.sentence for why in self.why)

    def __getitem__(self, client: str) -> ClientTrust:
        try:
            k = self.clients.index(client)
        except ValueError:
            raise KeyError(client) from None
        return self._row(k)

    def __iter__(self) -> Iterator[ClientTrust]:
        return map(self._row, range(len(self.clients)))

    def __len__(self) -> int:
        return len(self.clients)

    def rows(self, order: IntArray) -> Trust:
        """Return the rows of some clients, in the given order."""
        return Trust(
            clients=tuple(self.clients[k] for k in order),
            verdict=tuple(self.verdict[k] for k in order),
            why=tuple(self.why[k] for k in order),
            angle=self.angle[order],
            angles=self.angles[order],
            has=self.has[order],
            n_unmatched=self.n_unmatched[order],
            influence=self.influence[order],
        )

    def renumbered(self, order: IntArray) -> Trust:
        """Return the same with component ``order[a]`` in place a. order : (r,)."""
        has = self.has[:, order]
        why = tuple(
            reason.changed(missing=tuple(np.flatnonzero(~row).tolist())) if reason.numbers.get("missing") else reason
            for reason, row in zip(self.why, has, strict=True)
        )
        return replace(self, why=why, angles=self.angles[:, order], has=has)

    def named(self, verdict: str) -> tuple[str, ...]:
        """Return the clients with this verdict."""
        return tuple(c for c, v in zip(self.clients, self.verdict, strict=True) if v == verdict)

    def summary(self, most: int) -> list[str]:
        """Name up to ``most`` clients that are in doubt, one per line, with the reason."""
        doubted = [k for k, v in enumerate(self.verdict) if v in IN_DOUBT]
        doubted.sort(key=lambda k: (self.verdict[k], -self.angle[k]))
        lines = [f"{self.verdict[k]}: {self.clients[k]!r}, {self.why[k].sentence}" for k in doubted[:most]]
        return lines + ([f"... and {len(doubted) - most} more"] if len(doubted) > most else [])

    def _row(self, k: int) -> ClientTrust:
        return ClientTrust(
            client=self.clients[k],
            verdict=self.verdict[k],
            why=self.why[k],
            angle=float(self.angle[k]),
            missing=tuple(int(a) for a in np.flatnonzero(~self.has[k])),
            n_unmatched=int(self.n_unmatched[k]),
            influence=float(self.influence[k]),
        )

"""What happened, in words: the first thing that a coordinator reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.records import Aggregate
from fedica.records.reasons import list_components
from fedica.report.agreement import Agreement, agreement_of

MOST_NAMED = 6
"""Clients named in one sentence; the tables name all."""
LONGEST_NAME = 48

_ARE = {"outlying": ("is outlying", "are outlying"), "weak": ("is weak", "are weak")}
_SOURCES = {
    "given": "The number of components, {r}, was given.",
    "clients": "{r} components: more than half of the clients sent so many atoms, and these match.",
    "spectrum": "{r} components: there the spectrum has its largest gap.",
    "support": "{r} components: what only one client saw was left out.",
}


@dataclass(frozen=True)
class Doubt:
    """One client that the headline names, by its number, and why in a few words."""

    number: int
    client: str
    why: str


@dataclass(frozen=True)
class Doubts:
    """The clients of one verdict: how many, and those that are named."""

    verdict: str
    total: int
    named: tuple[Doubt, ...]

    @property
    def opening(self) -> str:
        """Say how many, as in "2 are outlying"."""
        return f"{self.total} {_ARE[self.verdict][self.total > 1]}"

    @property
    def n_more(self) -> int:
        """How many are not named."""
        return self.total - len(self.named)

    def __str__(self) -> str:
        named = ", ".join(f"{short(doubt.client)} ({doubt.why})" for doubt in self.named)
        return f"{self.opening}: {named}" + (f" and {self.n_more} more" if self.n_more else "")


@dataclass(frozen=True)
class Headline:
    """The result in words; ``str`` gives the one sentence.

    Parameters
    ----------
    agreement : str
        How many clients agree on how many components.
    doubts : tuple of Doubts
        Who does not: the outlying, then the weak.
    tone : {"good", "mixed", "bad"}
        Nobody is in doubt; somebody is, or nothing can be compared; half of the clients or more are.
    warning : str
        What must not be overlooked; may be empty.
    details : tuple of str
        Where the number of components comes from, how well they are supported, who lacks some, what was rejected.
    """

    agreement: str
    doubts: tuple[Doubts, ...]
    tone: str
    warning: str
    details: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join([self.agreement, *map(str, self.doubts)]) + "."


def headline(aggregate: Aggregate) -> Headline:
    """Say what happened: who agrees, who does not and why, how sure the components are.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.

    Returns
    -------
    Headline
        ``str(headline(aggregate))`` is one sentence.
    """
    agreement = agreement_of(aggregate)
    n_clients = len(aggregate.clients)
    doubts = tuple(x for x in (_doubts(aggregate, agreement, verdict) for verdict in _ARE) if x.total)
    n_trusted = n_clients - sum(x.total for x in doubts)
    components = _count(aggregate.n_components, "component")
    if n_clients == 1:
        agrees = f"One client alone sent {components}; there is nobody to compare it with"
    elif aggregate.trust is None:
        agrees = f"{n_clients} clients were put together into {components}; nobody was judged"
    else:
        agrees = f"{n_trusted} of {n_clients} clients {'agrees' if n_trusted == 1 else 'agree'} on {components}"
    warning = _warning(aggregate, n_trusted)
    doubtful = doubts or aggregate.rejected or n_clients == 1
    tone = "bad" if warning else "mixed" if doubtful else "good"
    return Headline(agrees, doubts, tone, warning, _details(aggregate, agreement))


def short(name: str, most: int = LONGEST_NAME) -> str:
    """Return the name, with its middle left out if it is long: both ends tell clients apart."""
    if len(name) <= most:
        return name
    tail = most // 3
    return f"{name[: most - tail - 1]}…{name[-tail:]}"


def _doubts(aggregate: Aggregate, agreement: Agreement, verdict: str) -> Doubts:
    whose = [int(k) for k in agreement.worst_first() if agreement.verdict[k] == verdict]
    named = tuple(Doubt(k, aggregate.clients[k], agreement.why[k].short) for k in whose[:MOST_NAMED])
    return Doubts(verdict, len(whose), named)


def _warning(aggregate: Aggregate, n_trusted: int) -> str:
    n_clients = len(aggregate.clients)
    sentences = []
    if n_clients == 2 and n_trusted < 2:
        sentences.append("Two clients disagree, and nothing tells who is right: ask for a third.")
    elif n_clients > 2 and 2 * n_trusted <= n_clients:
        sentences.append(
            "Half of the clients or more do not agree: no method can then tell who is right. Do not rely on it."
        )
    if aggregate.degenerate.size:
        which = list_components(aggregate.degenerate.tolist())
        sentences.append(f"The atoms of {which} cancel each other: a direction that means nothing.")
    return " ".join(sentences)


def _details(aggregate: Aggregate, agreement: Agreement) -> tuple[str, ...]:
    n_clients, r = len(aggregate.clients), aggregate.n_components
    source = _SOURCES.get(str(aggregate.options.get("n_components_from")), "{r} components.")
    lines = [source.format(r=r)]
    if n_clients > 1:
        least, widest = int(aggregate.support.min()), float(np.nanmax(aggregate.spread, initial=0.0))
        each = "The component is" if r == 1 else "Every component is"
        rarest = f" (component {int(aggregate.support.argmin())})" if r > 1 and least < aggregate.support.max() else ""
        how_many = f"all {n_clients}" if least == n_clients else f"at least {least} of the {n_clients}"
        lines.append(
            f"{each} seen by {how_many} clients{rarest}, "
            f"whose atoms are at a median angle of {'' if r == 1 else 'at most '}{widest:.1f}° to it."
        )
    judged = [k for k in range(n_clients) if agreement.verdict[k] in ("trusted", "weak", "not judged")]
    lacking = [k for k in judged if not agreement.has[k].all()]
    if n_clients > 1 and lacking:
        named = ", ".join(
            f"{short(aggregate.clients[k])} ({list_components(np.flatnonzero(~agreement.has[k]).tolist())})"
            for k in lacking[:MOST_NAMED]
        )
        more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
        who = (
            "1 client that is not outlying lacks"
            if len(lacking) == 1
            else f"{len(lacking)} clients that are not outlying lack"
        )
        lines.append(f"{who} components: {named}{more}.")
    if aggregate.rejected:
        n = len(aggregate.rejected)
        lines.append(f"{n} {'contribution was' if n == 1 else 'contributions were'} rejected before aggregating.")
    return tuple(lines)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"

"""What happened, in words: the first thing that a coordinator reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, BoolArray
from fedica.blocks import columns_of, membership
from fedica.records import IN_DOUBT, Aggregate, Trust
from fedica.records.wordings import list_components
from fedica.report.agreement import trust_of, worst_first
from fedica.text import show_text

MAX_NAMED = 6
"""Clients named in one sentence; the tables name all."""
MAX_NAME_LENGTH = 48

_SOURCES = {
    "given": "The number of components, {r}, was given.",
    "clients": "{r} components: more than half of the clients sent this number of atoms, and these match.",
    "spectrum": "{r} components: there the spectrum has its largest gap.",
    "shuffled": "{r} components: this many directions are shared, more closely than by chance (shuffled features).",
    "replication": "{r} components: each is found again in either half of the clients.",
    "support": "{r} components: what one client alone saw, or half as many as usual, was left out.",
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
        return f"{self.total} {'is' if self.total == 1 else 'are'} {self.verdict}"

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
        How many components replicate, in how many clients; or, where that was not tested, how many clients agree.
    doubts : tuple of Doubts
        Those that do not: the outlying, then the weak.
    tone : {"good", "mixed", "bad"}
        No client is in doubt; some are, or there is only one; half of the clients or more are.
    warning : str
        What a reader must not overlook; may be empty.
    details : tuple of str
        Where the number of components comes from, how well they are supported, which clients lack some, how many
        contributions were rejected.
    """

    agreement: str
    doubts: tuple[Doubts, ...]
    tone: str
    warning: str
    details: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join([self.agreement, *map(str, self.doubts)]) + "."


def headline(aggregate: Aggregate) -> Headline:
    """Summarise a result: which clients agree, which do not and why, how well the components are supported.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.

    Returns
    -------
    Headline
        ``str(headline(aggregate))`` is one sentence.
    """
    trust = trust_of(aggregate)
    n_clients = len(aggregate.clients)
    doubts = tuple(x for x in (_doubts(trust, verdict) for verdict in IN_DOUBT) if x.total)
    n_trusted = n_clients - sum(x.total for x in doubts)
    components, nobody = _count(aggregate.n_components, "component"), nobody_agrees(aggregate)
    if n_clients == 1:
        agrees = f"One client alone sent {components}; there is no other client to compare it with"
    elif nobody:
        agrees = f"Nobody agrees: the atoms of the {n_clients} clients are no more alike than chance makes them"
    elif aggregate.trust is None:
        agrees = f"{n_clients} clients were put together into {components}; no client was judged"
    elif aggregate.replicates is not None:
        agrees = _replication(aggregate, aggregate.replicates)
    else:
        agrees = f"{n_trusted} of {n_clients} clients {'agrees' if n_trusted == 1 else 'agree'} on {components}"
        agrees += _in_part(trust)
    warning = _warning(aggregate, n_trusted, nobody=nobody)
    doubtful = doubts or aggregate.rejected or n_clients == 1
    tone = "bad" if warning else "mixed" if doubtful else "good"
    return Headline(agrees, doubts, tone, warning, _details(aggregate, trust))


def _in_part(trust: Trust) -> str:
    """Say how many of the clients that agree do so on a part."""
    n = trust.verdict.count("partial")
    whose = "it lacks some or has others of its own" if n == 1 else "they lack some or have others of their own"
    return f", {n} of them in part: {whose}" if n else ""


def _replication(aggregate: Aggregate, replicates: BoolArray) -> str:
    """Say how many components replicate, and in how many clients each is seen."""
    n, r, n_clients = int(replicates.sum()), aggregate.n_components, len(aggregate.clients)
    if n == 0:
        return f"None of {_count(r, 'component')} could be shown to replicate across the {n_clients} clients"
    least, most = int(aggregate.support[replicates].min()), int(aggregate.support[replicates].max())
    clients = f"{most}" if least == most else f"{least} to {most}"
    how_many = f"{n} of {_count(r, 'component')} {'replicates' if n == 1 else 'replicate'}"
    return f"{how_many}, {'each ' if n > 1 else ''}in {clients} of {n_clients} clients"


def nobody_agrees(aggregate: Aggregate) -> bool:
    """Tell whether atoms are no more alike those of other clients in their component than chance makes them."""
    numbers = [] if aggregate.trust is None else [why.numbers for why in aggregate.trust.why]
    chance = [n["chance"] for n in numbers if "chance" in n]
    alone = len(aggregate.clients) < 2 or not chance
    return not alone and bool(np.median(_likeness_to_others(aggregate)) <= np.median(chance))


def _likeness_to_others(aggregate: Aggregate) -> Array:
    """Cosine of the atoms of each component to the mean of the other clients' atoms, (r,); 0 where there are none.

    The atoms may be too many for the memory: they are read once, by blocks.

    For n signed atoms with sum s the mean cosine of two of them is p = (|s|^2 - n) / (n (n - 1)).
    """
    r, labels = aggregate.n_components, aggregate.labels
    n = np.bincount(labels[labels >= 0], minlength=r).astype(np.float64)
    (s,) = columns_of(aggregate.atoms).total(
        lambda block, own, signs: (block @ membership(own, r, signs),), labels, aggregate.signs
    )
    p = np.clip((np.sum(s**2, axis=0) - n) / np.maximum(n * (n - 1), 1), 0, 1)
    return np.asarray(p * (n - 1) / np.sqrt(np.maximum((n - 1) * (1 + (n - 2) * p), 1)))


def short(name: str, most: int = MAX_NAME_LENGTH) -> str:
    """Return the name, with its middle left out if it is long: both ends tell clients apart."""
    name = show_text(name)
    if len(name) <= most:
        return name
    tail = most // 3
    return f"{name[: most - tail - 1]}…{name[-tail:]}"


def _doubts(trust: Trust, verdict: str) -> Doubts:
    whose = [k for k in worst_first(trust) if trust.verdict[k] == verdict]
    named = tuple(Doubt(k, trust.clients[k], trust.why[k].short) for k in whose[:MAX_NAMED])
    return Doubts(verdict, len(whose), named)


def _warning(aggregate: Aggregate, n_trusted: int, *, nobody: bool) -> str:
    n_clients, replicates = len(aggregate.clients), aggregate.replicates
    sentences = []
    if replicates is not None and 2 * replicates.sum() >= replicates.size:
        pass  # clients may have components of their own while most components replicate
    elif n_clients == 2 and (n_trusted < 2 or nobody):
        sentences.append("Two clients disagree, and nothing tells which is right: ask for a third.")
    elif n_clients > 2 and (2 * n_trusted <= n_clients or nobody):
        sentences.append(
            "Half of the clients or more do not agree: no method can then tell which are right. Do not rely on it."
        )
    elif n_clients > 2 and 2 * _by_chance(aggregate) >= n_clients:
        sentences.append("Half of the clients or more match the components no better than chance. Do not rely on it.")
    if aggregate.degenerate.size:
        which = list_components(aggregate.degenerate.tolist())
        sentences.append(f"The atoms of {which} cancel each other: a direction that means nothing.")
    return " ".join(sentences)


def _by_chance(aggregate: Aggregate) -> int:
    """Count the clients whose median cosine chance gives to one client in twenty, as far as it is known."""
    numbers = [] if aggregate.trust is None else [why.numbers for why in aggregate.trust.why]
    return sum(n["likeness"] <= n["chance_high"] for n in numbers if "likeness" in n and "chance_high" in n)


def _details(aggregate: Aggregate, trust: Trust) -> tuple[str, ...]:
    source = _SOURCES.get(str(aggregate.options.get("n_components_from")), "{r} components.")
    lines = [source.format(r=aggregate.n_components)]
    if len(aggregate.clients) > 1:
        lines += [_support(aggregate), *_lacking(trust)]
    if aggregate.rejected:
        n = len(aggregate.rejected)
        lines.append(f"{n} {'contribution was' if n == 1 else 'contributions were'} rejected before aggregating.")
    return tuple(lines)


def _support(aggregate: Aggregate) -> str:
    """Say how many clients have each component, and how near their atoms are."""
    n_clients, r, support = len(aggregate.clients), aggregate.n_components, aggregate.support
    least, widest = int(support.min()), float(np.nanmax(aggregate.spread, initial=0.0))
    each = "The component is" if r == 1 else "Every component is"
    rarest = f" (component {int(support.argmin())})" if r > 1 and least < support.max() else ""
    how_many = f"all {n_clients}" if least == n_clients else f"at least {least} of the {n_clients}"
    return (
        f"{each} seen by {how_many} clients{rarest}; the median cosine of their atoms to it is "
        f"{'' if r == 1 else 'at least '}{np.cos(np.radians(widest)):.2f} ({widest:.1f}°)."
    )


def _lacking(trust: Trust) -> list[str]:
    """Name the clients that lack components though they are not outlying, in one line or none."""
    lacking = [k for k, has in enumerate(trust.has) if not has.all() and trust.verdict[k] != "outlying"]
    if not lacking:
        return []
    named = ", ".join(
        f"{short(trust.clients[k])} ({list_components(np.flatnonzero(~trust.has[k]).tolist())})"
        for k in lacking[:MAX_NAMED]
    )
    more = f" and {len(lacking) - MAX_NAMED} more" if len(lacking) > MAX_NAMED else ""
    one = len(lacking) == 1
    who = f"{_count(len(lacking), 'client')} that {'is' if one else 'are'} not outlying {'lacks' if one else 'lack'}"
    return [f"{who} components: {named}{more}."]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"

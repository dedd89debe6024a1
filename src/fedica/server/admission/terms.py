"""The terms on which clients must agree: those of the study, or what more than half of all clients declare.

Silence is a vote: a client that does not declare a term is one of those that a majority is counted among, and agrees
with whatever is decided. Where no value has a majority, nothing is decided, and the term is not part of the result. So
fewer than half of the clients can set no term, whatever they declare and however many others are silent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedica.records import CONTRIBUTION_FIELDS, Contribution, Rejection, Study
from fedica.text import list_names

MUST_AGREE = tuple(name for name, field in CONTRIBUTION_FIELDS.items() if field.must_agree)
"""The fields on which clients must agree."""
FIXED_BY_STUDY = ("independence", "mixing", "grid")
"""Those that a study fixes, besides its own name; `fixed_by_study` says which of them one does."""
MAX_VALUES = 3
"""Values that a rejection lists, those that most clients declare."""


@dataclass(frozen=True)
class Ruling:
    """What was decided on one term.

    Parameters
    ----------
    term : str
        The field of a contribution.
    agreed : str or int, optional
        The value that holds; ``None`` if none does.
    votes : tuple of (value, int)
        How many clients declare each value, most first.
    n_clients : int
        How many clients there are, the silent ones included.
    contested : bool
        Whether no value holds, and the clients that declare one are refused because they differ from each other.
    """

    term: str
    agreed: Any
    votes: tuple[tuple[Any, int], ...]
    n_clients: int
    contested: bool

    def refusal(self, contribution: Contribution) -> Rejection | None:
        """Return why a client cannot take part, or ``None`` if it can."""
        value = getattr(contribution, self.term)
        if value is None or value == self.agreed:
            return None
        if self.agreed is not None:
            numbers = {"term": self.term, "value": value, "agreed": self.agreed, "n_clients": self.votes[0][1]}
            return Rejection.because(contribution.client, "term-differs", **numbers)
        if not self.contested:
            return None
        values, counts = zip(*self.votes, strict=True)
        shown = tuple(list_names(x, 2) if isinstance(x, tuple) else x for x in values[:MAX_VALUES])
        silent = {"n_silent": self.n_clients - sum(counts), "n_values": len(values)}
        numbers = {"term": self.term, "values": shown, "counts": counts[:MAX_VALUES], **silent}
        return Rejection.because(contribution.client, "no-majority", **numbers)


def rule_on(term: str, contributions: Sequence[Contribution], *, may_differ: bool = False) -> Ruling:
    """Decide on a term over all clients.

    Parameters
    ----------
    term : str
        The field, or ``n_features``.
    contributions : sequence of Contribution
        One per client.
    may_differ : bool
        Whether clients that differ from each other stay, where no value has a majority.
    """
    votes = _tally(getattr(c, term) for c in contributions)
    ranked = tuple(sorted(votes.items(), key=lambda vote: (-vote[1], str(vote[0]))))
    agreed = ranked[0][0] if ranked and 2 * ranked[0][1] > len(contributions) else None
    contested = agreed is None and len(ranked) > 1 and not may_differ
    return Ruling(term, agreed, ranked, len(contributions), contested)


def fixed_by_study(study: Study) -> dict[str, str]:
    """Return the terms that a study fixes, besides its own name: its grid only if it has one."""
    return {term: value for term in FIXED_BY_STUDY if (value := getattr(study, term)) is not None}


def rule_on_terms(contributions: Sequence[Contribution], study: Study | None) -> tuple[Ruling, ...]:
    """Decide on every field on which clients must agree.

    A study decides on what it fixes, for contributions that were sent for it. On the rest its clients vote, and none of
    them is refused where no value has a majority: otherwise two of them could refuse all that declare one.
    """
    if study is None:
        return tuple(rule_on(term, contributions) for term in MUST_AGREE)
    fixed = {"study": study.id, **fixed_by_study(study)}
    n = len(contributions)
    return tuple(
        Ruling(term, fixed[term], ((fixed[term], n),), n, contested=False)
        if term in fixed
        else rule_on(term, contributions, may_differ=True)
        for term in MUST_AGREE
    )


@dataclass(frozen=True)
class AgreedFeatures:
    """The names of the features.

    Parameters
    ----------
    names : tuple of str
        In order.
    ordered : bool
        Whether a client that does not name its features can be taken to have them in this order: the study says so, or
        more than half of all clients have it.
    who : dict
        Who has them, in the words of a rejection: ``study``, or ``n_clients``.
    """

    names: tuple[str, ...]
    ordered: bool
    who: dict[str, Any]


def agreed_features(contributions: Sequence[Contribution], study: Study | None) -> AgreedFeatures | None:
    """Return the features of the study, or those that more than half of all clients name, in any order."""
    if study is not None:
        return AgreedFeatures(tuple(study.features), True, {"study": study.id})
    orders = _tally(c.features for c in contributions)
    names: Counter[frozenset[str]] = Counter()
    for order, count in orders.items():
        names[frozenset(order)] += count
    held, most = max(names.items(), key=lambda vote: vote[1], default=(frozenset(), 0))
    if 2 * most <= len(contributions):
        return None
    first = min((order for order in orders if held == set(order)), key=lambda order: (-orders[order], order))
    return AgreedFeatures(first, 2 * orders[first] > len(contributions), {"n_clients": most})


def common_features(contributions: Sequence[Contribution], study: Study | None = None) -> AgreedFeatures | None:
    """Return the features that clients with different features are to be brought to, if there are any.

    They are those of the study; or, where more than half of all clients name features, those that at least half of all
    clients have, in the order of the client that has most of them.
    """
    if study is not None:
        return agreed_features(contributions, study)
    orders, n_clients = _tally(c.features for c in contributions), len(contributions)
    votes: Counter[str] = Counter()
    for order, count in orders.items():
        votes.update(dict.fromkeys(order, count))
    common = {name for name, count in votes.items() if 2 * count >= n_clients}
    if not common or 2 * sum(orders.values()) <= n_clients:
        return None
    cut: Counter[tuple[str, ...]] = Counter()
    for order, count in orders.items():
        cut[tuple(name for name in order if name in common)] += count
    leader = min(cut, key=lambda order: (-len(order), -cut[order], order))
    names = (*leader, *sorted(common - set(leader)))
    return AgreedFeatures(names, 2 * orders[names] > n_clients, {"n_clients": max(orders.values())})


def _tally(values: Iterable[Hashable | None]) -> Counter[Any]:
    return Counter(value for value in values if value is not None)

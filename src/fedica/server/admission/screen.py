"""Decide which contributions are compatible, with each other and with the study.

Whatever makes a contribution unfit for an aggregate is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedica.errors import InputError
from fedica.records import CONTRIBUTION_FIELDS, Contribution, Rejection, Study, client_key
from fedica.server.admission.terms import (
    MUST_AGREE,
    AgreedFeatures,
    Ruling,
    agreed_features,
    common_features,
    fixed_by_study,
    rule_on,
    rule_on_terms,
)
from fedica.text import counted

MIN_SHARE_OF_FEATURES = 3
"""A client whose missing features are to be filled has at least one in this many of all."""

Refused = list[tuple[Contribution, Rejection]]
"""Contributions that do not fit, and why."""


@dataclass(frozen=True, eq=False)
class Screened:
    """The contributions that fit, and those that do not.

    Parameters
    ----------
    contributions : tuple of Contribution
        One per client, sorted by name; each declares the terms that were decided, and no others.
    features : tuple of str, optional
        The features that they have in this order, or that are to be filled; ``None`` if no names are agreed on.
    refused : tuple of (Contribution, Rejection)
        Those that do not fit, as they came, and why; of different ones under one name, the first.
    """

    contributions: tuple[Contribution, ...]
    features: tuple[str, ...] | None
    refused: tuple[tuple[Contribution, Rejection], ...]

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Why each of the refused does not fit."""
        return tuple(rejection for _, rejection in self.refused)


def screen(
    contributions: Iterable[Contribution], *, study: Study | None = None, may_lack_features: bool = False
) -> Screened:
    """Decide which contributions fit the study, and fit together.

    Parameters
    ----------
    contributions : iterable of Contribution
        In any order.
    study : Study, optional
        What all must agree on; without one, what more than half of all clients declare.
    may_lack_features : bool
        Whether clients that have enough of the features fit, because `fill_features` is to fill the others.

    Returns
    -------
    Screened
        Those that fit, and those that do not.
    """
    refused: Refused = []
    clients = sorted(contributions, key=lambda c: c.client)
    if study is not None:
        clients = _for_study(clients, study, refused)
    clients = _one_per_client(clients, refused)
    rulings = rule_on_terms(clients, study)
    filled = common_features(clients, study) if may_lack_features else None
    agreed = filled or agreed_features(clients, study)
    if study is None and filled is None:
        rulings = (*rulings, rule_on("n_features", clients))
    if agreed is None:
        rulings = (*rulings, rule_on("features", clients))
        return Screened(_declaring(_on_terms(clients, rulings, refused), rulings), None, tuple(refused))
    on_features = _same_features if filled is None else with_enough_features
    kept = on_features(_on_terms(clients, rulings, refused), agreed, refused)
    return Screened(_declaring(kept, rulings), agreed.names, tuple(refused))


def check_not_empty(screened: Screened) -> None:
    """Refuse to go on when no contribution fits; the sentence tells why the first does not."""
    if not screened.contributions:
        if not screened.rejected:
            raise InputError("aggregate needs at least one contribution; got none.")
        n_rejected = len(screened.rejected)
        refused = counted(n_rejected, "contribution", "were")
        raise screened.rejected[0].error(f"no contribution can be used: {refused} refused. The first: ")


def with_enough_features(
    contributions: Iterable[Contribution], agreed: AgreedFeatures, refused: Refused
) -> list[Contribution]:
    """Keep who has enough of the features to tell its atoms apart, and no fewer than a third of all."""
    kept, n_wanted = [], len(agreed.names)
    for contribution in contributions:
        if contribution.features is None:
            kept += _named(contribution, agreed, refused)
            continue
        n_common, n_atoms = len(set(agreed.names) & set(contribution.features)), contribution.n_atoms
        n_needed = min(n_wanted, max(2, n_atoms, -(-n_wanted // MIN_SHARE_OF_FEATURES)))
        if n_common < n_needed:
            numbers = {"n_features": n_common, "n_wanted": n_wanted, "n_needed": n_needed, "n_atoms": n_atoms}
            _refuse(contribution, refused, "too-few-features", **numbers)
        else:
            kept.append(contribution)
    return kept


def _named(contribution: Contribution, agreed: AgreedFeatures, refused: Refused) -> list[Contribution]:
    """Give a contribution without names the agreed ones, if it has as many features and their order is agreed."""
    n_own, n_wanted = contribution.n_features, len(agreed.names)
    if n_own == n_wanted and agreed.ordered:
        return [replace(contribution, features=agreed.names)]
    kind = "unnamed-features" if n_own != n_wanted else "unordered-features"
    _refuse(contribution, refused, kind, n_features=n_own, n_wanted=n_wanted)
    return []


def _refuse(contribution: Contribution, refused: Refused, kind: str, **numbers: Any) -> None:
    refused.append((contribution, Rejection.because(contribution.client, kind, **numbers)))


def _one_per_client(contributions: Iterable[Contribution], refused: Refused) -> list[Contribution]:
    """Keep one of identical contributions, which are one message delivered twice; refuse different ones of one name."""
    by_name: dict[str, list[Contribution]] = {}
    for contribution in contributions:
        by_name.setdefault(client_key(contribution.client), []).append(contribution)
    kept = []
    for first, *others in by_name.values():
        if all(_identical(first, other) for other in others):
            kept.append(first)
        else:
            _refuse(first, refused, "duplicate-name", n_contributions=1 + len(others))
    return kept


def _identical(one: Contribution, other: Contribution) -> bool:
    """Whether two contributions say the same, in everything that the result depends on."""
    names = ("n_samples", "features", "reference", "noise_floor", "uncertain", *MUST_AGREE)
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("atoms", "gram"))


def _for_study(contributions: Iterable[Contribution], study: Study, refused: Refused) -> list[Contribution]:
    """Keep what was sent for this study, on its terms."""
    kept = []
    for contribution in contributions:
        fixed = fixed_by_study(study)
        other = [term for term, value in fixed.items() if getattr(contribution, term) not in (None, value)]
        if contribution.study != study.id:
            _refuse(contribution, refused, "other-study", value=contribution.study or "", agreed=study.id)
        elif other:
            numbers = {"term": other[0], "value": getattr(contribution, other[0]), "agreed": fixed[other[0]]}
            _refuse(contribution, refused, "term-differs", **numbers, study=study.id)
        elif study.other_preprocessing == "refuse" and (step := study.other_step(contribution.preprocessing)):
            _refuse(contribution, refused, "other-preprocessing", **step, study=study.id)
        else:
            kept.append(contribution)
    return kept


def _on_terms(contributions: Iterable[Contribution], rulings: Sequence[Ruling], refused: Refused) -> list[Contribution]:
    """Keep the contributions that fit what was decided, as they came; refuse the others."""
    kept = []
    for contribution in contributions:
        rejection = next((x for ruling in rulings if (x := ruling.refusal(contribution)) is not None), None)
        if rejection is not None:
            refused.append((contribution, rejection))
        else:
            kept.append(contribution)
    return kept


def _declaring(contributions: Iterable[Contribution], rulings: Sequence[Ruling]) -> tuple[Contribution, ...]:
    """Return the contributions with the terms that were decided: what only some declare is no part of the result."""
    terms = {ruling.term: ruling.agreed for ruling in rulings if ruling.term in CONTRIBUTION_FIELDS}
    return tuple(
        c if all(getattr(c, term) == value for term, value in terms.items()) else replace(c, **terms)
        for c in contributions
    )


def _same_features(
    contributions: Iterable[Contribution], agreed: AgreedFeatures, refused: Refused
) -> list[Contribution]:
    """Put atoms whose features are in another order into the agreed one; refuse other names."""
    kept, position = [], {name: i for i, name in enumerate(agreed.names)}
    for contribution in contributions:
        names = contribution.features
        if names == agreed.names:
            kept.append(contribution)
        elif names is None:
            kept += _named(contribution, agreed, refused)
        elif set(names) == set(agreed.names):
            order = np.argsort([position[name] for name in names])
            kept.append(replace(contribution, features=agreed.names, atoms=contribution.atoms[order]))
        else:
            other = tuple(sorted(set(names) - position.keys()) or sorted(position.keys() - set(names)))[:3]
            _refuse(contribution, refused, "features-differ", features=other, **agreed.who)
    return kept

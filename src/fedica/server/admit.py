"""Check that contributions are compatible, with each other and with the study, and stack their atoms.

Whatever makes a contribution unfit for an aggregate is decided in `screen`. Clients are ordered by a hash of their
atoms, so results depend on neither names nor order of arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from fedica.arrays import IntArray, check_choice
from fedica.blocks import Columns, Spool, columns_of, columns_of_atom_array
from fedica.errors import InputError
from fedica.records import CONTRIBUTION_FIELDS, AtomArray, Contribution, Rejection, Study, Terms, client_key

ON_BAD = ("raise", "reject")
MUST_AGREE = tuple(name for name, field in CONTRIBUTION_FIELDS.items() if field.must_agree)
"""The fields on which clients must agree; one that is not declared agrees with every value."""
DIGITS_OF_ORDER = 6
"""Digits of the atoms that decide on the order of the clients, on which the starts of k-means depend."""
MIN_SHARE_OF_FEATURES = 3
"""A client whose missing features are to be filled has at least one in this many of all."""


Refused = list[tuple[Contribution, Rejection]]
"""Contributions that do not fit, and why."""


@dataclass(frozen=True, eq=False)
class Admitted:
    """The atoms of all admitted clients, side by side.

    Parameters
    ----------
    atoms : Columns
        (d, R), unit columns, a client's atoms side by side.
    client_of_atom : ndarray of shape (R,)
        Index into ``clients``, ascending.
    clients : tuple of str
        The K clients.
    n_samples : ndarray of shape (K,)
        Declared samples; 0 where a client did not tell.
    terms : Terms
        What they agree on.
    rejected : tuple of Rejection
        Who was refused, and why.
    source_array : array, optional
        What ``atoms`` reads, where that must not be copied: very many atoms, which are already in their last order.
    """

    atoms: Columns
    client_of_atom: IntArray
    clients: tuple[str, ...]
    n_samples: IntArray
    terms: Terms
    rejected: tuple[Rejection, ...]
    source_array: Any = None


@dataclass(frozen=True, eq=False)
class Screened:
    """The contributions that fit, and those that do not.

    Parameters
    ----------
    contributions : tuple of Contribution
        One per client, sorted by name.
    features : tuple of str, optional
        The features that they have in this order, or that are to be filled; ``None`` if nobody names any.
    refused : tuple of (Contribution, Rejection)
        Those that do not fit, and why; of different ones under one name, the first.
    """

    contributions: tuple[Contribution, ...]
    features: tuple[str, ...] | None
    refused: tuple[tuple[Contribution, Rejection], ...]

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Why each of the refused does not fit."""
        return tuple(rejection for _, rejection in self.refused)


def admit(
    contributions: Iterable[Contribution] | AtomArray, *, study: Study | None = None, on_bad: str = "raise"
) -> Admitted:
    """Stack the atoms of the contributions that fit the study and agree with most of the others.

    Parameters
    ----------
    contributions : iterable of Contribution, or AtomArray
        One per client, in any order. Of an iterable that is no list, very many atoms go to a temporary file. An
        `AtomArray` has one set of terms, and is taken as it is.
    study : Study, optional
        What all must agree on; without one, the majority decides.
    on_bad : {"raise", "reject"}
        What to do with one that does not fit: stop, or go on without it.

    Returns
    -------
    Admitted
        The atoms side by side.
    """
    check_choice(on_bad, "on_bad", ON_BAD)
    if isinstance(contributions, AtomArray):
        return _admit_array(contributions)
    spool = Spool()
    checked = map(_check_type, contributions)
    screened = screen(checked if isinstance(contributions, list | tuple) else spool.kept(checked), study=study)
    if screened.rejected and on_bad == "raise":
        raise screened.rejected[0].error()
    check_not_empty(screened)
    return _stack(screened, spool)


def screen(
    contributions: Iterable[Contribution], *, study: Study | None = None, may_lack_features: bool = False
) -> Screened:
    """Decide which contributions fit the study, and fit together.

    Parameters
    ----------
    contributions : iterable of Contribution
        In any order.
    study : Study, optional
        What all must agree on; without one, the majority decides.
    may_lack_features : bool
        Whether clients that have enough of the features fit, because `fill_features` is to fill the others.

    Returns
    -------
    Screened
        Those that fit, and those that do not.
    """
    refused: Refused = []
    kept = sorted(contributions, key=lambda c: c.client)
    if study is not None:
        kept = _for_study(kept, study, refused)
    kept = _one_per_client(kept, refused)
    for term in MUST_AGREE:
        kept = _agreeing(kept, term, refused)
    features = common_features(kept, study) if may_lack_features else ()
    if features:
        kept = with_enough_features(kept, features, refused)
    else:
        kept = kept if study is not None else _agreeing(kept, "n_features", refused)
        kept, features = _same_features(kept, study, refused)
    return Screened(tuple(kept), features or None, tuple(refused))


def check_not_empty(screened: Screened) -> None:
    """Refuse to go on when no contribution fits; the sentence tells why the first does not."""
    if not screened.contributions:
        if not screened.rejected:
            raise InputError("aggregate needs at least one contribution; got none.")
        n_rejected = len(screened.rejected)
        raise screened.rejected[0].error(f"no contribution can be used: {n_rejected} were refused. The first: ")


def common_features(contributions: Sequence[Contribution], study: Study | None = None) -> tuple[str, ...]:
    """Features of the study, or that at least half of those who name any have, in the order of who has most of them."""
    if study is not None:
        return tuple(study.features)
    lists = [c.features for c in contributions if c.features is not None]
    votes = Counter(name for names in lists for name in names)
    common = {name for name, count in votes.items() if 2 * count >= len(lists)}
    if not common:
        return ()
    orders = Counter(tuple(name for name in names if name in common) for names in lists)
    leader = min(orders, key=lambda order: (-len(order), -orders[order], order))
    return (*leader, *sorted(common - set(leader)))


def with_enough_features(
    contributions: Iterable[Contribution], features: Sequence[str], refused: Refused
) -> list[Contribution]:
    """Keep who has enough of the features to tell its atoms apart, and no fewer than a third of all."""
    kept, n_wanted = [], len(features)
    for contribution in contributions:
        n_own, n_atoms = contribution.n_features, contribution.n_atoms
        n_common = n_wanted if contribution.features is None else len(set(features) & set(contribution.features))
        n_needed = min(n_wanted, max(2, n_atoms, -(-n_wanted // MIN_SHARE_OF_FEATURES)))
        if contribution.features is None and n_own != n_wanted:
            _refuse(contribution, refused, "unnamed-features", n_features=n_own, n_wanted=n_wanted)
        elif n_common < n_needed:
            numbers = {"n_features": n_common, "n_wanted": n_wanted, "n_needed": n_needed, "n_atoms": n_atoms}
            _refuse(contribution, refused, "too-few-features", **numbers)
        else:
            kept.append(contribution)
    return kept


def _refuse(contribution: Contribution, refused: Refused, kind: str, **numbers: Any) -> None:
    refused.append((contribution, Rejection.because(contribution.client, kind, **numbers)))


def _check_type(item: object) -> Contribution:
    if not isinstance(item, Contribution):
        raise InputError(f"aggregate takes Contribution records; got a {type(item).__name__}.")
    return item


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
    return one.n_samples == other.n_samples and np.array_equal(one.atoms, other.atoms)


def _for_study(contributions: Iterable[Contribution], study: Study, refused: Refused) -> list[Contribution]:
    """Keep what was sent for this study, on its terms."""
    kept = []
    for contribution in contributions:
        values = {term: getattr(contribution, term) for term in ("independence", "mixing")}
        other = [term for term, value in values.items() if value not in (None, getattr(study, term))]
        if contribution.study != study.id:
            _refuse(contribution, refused, "other-study", value=contribution.study or "", agreed=study.id)
        elif other:
            numbers = {"term": other[0], "value": values[other[0]], "agreed": getattr(study, other[0])}
            _refuse(contribution, refused, "term-differs", **numbers, study=study.id)
        else:
            kept.append(contribution)
    return kept


def _agreeing(contributions: list[Contribution], term: str, refused: Refused) -> list[Contribution]:
    """Keep the contributions that agree with the value most declare; silence agrees with everything."""
    votes = Counter(value for c in contributions if (value := getattr(c, term)) is not None)
    if len(votes) < 2:
        return contributions
    (agreed, most), (_, second) = votes.most_common(2)
    if most == second:  # no majority: a guess would depend on the order of arrival
        values, counts = zip(*sorted(votes.items(), key=lambda vote: str(vote[0])), strict=True)
        for contribution in contributions:
            _refuse(contribution, refused, "no-majority", term=term, values=values, counts=counts)
        return []
    kept = []
    for contribution in contributions:
        value = getattr(contribution, term)
        if value in (None, agreed):
            kept.append(contribution)
        else:
            _refuse(contribution, refused, "term-differs", term=term, value=value, agreed=agreed, n_clients=most)
    return kept


def _same_features(
    contributions: list[Contribution], study: Study | None, refused: Refused
) -> tuple[list[Contribution], tuple[str, ...]]:
    """Put atoms whose features are in another order into that of the study, or of most clients; refuse other names."""
    agreed, who = _agreed_features(contributions, study)
    if not agreed:
        return contributions, ()
    kept, position = [], {name: i for i, name in enumerate(agreed)}
    for contribution in contributions:
        names = contribution.features
        if names == agreed or (names is None and contribution.n_features == len(agreed)):
            kept.append(contribution)
        elif names is None:
            n_own = contribution.n_features
            _refuse(contribution, refused, "unnamed-features", n_features=n_own, n_wanted=len(agreed))
        elif set(names) == set(agreed):
            order = np.argsort([position[name] for name in names])
            kept.append(replace(contribution, features=agreed, atoms=contribution.atoms[order]))
        else:
            other = tuple(sorted(set(names) - set(agreed)) or sorted(set(agreed) - set(names)))[:3]
            _refuse(contribution, refused, "features-differ", features=other, **who)
    return kept, agreed


def _agreed_features(
    contributions: Iterable[Contribution], study: Study | None
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the features of the study, or of most clients, and who has them in the words of a rejection."""
    if study is not None:
        return tuple(study.features), {"study": study.id}
    votes = Counter(tuple(c.features) for c in contributions if c.features is not None)
    most = max(votes.values(), default=0)
    return min((names for names, count in votes.items() if count == most), default=()), {"n_clients": most}


def _stack(screened: Screened, spool: Spool) -> Admitted:
    """Put the atoms side by side: in memory and ordered by content, or in a file and ordered by name."""
    if spool.used:  # sweeps over blocks then depend on the order of the names to rounding
        contributions: Sequence[Contribution] = screened.contributions
        source_array = atoms = spool.joined([c.atoms for c in contributions])
    else:
        contributions = sorted(screened.contributions, key=_by_content)
        source_array, atoms = None, np.concatenate([c.atoms for c in contributions], axis=1)
    owner = np.repeat(np.arange(len(contributions)), [c.n_atoms for c in contributions])
    return Admitted(
        atoms=columns_of(atoms, owner),
        client_of_atom=owner,
        clients=tuple(c.client for c in contributions),
        n_samples=np.array([c.n_samples or 0 for c in contributions], dtype=np.int64),
        terms=Terms(
            n_features=contributions[0].n_features,
            features=screened.features,
            independence=_declared(contributions, "independence"),
            mixing=_declared(contributions, "mixing"),
            study=_declared(contributions, "study"),
        ),
        rejected=screened.rejected,
        source_array=source_array,
    )


def _by_content(contribution: Contribution) -> tuple[bytes, str]:
    """Order contributions by their atoms to six digits: rounding in a client's fit must not shuffle them."""
    rounded = np.round(contribution.atoms, DIGITS_OF_ORDER) + 0.0  # no minus zero
    return blake2b(np.ascontiguousarray(rounded).data, digest_size=16).digest(), contribution.client


def _declared(contributions: Sequence[Contribution], term: str) -> str | None:
    return next((value for c in contributions if (value := getattr(c, term)) is not None), None)


def _admit_array(array: AtomArray) -> Admitted:
    """Admit the atoms of an array, which stay where they are."""
    return Admitted(
        atoms=columns_of_atom_array(array),
        client_of_atom=array.client_of_atom,
        clients=tuple(array.clients),
        n_samples=np.asarray(array.n_samples),
        terms=Terms(
            n_features=int(array.atoms.shape[0]),
            features=None if array.features is None else tuple(array.features),
            independence=array.independence,
            mixing=array.mixing,
            study=array.study,
        ),
        rejected=(),
        source_array=array.atoms,
    )

"""The door: contributions that fit together come in, side by side; the others are named with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from fedica.arrays import IntArray, check_choice
from fedica.blocks.columns import Columns, columns_of
from fedica.blocks.spool import Spool
from fedica.errors import InputError
from fedica.records import AtomArray, Contribution, Rejection, Terms
from fedica.server.bulk import columns_of_bulk

ON_BAD = ("raise", "reject")
DIGITS_OF_ORDER = 6
"""Digits of the atoms that decide on the order of the clients, on which the starts of k-means depend."""


@dataclass(frozen=True, eq=False)
class Admitted:
    """All atoms that came in, clients sorted by what they sent: neither the order of arrival nor a name leaves a trace.

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
        Who stayed outside, and why.
    given : array, optional
        What ``atoms`` reads, where that must not be copied: very many atoms, which are already in their last order.
    """

    atoms: Columns
    client_of_atom: IntArray
    clients: tuple[str, ...]
    n_samples: IntArray
    terms: Terms
    rejected: tuple[Rejection, ...]
    given: Any = None


def admit(contributions: Iterable[Contribution] | AtomArray, *, on_bad: str = "raise") -> Admitted:
    """Put together the contributions that agree with most of the others.

    Parameters
    ----------
    contributions : iterable of Contribution, or AtomArray
        One per client, in any order. Of an iterable that is no list, very many atoms go to a temporary file.
    on_bad : {"raise", "reject"}
        What to do with one that does not fit: stop, or go on without it.

    Returns
    -------
    Admitted
        The atoms side by side.
    """
    check_choice(on_bad, "on_bad", ON_BAD)
    if isinstance(contributions, AtomArray):
        return _admit_bulk(contributions)
    spool = Spool()
    arrived = list(
        map(_checked, contributions) if isinstance(contributions, list | tuple) else spool.kept(contributions)
    )
    if not arrived:
        raise InputError("aggregate wants at least one contribution; none came.")

    bad: list[Rejection] = []
    fitting = _one_per_client(sorted(arrived, key=lambda c: c.client), bad)
    for term in ("n_features", "study", "independence", "mixing", "grid"):
        fitting = _agreeing(fitting, term, bad)
    fitting, features = _same_features(fitting, bad)

    if bad and on_bad == "raise":
        raise bad[0].error()
    if not fitting:
        raise bad[0].error(f"no contribution is left: {len(bad)} were refused, the first because ")
    if spool.used:  # by name; sweeps over blocks then depend on that order to rounding
        given = spool.joined([c.atoms for c in fitting])
    else:
        fitting.sort(key=_by_content)
        given = None
    owner = np.repeat(np.arange(len(fitting)), [c.n_atoms for c in fitting])
    return Admitted(
        atoms=columns_of(np.concatenate([c.atoms for c in fitting], axis=1) if given is None else given, owner),
        client_of_atom=owner,
        clients=tuple(c.client for c in fitting),
        n_samples=np.array([c.n_samples or 0 for c in fitting], dtype=np.int64),
        terms=Terms(
            n_features=fitting[0].n_features,
            features=features,
            independence=_declared(fitting, "independence"),
            mixing=_declared(fitting, "mixing"),
            study=_declared(fitting, "study"),
        ),
        rejected=tuple(bad),
        given=given,
    )


def _by_content(contribution: Contribution) -> tuple[bytes, str]:
    """Order contributions by their atoms to six digits: rounding in a client's fit must not shuffle them."""
    rounded = np.round(contribution.atoms, DIGITS_OF_ORDER) + 0.0  # no minus zero
    return blake2b(np.ascontiguousarray(rounded).data, digest_size=16).digest(), contribution.client


def _admit_bulk(bulk: AtomArray) -> Admitted:
    """Let in the atoms of an array, which stay where they are."""
    return Admitted(
        atoms=columns_of_bulk(bulk),
        client_of_atom=bulk.client_of_atom,
        clients=tuple(bulk.clients),
        n_samples=np.asarray(bulk.n_samples),
        terms=Terms(
            n_features=int(bulk.atoms.shape[0]),
            features=None if bulk.features is None else tuple(bulk.features),
            independence=bulk.independence,
            mixing=bulk.mixing,
            study=bulk.study,
        ),
        rejected=(),
        given=bulk.atoms,
    )


def _checked(item: object) -> Contribution:
    if not isinstance(item, Contribution):
        raise InputError(f"aggregate wants Contribution records; a {type(item).__name__} came.")
    return item


def _one_per_client(contributions: list[Contribution], bad: list[Rejection]) -> list[Contribution]:
    """Keep one of identical contributions; refuse all of a name that came with different ones."""
    by_name: dict[str, list[Contribution]] = {}
    for contribution in contributions:
        by_name.setdefault(contribution.client, []).append(contribution)
    kept = []
    for name, group in by_name.items():
        if all(_identical(group[0], other) for other in group[1:]) and len(group) > 1:
            group = group[:1]  # noqa: PLW2901 - the same message delivered twice is one message
        if len(group) == 1:
            kept.append(group[0])
        else:
            bad.append(Rejection.because(name, "duplicate-name", n_contributions=len(group)))
    return kept


def _identical(one: Contribution, other: Contribution) -> bool:
    return one.n_samples == other.n_samples and np.array_equal(one.atoms, other.atoms)


def _agreeing(contributions: list[Contribution], term: str, bad: list[Rejection]) -> list[Contribution]:
    """Keep the contributions that agree with the value most declare; silence agrees with everything."""
    votes = Counter(value for c in contributions if (value := getattr(c, term)) is not None)
    if len(votes) < 2:
        return contributions
    (agreed, most), (_, second) = votes.most_common(2)
    if most == second:  # no majority: a guess would depend on the order of arrival
        values = tuple(sorted(votes, key=str))
        tally = {"term": term, "values": values, "counts": tuple(votes[value] for value in values)}
        bad.extend(Rejection.because(c.client, "no-majority", **tally) for c in contributions)
        return []
    kept = []
    for contribution in contributions:
        value = getattr(contribution, term)
        if value is None or value == agreed:
            kept.append(contribution)
        else:
            against = {"term": term, "value": value, "agreed": agreed, "n_clients": most}
            bad.append(Rejection.because(contribution.client, "term-differs", **against))
    return kept


def _same_features(
    contributions: list[Contribution], bad: list[Rejection]
) -> tuple[list[Contribution], tuple[str, ...] | None]:
    """Put atoms whose features came in another order into the order most clients use; refuse other names."""
    votes = Counter(tuple(c.features) for c in contributions if c.features is not None)
    if not votes:
        return contributions, None
    most = max(votes.values())
    agreed = min(names for names, count in votes.items() if count == most)
    position = {name: i for i, name in enumerate(agreed)}
    kept = []
    for contribution in contributions:
        if contribution.features is None or contribution.features == agreed:
            kept.append(contribution)
        elif set(contribution.features) == set(agreed):
            order = np.argsort([position[name] for name in contribution.features])
            kept.append(replace(contribution, features=agreed, atoms=contribution.atoms[order]))
        else:
            strange = sorted(set(contribution.features) - set(agreed))[:3]
            bad.append(
                Rejection.because(contribution.client, "features-differ", features=tuple(strange), n_clients=most)
            )
    return kept, agreed


def _declared(contributions: list[Contribution], term: str) -> str | None:
    return next((value for c in contributions if (value := getattr(c, term)) is not None), None)

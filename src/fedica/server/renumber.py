"""The same components in the same places as in an earlier aggregate, and what changed since."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedica.arrays import Array, IntArray, unit
from fedica.errors import InputError
from fedica.matching import match
from fedica.records import Aggregate, Trust

SAME = 30.0
"""Matched components of two aggregates within 30 degrees are the same."""


@dataclass(frozen=True, eq=False)
class Change:
    """What became of the components of an earlier aggregate.

    Parameters
    ----------
    places : ndarray of shape (r,)
        For each component now, its number then; -1 for a new one.
    angles : ndarray of shape (r,)
        By how many degrees it turned; NaN for a new one.
    gone : tuple of int
        Components of then that are no more.
    """

    places: IntArray
    angles: Array
    gone: tuple[int, ...]

    @property
    def new(self) -> tuple[int, ...]:
        """Components now that were not there then."""
        return tuple(np.flatnonzero(self.places < 0).tolist())


def keep_order(
    aggregate: Aggregate, mixing: Array, features: tuple[str, ...] | None = None
) -> tuple[Aggregate, Change]:
    """Renumber components like those of an earlier mixing matrix, with its signs, wherever they are the same.

    Parameters
    ----------
    aggregate : Aggregate
        The aggregate now.
    mixing : ndarray of shape (d, r_then)
        The mixing matrix then.
    features : tuple of str, optional
        Names of its rows. Rows are compared by name where both have names, else by place.

    Returns
    -------
    aggregate : Aggregate
        The same with its components renumbered: those of then first, in their order; new ones after them.
    change : Change
        What changed.

    Raises
    ------
    InputError
        If the two have no features in common.
    """
    now, then = _common_rows(aggregate, mixing, features)
    found = match(now, then)
    angles = np.degrees(np.arccos(np.minimum(found.cosines, 1.0)))
    places = np.where((found.labels >= 0) & (angles <= SAME), found.labels, -1)
    order = np.argsort(np.where(places >= 0, places, then.shape[1]), kind="stable")
    signs = np.where(places >= 0, found.signs, 1.0)[order]
    gone = tuple(sorted(set(range(then.shape[1])) - set(places.tolist())))
    change = Change(places[order], np.where(places >= 0, angles, np.nan)[order], gone)
    return renumber(aggregate, order, signs), change


def renumber(aggregate: Aggregate, order: IntArray, signs: Array) -> Aggregate:
    """Return the aggregate with component ``order[a]`` in place a, times its sign. order, signs : (r,)."""
    rank = np.append(np.argsort(order), -1)  # the last entry keeps the label -1
    labels = rank[aggregate.labels]
    certificate, trust = aggregate.certificate, aggregate.trust
    return replace(
        aggregate,
        mixing=aggregate.mixing[:, order] * signs,
        centres=aggregate.centres[:, order] * signs,
        labels=labels,
        signs=aggregate.signs * np.append(signs, 1.0)[labels],
        support=aggregate.support[order],
        spread=aggregate.spread[order],
        trust=None if trust is None else _renumber_trust(trust, order),
        certificate=None if certificate is None else replace(certificate, median_gap=certificate.median_gap[order]),
    )


def _renumber_trust(trust: Trust, order: IntArray) -> Trust:
    has = trust.has[:, order]
    why = tuple(
        reason.changed(missing=tuple(np.flatnonzero(~row).tolist())) if reason.numbers.get("missing") else reason
        for reason, row in zip(trust.why, has, strict=True)
    )
    return replace(trust, why=why, angles=trust.angles[:, order], has=has)


def _common_rows(aggregate: Aggregate, mixing: Array, features: tuple[str, ...] | None) -> tuple[Array, Array]:
    """Return both matrices on the rows that both have, unit columns."""
    own = aggregate.terms.features
    if own is not None and features is not None and own != features:
        place = {name: k for k, name in enumerate(features)}
        rows = [k for k, name in enumerate(own) if name in place]
        if len(rows) < 2:
            raise InputError(
                f"the earlier aggregate shares {len(rows)} of {len(own)} features with this one; it is of other data."
            )
        return unit(aggregate.mixing[rows]), unit(mixing[[place[own[k]] for k in rows]])
    if mixing.shape[0] != aggregate.mixing.shape[0]:
        raise InputError(
            f"the earlier aggregate has {mixing.shape[0]} features and this one {aggregate.mixing.shape[0]}, and they "
            "are not named, so the two cannot be compared."
        )
    return aggregate.mixing, unit(mixing)

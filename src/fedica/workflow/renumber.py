"""Number components as an earlier aggregate does, and say what changed since."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray, unit
from fedica.errors import InputError
from fedica.matching import match
from fedica.records import Aggregate

MAX_TURN = 30.0
"""Components of two aggregates that are matched and within this angle, in degrees, are the same."""


@dataclass(frozen=True, eq=False)
class Change:
    """What became of the components of an earlier aggregate.

    Parameters
    ----------
    places : ndarray of shape (r,)
        For each component now, its number in the earlier aggregate; -1 for a new one.
    angles : ndarray of shape (r,)
        By how many degrees it turned; NaN for a new one.
    gone : tuple of int
        Components of the earlier aggregate that are not found any more.
    """

    places: IntArray
    angles: Array
    gone: tuple[int, ...]

    @property
    def new(self) -> tuple[int, ...]:
        """Components that the earlier aggregate did not have."""
        return tuple(np.flatnonzero(self.places < 0).tolist())


def keep_order(
    aggregate: Aggregate,
    mixing: Array,
    features: tuple[str, ...] | None = None,
    *,
    last: BoolArray | None = None,
) -> tuple[Aggregate, Change]:
    """Give components the numbers and signs that they have in an earlier mixing matrix, wherever they are the same.

    Parameters
    ----------
    aggregate : Aggregate
        The new aggregate.
    mixing : ndarray of shape (d, r_earlier)
        The earlier mixing matrix.
    features : tuple of str, optional
        Names of its rows. Rows are compared by name where both have names, else by place.
    last : ndarray of shape (r,), optional
        Components of the new aggregate that come after all others.

    Returns
    -------
    aggregate : Aggregate
        The same with its components renumbered: earlier ones first, in their order; new ones after them.
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
    places = np.where((found.labels >= 0) & (angles <= MAX_TURN), found.labels, -1)
    after = np.zeros(places.size, dtype=np.bool_) if last is None else last
    order = np.lexsort((np.where(places >= 0, places, then.shape[1]), after))
    signs = np.where(places >= 0, found.signs, 1.0)[order]
    gone = tuple(sorted(set(range(then.shape[1])) - set(places.tolist())))
    change = Change(places[order], np.where(places >= 0, angles, np.nan)[order], gone)
    return aggregate.renumbered(order, signs), change


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

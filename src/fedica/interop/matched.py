"""Which atom of which client belongs to which component of the aggregate: components matched across subjects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedica.arrays import Array
from fedica.records import Aggregate


class Matched(NamedTuple):
    """One atom of one client, and the component that it belongs to.

    Parameters
    ----------
    client : str
        Name of the client.
    atom : int
        Number of the atom in its contribution: that of the component in the client's own ICA.
    component : int
        Number of the component of the aggregate; -1 if the atom belongs to none.
    nearest : int
        The component nearest to the atom: for nearly all atoms that belong to a component, that component. An atom
        belongs to none if it is too far away, or if the client has a nearer one.
    sign : int
        +1 or -1: the atom times its sign points along ``component``, or ``nearest`` if it belongs to none.
    cosine : float
        Cosine of the angle to that component. Below 0 only where components are nearly dependent, as when more were
        asked for than the atoms span.
    """

    client: str
    atom: int
    component: int
    nearest: int
    sign: int
    cosine: float


def matched(aggregate: Aggregate) -> list[Matched]:
    """List every atom of every client with the component that it belongs to.

    Sorted by component, then from the nearest to the farthest; those that belong to none are last. A client has at most
    one atom in a component when the aggregate is a consensus.

    Parameters
    ----------
    aggregate : Aggregate
        With its atoms, as `fedica.aggregate` returns it.

    Returns
    -------
    list of Matched
        ``pandas.DataFrame(matched(result))`` is a table of it; and
        ``{row.client: row.atom for row in matched(result) if row.component == 0}`` is the component of each client's
        own ICA to exclude when component 0 of the aggregate is that of blinks.
    """
    atoms: Array = np.asarray(aggregate.atoms, dtype=np.float64)
    cosines = atoms.T @ aggregate.mixing  # (R, r)
    rows = []
    place = np.zeros(len(aggregate.clients), dtype=np.int64)
    for k, (label, owner) in enumerate(zip(aggregate.labels.tolist(), aggregate.client_of_atom.tolist(), strict=True)):
        nearest = int(np.argmax(np.abs(cosines[k])))
        towards = label if label >= 0 else nearest
        sign = int(aggregate.signs[k]) if label >= 0 else (-1 if cosines[k, nearest] < 0 else 1)
        cosine = float(min(1.0, sign * cosines[k, towards]))
        rows.append(Matched(aggregate.clients[owner], int(place[owner]), label, nearest, sign, cosine))
        place[owner] += 1
    last = len(aggregate.support)
    return sorted(rows, key=lambda row: (row.component if row.component >= 0 else last, -row.cosine, row.client))

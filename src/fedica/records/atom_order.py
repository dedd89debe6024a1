"""The order in which a client sends its atoms: it tells their directions, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedica.records.contribution import Contribution

_DIGITS = 6
"""Entries that agree to so many digits count as equal: rounding must not change the order."""


def ordered_by_content(contribution: Contribution) -> Contribution:
    """Return the same contribution with its atoms sorted by their first entry, then by the second, and so on.

    A fit finds atoms in some order, as a rule that of the strengths of the sources, which are not to leave. `gram` and
    `uncertain` follow the atoms.
    """
    order = np.lexsort(np.round(contribution.atoms, _DIGITS)[::-1])
    gram, uncertain = contribution.gram, contribution.uncertain
    place = np.argsort(order)
    return replace(
        contribution,
        atoms=contribution.atoms[:, order],
        gram=None if gram is None else gram[np.ix_(order, order)],
        uncertain=None if uncertain is None else [int(place[k]) for k in uncertain],
    )

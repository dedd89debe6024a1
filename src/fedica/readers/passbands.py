"""Recordings that are joined must hold the same frequencies, sampled at the same rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fedica.errors import DataError
from fedica.readers.sheet import Table

_FILTERS = (("highpass", "high-pass"), ("lowpass", "low-pass"))
_RATE_TOL = 1e-3
"""Rates are stored as durations of records, or counted by a clock, and so a little off."""
_CUTOFF_TOL = 0.01


def check_passbands(first: Table, table: Table) -> None:
    """Refuse a recording with another sampling rate, or another filter, than the first one of a client.

    Of two rates the higher would count for more, and both mean other filters: the sources are not the same.
    """
    one, other = first.passband, table.passband
    if one is None or other is None:
        return
    if not math.isclose(one.rate, other.rate, rel_tol=_RATE_TOL):
        raise DataError(
            f"{table.source}: all recordings of a client must be sampled at the same rate; {first.source} is sampled "
            f"at {one.rate:g} Hz, this one at {other.rate:g} Hz. Resample them to one rate first, for example in MNE "
            f"by raw.resample({min(one.rate, other.rate):g})."
        )
    for name, what in _FILTERS:
        cutoffs = (getattr(one, name), getattr(other, name))
        if all(cutoffs) and not math.isclose(*cutoffs, rel_tol=_CUTOFF_TOL):
            narrower = max(cutoffs) if name == "highpass" else min(cutoffs)
            raise DataError(
                f"{table.source}: all recordings of a client must be filtered alike; the {what} of {first.source} is "
                f"at {cutoffs[0]:g} Hz, that of this one at {cutoffs[1]:g} Hz. Give --{name} {narrower:g}, or filter "
                "them alike first."
            )


def unsaid_filters(tables: Sequence[Table]) -> Iterator[str]:
    """Yield a note for each filter that one recording says it had, and another does not mention."""
    for name, what in _FILTERS:
        cutoffs = {table.source: getattr(table.passband, name) for table in tables if table.passband is not None}
        said = {source: cutoff for source, cutoff in cutoffs.items() if cutoff}
        silent = [source for source in cutoffs if source not in said]
        if said and silent:
            source, cutoff = next(iter(said.items()))
            yield (
                f"{source} was {what} filtered at {cutoff:g} Hz, as it says itself; {silent[0]} does not say so. If it "
                f"was not, give --{name} {cutoff:g}."
            )

"""Pieces of sentences that several rooms write. A leaf: of ours it imports nothing."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NAME_LENGTH = 60
"""A longer name is cut: names come from other people's files."""


def list_names(names: Sequence[str], most: int = 5) -> str:
    """Return ``'a', 'b' and 3 more``: the first names, quoted and cut, and how many there are besides.

    Examples
    --------
    >>> list_names(["Fp1", "Fp2", "Cz"], most=2)
    "'Fp1', 'Fp2' and 1 more"
    """
    listed = ", ".join(repr(name[:MAX_NAME_LENGTH]) for name in names[:most])
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")

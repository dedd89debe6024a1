"""The verdict on every client of a group, in the words of the consensus."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray
from fedica.records import Reason, Trust
from fedica.server.admission import Admitted
from fedica.server.group.counting import MUCH_LESS, fits
from fedica.server.group.find import Group


def judge_group(admitted: Admitted, found: Group) -> tuple[Trust, IntArray, Array]:
    """Return the trust of each client, and the support and the spread of each component: (r,) each.

    An angle is that of a component to the client's span, shrunk by its noise.
    """
    angles = np.degrees(np.arccos(np.sqrt(np.clip(found.inside, 0.0, 1.0))))
    counts = found.counting.counts
    supports = found.has & counts[:, None]
    spread = np.array([np.median(a[own]) if own.any() else 90.0 for a, own in zip(angles.T, supports.T, strict=True)])
    explained = np.full(len(counts), np.nan) if found.explained is None else found.explained.sum(axis=1)
    own_variance = _mostly_own(explained, counts)
    weak = found.counting.noisy | own_variance
    partial = ~found.has.all(axis=1)
    verdict = np.select([~counts, weak, partial], ["outlying", "weak", "partial"], default="trusted")
    trust = Trust(
        clients=admitted.clients,
        verdict=tuple(verdict.tolist()),
        why=tuple(
            _reason(admitted, found, angles, k, explained if own_variance[k] else None) for k in range(len(counts))
        ),
        angle=np.median(angles, axis=1),
        angles=angles,
        has=found.has,
        n_unmatched=np.zeros(len(counts), dtype=np.int64),
        influence=found.influence,
    )
    return trust, supports.sum(axis=0), spread


def _mostly_own(explained: Array, counts: BoolArray) -> BoolArray:
    """Whether the components explain much less of a client's variance than of the others', (K,)."""
    told = np.isfinite(explained) & counts
    return told & ~fits(np.where(told, explained, 0.0), told) if told.sum() > 2 else np.zeros_like(told)


def _reason(admitted: Admitted, found: Group, angles: Array, k: int, explained: Array | None) -> Reason:
    """Return why the verdict on client k is what it is. explained : (K,), if little of its variance is."""
    counting, likeness = found.counting, float(np.sqrt(np.median(found.inside[k])))
    numbers: dict[str, Any] = {
        "angle": float(np.median(angles[k])),
        "likeness": likeness,
        "chance": float(np.sqrt(found.chance[k])),
        "n_atoms": int((admitted.client_of_atom == k).sum()),
        "n_copies": int(counting.n_copies[k]),
        "missing": tuple(np.flatnonzero(~found.has[k]).tolist()),
    }
    if not counting.counts[k]:
        numbers["n_agreeing"] = _n_agreeing(found, k)
        if numbers["n_agreeing"]:
            return Reason("other-basis", numbers)
        return Reason("far" if found.has[k].any() else "no-match", numbers)
    if explained is not None:
        usual = float(np.nanmedian(explained[counting.counts]))
        return Reason("little-explained", {**numbers, "explained": float(explained[k]), "usual": usual})
    if counting.noisy[k]:
        return Reason("noisy", numbers)
    return Reason("partial" if numbers["missing"] else "agrees", numbers)


def _n_agreeing(found: Group, k: int) -> int:
    """Count the others left out that share about as much with client k as the typical client with the rest."""
    counting = found.counting
    near = ~counting.counts & (counting.shared[k] >= MUCH_LESS * counting.typical)
    near[k] = False
    return int(near.sum())

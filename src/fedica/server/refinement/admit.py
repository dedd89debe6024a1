"""Which second messages take part: those that refine the aggregate, one per client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedica.records import Aggregate, Rejection, Scores, client_key, fingerprints

NUMBERS = ("n_samples", "components", "study")
ARRAYS = ("scale", "covariance", "products", "slopes")


def admit_scores(result: Aggregate, scores: Sequence[Scores], on_bad: str) -> tuple[list[Scores], list[Rejection]]:
    """Return one message per client that refines this aggregate, sorted by name; and what is refused.

    Clients see the leading columns of the result, those that are published: how many, most clients tell. However many
    messages a client sends, it has one say in that; the same message twice counts once.
    """
    known = fingerprints(result.mixing, result.scale)
    votes = Counter(refines for _, refines in {(client_key(one.client), one.refines) for one in scores})
    n_columns = 1 + max(range(len(known)), key=lambda k: (votes[known[k]], k))
    wanted, rejected = known[n_columns - 1], []
    by_client: dict[str, list[Scores]] = {}
    for one in sorted(scores, key=lambda one: one.client):
        if one.refines != wanted:
            rejected.append(Rejection.because(one.client, "other-aggregate", refines=one.refines[:12]))
        elif one.components[-1] >= n_columns:
            numbers = {"component": one.components[-1], "n_components": n_columns}
            rejected.append(Rejection.because(one.client, "unknown-component", **numbers))
        else:
            by_client.setdefault(client_key(one.client), []).append(one)
    admitted = []
    for first, *others in by_client.values():
        if all(_same(first, other) for other in others):
            admitted.append(first)
        else:
            rejected += [Rejection.because(one.client, "duplicate-scores") for one in (first, *others)]
    if rejected and on_bad == "raise":
        raise rejected[0].error()
    return admitted, rejected


def _same(one: Scores, other: Scores) -> bool:
    """Whether two messages say the same: one message, delivered twice."""
    same = all(getattr(one, name) == getattr(other, name) for name in NUMBERS)
    return same and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ARRAYS)

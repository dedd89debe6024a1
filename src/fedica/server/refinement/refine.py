"""A second message of every client: the Newton step of ICA that their pooled data would take, from sums alone.

Who counts is decided in `agreement`; whether the step is taken, and how far, in `support`, (R7) and (R13). The step
itself is that of `pooled`, (R5) and (R6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

import numpy as np
from scipy.linalg import pinv
from scipy.stats import chi2

from fedica.arrays import NEAR_ZERO, Array, BoolArray, IntArray, check_choice, check_number, fix_signs, polar
from fedica.blocks import columns_of, group_medians
from fedica.errors import InputError
from fedica.records import Aggregate, Refinement, Scores
from fedica.records.checks import check_not_negative
from fedica.server.admission import ON_BAD
from fedica.server.agreement import angles_to
from fedica.server.refinement.admit import admit_scores
from fedica.server.refinement.agreement import (
    agreeing_clients,
    geometric_median,
    plausible_clients,
    readmitted_clients,
)
from fedica.server.refinement.own_fits import own_steps, unexplained
from fedica.server.refinement.pooled import Pooled
from fedica.server.refinement.steps import Statistics, median_scale, on_common_scale, steps_of
from fedica.server.refinement.support import MIN_GAIN, Judged, supported

MAX_WEIGHT = 10.0
"""No client weighs more than this many times the median client."""


def refine(
    result: Aggregate,
    scores: Sequence[Scores],
    *,
    max_weight: float | None = MAX_WEIGHT,
    min_gain: float = MIN_GAIN,
    on_bad: str = "raise",
) -> Aggregate:
    """Turn the components of an aggregate by the Newton step that the clients' second messages ask for.

    Clients whose second message does not fit the others' do not count; those that the first message showed outlying
    count only if theirs do, each and together. A client that sent no first message may take part. Where the step is not
    supported, or a part of it, the first answer stands, and ``refinement`` of the result tells why.

    Parameters
    ----------
    result : Aggregate
        What the clients scored their data with.
    scores : sequence of Scores
        One per client, in any order.
    max_weight : float, optional
        No client weighs more than this many times the median client; ``None``: each by its samples.
    min_gain : float
        The step is taken if its square is at least this times its expected squared error (more, where clients behind
        the first answer do not count), its expected error is not above that of the first answer, and clients share no
        deviation that could have caused it; the nearer to that, the less of it. 0: in any case, and whole.
    on_bad : {"raise", "reject"}
        What to do with scores of another aggregate, of components that it does not have, or different ones of one
        client: raise an error, or leave them out and list them in ``rejected`` of the result.

    Returns
    -------
    Aggregate
        The same with other ``mixing``, ``centres``, ``spread`` and ``refinement``.
    """
    check_choice(on_bad, "on_bad", ON_BAD)
    if max_weight is not None:
        check_number(max_weight, "max_weight", above=0)
    min_gain = check_not_negative(min_gain, "min_gain")
    admitted, rejected = admit_scores(result, scores, on_bad)
    result = replace(result, rejected=(*result.rejected, *rejected))
    outlying = set() if result.trust is None else set(result.trust.named("outlying"))
    trusted = np.array([one.client not in outlying for one in admitted], dtype=np.bool_)
    _check_some(trusted, len(rejected))
    names = [one.client for one in admitted]
    sent, counts = Statistics.of(admitted, result.n_components), trusted.copy()
    for _ in range(2):  # medians over all clients at first, then over those that count
        equal = _weights(sent.n_samples, 1.0) * counts
        statistics = on_common_scale(sent, equal)
        steps = steps_of(statistics, equal)
        plausible = plausible_clients(statistics)
        asked = trusted & plausible if (trusted & plausible).any() else trusted
        judged_steps = steps.of_clients(asked)
        centre = geometric_median(judged_steps)
        left = unexplained(steps, centre, equal, own_steps(steps, result, names, median_scale(statistics, equal)))
        counts = np.zeros_like(trusted)
        counts[asked] = agreeing_clients(judged_steps, centre, left.of_clients(asked))
    statistics = on_common_scale(sent, _weights(sent.n_samples, 1.0) * counts)  # medians of those that count in the end
    readmitted = readmitted_clients(steps, counts, ~trusted & plausible)
    judged = Judged(trusted | readmitted, counts | readmitted, len(result.clients) - len(outlying))
    weights = _weights(statistics.n_samples, max_weight) * judged.counts
    before = np.inf if min_gain == 0 else _error_before(result, outlying, statistics.of_clients(trusted))
    verdict = supported(steps, left.steps, weights, judged, min_gain, before)
    refinement = Refinement(
        round=2 if result.refinement is None else result.refinement.round + 1,
        refines=admitted[0].refines,
        taken=verdict.taken,
        reason=verdict.reason,
        turned=np.zeros(result.n_components),
        scale=result.scale,
        counted=tuple(compress(names, judged.counts)),
        left_out=tuple(compress(names, ~judged.counts)),
    )
    if not verdict.taken:
        return replace(result, refinement=refinement)
    pooled = Pooled.of(statistics, weights).without(*steps.as_matrices(verdict.left_out))
    return _turn(result, pooled, refinement)


def _check_some(trusted: BoolArray, n_refused: int) -> None:
    """Refuse second messages of which none can be used. trusted : (K,), of those that were admitted."""
    if not trusted.any():
        raise InputError(
            f"no second message can be used: of {trusted.size + n_refused}, {n_refused} were refused and the others "
            "are of clients that the first message showed outlying. The first answer stands."
        )


def _weights(n_samples: Array, max_weight: float | None) -> Array:
    """Weigh clients by their samples, capped at a multiple of the median client's, (K,)."""
    return n_samples if max_weight is None else np.minimum(n_samples, max_weight * np.median(n_samples))


def _error_before(result: Aggregate, outlying: set[str], statistics: Statistics) -> float:
    """Squared error that the atoms of a first answer let expect of it, in the coordinates of the sources.

    Infinite for an answer that was refined before: its error is not that of the atoms.
    """
    refined = result.scale is not None or (result.refinement is not None and result.refinement.taken)
    if refined or result.n_components < 2:
        return np.inf
    scale, r = median_scale(statistics, _weights(statistics.n_samples, 1.0)), result.n_components
    scored = scale > 0
    inverse = np.asarray(pinv(result.mixing)) / np.where(scored, scale, np.inf)[:, None]
    judged = [k for k, name in enumerate(result.clients) if name not in outlying]
    labels = np.where(np.isin(result.client_of_atom, judged) & scored[result.labels], result.labels, -1)

    def squares_of(block: Array, label: IntArray) -> tuple[Array]:
        along = inverse @ block
        own = along[label, np.arange(label.size)] ** 2
        return (np.sum(along**2, axis=0) / np.maximum(own, NEAR_ZERO**2) - 1,)

    (squares,) = columns_of(result.atoms, result.client_of_atom).each(squares_of, labels)
    typical = group_medians(squares, labels, r, empty=np.inf) * (r - 1) / chi2.median(r - 1)
    return float(np.sum((typical / np.maximum(np.bincount(labels[labels >= 0], minlength=r), 1))[scored]))


def _turn(result: Aggregate, pooled: Pooled, refinement: Refinement) -> Aggregate:
    """Return the result with its components turned by the pooled step."""
    labels, before = pooled.labels, result.mixing
    columns = np.linalg.solve(pooled.step().T, (before[:, labels] * pooled.scale).T).T
    lengths = np.linalg.norm(columns, axis=0)
    columns = columns / lengths
    if result.terms.mixing == "orthogonal":
        columns = polar(columns)
    mixing, centres = before.copy(), result.centres.copy()
    mixing[:, labels] = columns
    centres[:, labels] = columns * np.linalg.norm(result.centres[:, labels], axis=0)
    scale = np.full(result.n_components, np.nan)
    scale[labels] = lengths
    chord = np.minimum(*(np.linalg.norm(before + sign * mixing, axis=0) for sign in (-1, 1)))  # 0 where nothing turned
    turned = np.degrees(2 * np.arcsin(np.minimum(chord / 2, 1.0)))
    angles = angles_to(columns_of(result.atoms, result.client_of_atom), mixing, result.labels)
    refined = replace(
        result,
        mixing=mixing,
        centres=centres,
        spread=group_medians(angles, result.labels, result.n_components, empty=90.0),
        refinement=replace(refinement, turned=turned, scale=scale if pooled.same_scale else None),
    )
    return refined.renumbered(np.arange(result.n_components), fix_signs(mixing)[1])

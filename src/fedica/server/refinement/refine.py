"""A second message of every client: the Newton step of ICA that their pooled data would take, from sums alone.

(R7) The step is taken where more than half of the clients agree on it, and its mean square over its expected error is
     at least `MIN_GAIN`, and at least 2 (1 - f) where only a share f of the clients behind the first answer count: an
     answer of all that lost nothing differs from one of some of them by 1 - f on average, and is better. And where its
     expected error is not above that of the first answer, which is the median squared error of the atoms over their
     number, all in the coordinates of the sources; or the step is longer than both errors explain (`BIASED`). Where
     clients share a deviation that may have made it (R8), it is taken without its part along that deviation, if at all.

The step itself is that of `pooled`, (R5) and (R6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from fedica.server.refinement.shared import contested
from fedica.server.refinement.steps import Statistics, Steps, median_scale, on_common_scale, steps_of

MAX_WEIGHT = 10.0
"""No client weighs more than this many times the median client."""
MIN_GAIN = 0.12
"""A step whose square is below this times its expected error is not worth taking."""
SLACK = 1.05
"""The expected squared error of the step may be this much above that of the first answer."""
MAX_MOVED = 0.15
"""A step is not taken whole if deviations that clients share may have caused more than this of its square: without its
part along one of many directions it loses little."""
MAX_CONTESTED = 0.47
"""The same where one of these deviations was found from the step itself: a step of which half is bias is no gain. And a
step is not taken at all if so much of what is left of it may still be theirs."""
BIASED = 4.0
"""A first answer that claims a smaller error than the step has is believed, unless the step is longer than that error
explains: its square at least 1 + 4 (ratio - 1) times its own, for the ratio of the two."""


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
        deviation that could have caused it; 0: in any case.
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
    if not trusted.any():
        raise InputError(
            f"no second message can be used: of {len(scores)}, {len(rejected)} were refused and the others are of "
            "clients that the first message showed outlying. The first answer stands."
        )
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
    readmitted = readmitted_clients(steps, counts, ~trusted & plausible)
    judged = Judged(trusted | readmitted, counts | readmitted, len(result.clients) - len(outlying))
    weights = _weights(statistics.n_samples, max_weight) * judged.counts
    before = np.inf if min_gain == 0 else _error_before(result, outlying, statistics.of_clients(trusted))
    verdict = _supported(steps, left.steps, weights, judged, min_gain, before)
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


@dataclass(frozen=True, eq=False)
class Judged:
    """Clients whose second messages were looked at, and those that count, (K,); n_first : how many gave the first."""

    judged: BoolArray
    counts: BoolArray
    n_first: int


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether the step is taken, why, and the part of it that is left out, in the values of `Steps`, (p,)."""

    taken: bool
    reason: str
    left_out: Array


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


def _supported(
    steps: Steps, left: Steps, weights: Array, judged: Judged, min_gain: float, error_before: float
) -> Verdict:
    """Decide whether the step is taken, or a part of it, and say why."""  # (R7)
    counts, n_clients = judged.counts, int(judged.judged.sum())
    n_counted = int(counts.sum())
    mean, errors = steps.mean(weights), steps.expected_errors(weights)
    whole = np.zeros_like(mean)
    if 2 * n_counted <= n_clients:
        return Verdict(False, f"only {n_counted} of {n_clients} clients agree on a step; more than half must.", whole)
    least = max(min_gain, 2 * (1 - n_counted / judged.n_first))
    known = np.isfinite(errors)
    dispersion = max(1.0, float(np.median(steps.distances(mean)[counts])))

    def gain_of(step: Array) -> float:
        return float(np.mean(step[known] ** 2 / errors[known])) / dispersion if known.any() else 0.0

    def square_of(step: Array) -> float:
        return max(float(steps.in_sources[known] @ step[known] ** 2), 1e-300)

    gain = gain_of(mean)
    size = f"{n_counted} of {n_clients} clients agree on a step of {np.sqrt(gain):.2f} times its own error"
    if gain < least:
        return Verdict(
            False, f"{size}; below {np.sqrt(least):.2f} times it is not better than the answer before.", whole
        )
    ratio = dispersion * float(steps.in_sources[known] @ errors[known]) / error_before
    if ratio > SLACK and gain < 1 + BIASED * (ratio - 1):
        return Verdict(False, f"{size}, which is {np.sqrt(ratio):.2f} times that of the answer before.", whole)
    shared = contested(steps, left, weights)
    allowed = MAX_CONTESTED if shared.along_step else MAX_MOVED
    if min_gain == 0 or shared.square <= allowed * square_of(mean):
        return Verdict(True, f"{size}.", whole)
    share = np.sqrt(shared.square / square_of(mean))
    size = f"{size}, but a deviation that some of them share may be {share:.2f} times it"
    along = (shared.directions @ mean) @ shared.directions
    if gain_of(mean - along) < least or shared.hidden > MAX_CONTESTED * square_of(mean - along):
        return Verdict(False, f"{size}.", whole)
    return Verdict(True, f"{size}; its part along this is left out.", along)


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

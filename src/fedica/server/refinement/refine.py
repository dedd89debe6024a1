"""A second message of every client: the Newton step of ICA that their pooled data would take, from sums alone.

(R5) M = G C^-1 - diag(h) of the pooled averages: one step of FastICA for each source, whatever their covariance C.
(R6) W = (M C M')^(-1/2) M: the nearest decorrelated sources, W y of covariance I. Its rows get the sign of their
     diagonal. The new matrix is B diag(scale) W^-1.
(R7) The step is taken where more than half of the clients agree on it, and its mean square over its expected error is
     at least `MIN_GAIN`, and at least 2 (1 - f) where only a share f of the clients behind the first answer count: an
     answer of all that lost nothing differs from one of some of them by 1 - f on average, and is better. And where its
     expected error is not above that of the first answer, which is the median squared error of the atoms over their
     number, all in the coordinates of the sources; or the step is longer than both errors explain (`BIASED`).

The first two repeated are symmetric FastICA on the pooled data: at its fixed point C = I and M is diagonal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh, pinv
from scipy.stats import chi2

from fedica.arrays import NEAR_ZERO, Array, BoolArray, IntArray, check_choice, check_number, fix_signs, polar
from fedica.blocks import columns_of, group_medians
from fedica.errors import InputError
from fedica.records import Aggregate, Refinement, Rejection, Scores, fingerprints
from fedica.records.checks import check_not_negative
from fedica.server.admission import ON_BAD
from fedica.server.agreement import angles_to
from fedica.server.refinement.agreement import agreeing_clients
from fedica.server.refinement.steps import Statistics, Steps, median_scale, on_common_scale, steps_of

MAX_WEIGHT = 10.0
"""No client weighs more than this many times the median client."""
MIN_GAIN = 0.05
"""A step whose square is below this times its expected error is not worth taking."""
SLACK = 1.05
"""The expected squared error of the step may be this much above that of the first answer."""
BIASED = 4.0
"""A first answer that claims a smaller error than the step has is believed, unless the step is longer than that error
explains: its square at least 1 + 4 (ratio - 1) times its own, for the ratio of the two."""
MIN_VARIANCE = 1e-3
"""Eigenvalues of the pooled covariance are at least this."""


def refine(
    result: Aggregate,
    scores: Sequence[Scores],
    *,
    max_weight: float | None = MAX_WEIGHT,
    min_gain: float = MIN_GAIN,
    on_bad: str = "raise",
) -> Aggregate:
    """Turn the components of an aggregate by the Newton step that the clients' second messages ask for.

    Clients that the first message showed outlying do not count, nor do those whose second message does not fit the
    others'. A client that sent no first message may take part. Where the step is not supported the first answer stands,
    and ``refinement`` of the result tells why.

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
        the first answer do not count), and its expected error is not above that of the first answer; 0: in any case.
    on_bad : {"raise", "reject"}
        What to do with scores of another aggregate, or a second time from one client: raise an error, or leave them
        out and list them in ``rejected`` of the result.

    Returns
    -------
    Aggregate
        The same with other ``mixing``, ``centres``, ``spread`` and ``refinement``.
    """
    check_choice(on_bad, "on_bad", ON_BAD)
    if max_weight is not None:
        check_number(max_weight, "max_weight", above=0)
    min_gain = check_not_negative(min_gain, "min_gain")
    admitted, rejected = _admit(result, scores, on_bad)
    result = replace(result, rejected=(*result.rejected, *rejected))
    outlying = set() if result.trust is None else set(result.trust.named("outlying"))
    candidates = [one for one in admitted if one.client not in outlying]
    if not candidates:
        raise InputError(
            f"no second message can be used: of {len(scores)}, {len(rejected)} were refused and the others are of "
            "clients that the first message showed outlying. The first answer stands."
        )
    statistics = Statistics.of(candidates, result.n_components)
    equal = _weights(statistics.n_samples, 1.0)
    statistics = on_common_scale(statistics, equal)
    steps = steps_of(statistics, equal)
    counts = agreeing_clients(steps)
    weights = _weights(statistics.n_samples, max_weight) * counts
    n_first = len(result.clients) - len(outlying)
    least = max(min_gain, 2 * (1 - counts.sum() / n_first))
    before = np.inf if min_gain == 0 else _error_before(result, outlying, statistics)
    taken, reason = _supported(steps, weights, counts, least, before)
    names = np.array([one.client for one in candidates])
    refinement = Refinement(
        round=2 if result.refinement is None else result.refinement.round + 1,
        refines=candidates[0].refines,
        taken=taken,
        reason=reason,
        turned=np.zeros(result.n_components),
        scale=result.scale,
        counted=tuple(names[counts].tolist()),
        left_out=tuple(sorted({one.client for one in admitted} - set(names[counts].tolist()))),
    )
    if not taken:
        return replace(result, refinement=refinement)
    return _turn(result, Pooled.of(statistics, weights), refinement)


def _admit(result: Aggregate, scores: Sequence[Scores], on_bad: str) -> tuple[list[Scores], list[Rejection]]:
    """Return one message per client that refines this aggregate, sorted by name; and what is refused.

    Clients see the leading columns of the result, those that are published: how many, most messages tell.
    """
    known = fingerprints(result.mixing, result.scale)
    refined = Counter(one.refines for one in scores if one.refines in known)
    (wanted, _), *_ = refined.most_common(1) or [(known[-1], 0)]
    n_messages = Counter(one.client for one in scores if one.refines == wanted)
    admitted, rejected = [], []
    for one in sorted(scores, key=lambda one: one.client):
        if one.refines != wanted:
            rejected.append(Rejection.because(one.client, "other-aggregate", refines=one.refines[:12]))
        elif n_messages[one.client] > 1:
            rejected.append(Rejection.because(one.client, "duplicate-scores"))
        else:
            admitted.append(one)
    if rejected and on_bad == "raise":
        raise rejected[0].error()
    return admitted, rejected


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
    steps: Steps, weights: Array, counts: BoolArray, min_gain: float, error_before: float
) -> tuple[bool, str]:
    """Decide whether the step is taken, and say why."""  # (R7)
    n_counted, n_clients = int(counts.sum()), counts.size
    if 2 * n_counted <= n_clients:
        return False, f"only {n_counted} of {n_clients} clients agree on a step; more than half must."
    mean, errors = steps.mean(weights), steps.expected_errors(weights)
    known = np.isfinite(errors)
    dispersion = max(1.0, float(np.median(steps.distances(mean)[counts])))
    gain = float(np.mean(mean[known] ** 2 / errors[known])) / dispersion if known.any() else 0.0
    size = f"{n_counted} of {n_clients} clients agree on a step of {np.sqrt(gain):.2f} times its own error"
    if gain < min_gain:
        return False, f"{size}; below {np.sqrt(min_gain):.2f} times it is not better than the answer before."
    ratio = dispersion * float(steps.in_sources[known] @ errors[known]) / error_before
    if ratio > SLACK and gain < 1 + BIASED * (ratio - 1):
        return False, f"{size}, which is {np.sqrt(ratio):.2f} times that of the answer before."
    return True, f"{size}."


@dataclass(frozen=True, eq=False)
class Pooled:
    """Averages over the clients that count, for the components that any of them has.

    labels : (m,), these components; covariance, products : (m, m); slopes, scale : (m,); same_scale : as in
    `Statistics`.
    """

    labels: IntArray
    covariance: Array
    products: Array
    slopes: Array
    scale: Array
    same_scale: bool

    @classmethod
    def of(cls, statistics: Statistics, weights: Array) -> Pooled:
        """Average the statistics of clients. weights : (K,)."""
        labels = np.flatnonzero(weights @ statistics.has)
        has = statistics.has[:, labels].astype(np.float64)
        total = weights @ has
        pairs = np.maximum((has * weights[:, None]).T @ has, 1e-300)
        grid = np.ix_(labels, labels)
        return cls(
            labels,
            covariance=np.tensordot(weights, statistics.covariance, 1)[grid] / pairs,
            products=np.tensordot(weights, statistics.products, 1)[grid] / pairs,
            slopes=(weights @ statistics.slopes)[labels] / total,
            scale=np.sqrt(weights @ statistics.scale[:, labels] ** 2 / total),
            same_scale=statistics.same_scale,
        )

    def step(self) -> Array:
        """Return the matrix W (m, m) that takes the sources to those of one step of symmetric FastICA."""
        values, vectors = eigh(self.covariance)
        root = (vectors * np.sqrt(np.maximum(values, MIN_VARIANCE))) @ vectors.T
        inverse = (vectors / np.sqrt(np.maximum(values, MIN_VARIANCE))) @ vectors.T
        M = self.products @ inverse @ inverse - np.diag(self.slopes)  # (R5)
        W = polar(M @ root) @ inverse  # (R6)
        return np.asarray(W * np.where(np.diagonal(W) < 0, -1.0, 1.0)[:, None])


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
    turned = np.degrees(np.arccos(np.clip(np.abs(np.einsum("da,da->a", before, mixing)), 0.0, 1.0)))
    angles = angles_to(columns_of(result.atoms, result.client_of_atom), mixing, result.labels)
    refined = replace(
        result,
        mixing=mixing,
        centres=centres,
        spread=group_medians(angles, result.labels, result.n_components, empty=90.0),
        refinement=replace(refinement, turned=turned, scale=scale if pooled.same_scale else None),
    )
    return refined.renumbered(np.arange(result.n_components), fix_signs(mixing)[1])

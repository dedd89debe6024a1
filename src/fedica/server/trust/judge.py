"""Compare every client with the others: who is outlying, weak or partial."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student_t

from fedica.arrays import Array, BoolArray, IntArray
from fedica.server.admission import Admitted
from fedica.server.agreement import client_cut, client_distances
from fedica.server.assign import Assignment
from fedica.server.trust.likeness import client_likeness, unlike_others
from fedica.server.trust.measure import Measured

FALSE_ALARMS = 0.02
"""Share of honest clients that may be called outlying, in all."""
UNLIKE_ALARMS, FAR_ALARMS, FEW_MATCHES_ALARMS = 0.75 * FALSE_ALARMS, 0.2 * FALSE_ALARMS, 0.05 * FALSE_ALARMS
"""The same for too little likeness, too large a distance and too few matches: most of it where wrecked people show."""
CLOSE = float(np.tan(np.radians(5.0)))
"""A client whose atoms are within 5 degrees is never outlying, however closely the others agree."""
FARTHER = 1.5
"""Nor is one nearer than this many times the typical distance."""
MAX_MATCHED = 0.9
"""Components of one's own are normal: no client is expected to match more than this share."""
FEW_SAMPLES = 1.5
"""Few samples: n_samples predicts an error above 1.5 times the typical one."""
SAMPLES_SLACK = 3.0
"""Few samples explain up to 3 times the error that they predict."""
MIN_FEW = 3
"""Clients with few samples from which on they tell what few samples do; their likeness falls short by up to"""
LIKENESS_SLACK = 1.5
"""times the squared error that they predict, but never by more than 1/n."""
SAMPLES_NEEDED = 40.0
"""Below 40 r^2 samples, and a quarter of the others', a local ICA may find anything: theory asks for r^2 at least."""
SPAN_KEPT = 0.75
"""But in a span that has this share of what the others' spans have of the components beyond chance."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Verdicts, (K,) each, and what they rest on."""

    outlying: BoolArray
    weak: BoolArray
    partial: BoolArray
    few_samples: BoolArray
    few_matches: BoolArray
    unlike: BoolArray
    undetermined: BoolArray


def judge(measured: Measured, n_samples: IntArray) -> Judged:
    """Compare every client with the others.

    A client is outlying when it is farther from the components, matches fewer of them, or is much less like them, than
    clients like the others are in all but ``FALSE_ALARMS`` of the cases; and its samples do not explain it. One that
    agrees on what it has, but lacks components or has others of its own, is partial.
    """
    distance, typical = measured.distance, measured.radius
    log = np.log(np.maximum(distance, 1e-9) ** 2)
    far = (log > 2 * np.log(typical) + _reach(measured.deviation)) & (distance > np.maximum(FARTHER * typical, CLOSE))
    few_matches = _fewer_matches(measured)
    unlike = unlike_others(measured.likeness, measured.n_given, measured.within, measured.chance, UNLIKE_ALARMS)
    excess = _expected_excess(n_samples, distance, typical)
    few = excess > FEW_SAMPLES
    hardly_any = n_samples < np.minimum(SAMPLES_NEEDED * measured.has.shape[1] ** 2, _usual_samples(n_samples) / 4)
    near = np.where(
        unlike,
        measured.likeness >= expected_likeness(measured.likeness, excess),
        distance <= SAMPLES_SLACK * excess * typical,
    )
    explained = few & (near | (hardly_any & span_is_right(measured.chance.inside, excess)))
    outlying = (far | few_matches | unlike) & ~explained
    noisy = distance > client_cut(measured.has.shape[1]) * typical
    weak = (noisy | far | few_matches | unlike) & ~outlying
    partial = ((measured.n_unmatched > 0) | ~measured.has.all(axis=1)) & ~outlying & ~weak
    return Judged(outlying, weak, partial, few, few_matches, unlike, np.zeros_like(few))


def excuse_uncertain(measured: Measured, judged: Judged, admitted: Admitted, assignment: Assignment) -> Judged:
    """Judge clients without the atoms of which they say themselves that their data does not determine them.

    A client that only such atoms make outlying is weak, and so is one that marks more than half of its atoms: who is
    not sure of its atoms cannot be blamed for them, nor be trusted for having said so.
    """
    owner, n_clients, certain = admitted.client_of_atom, measured.distance.size, ~admitted.uncertain
    if certain.all():
        return judged
    n_certain = np.bincount(owner[certain], minlength=n_clients)
    labels = np.where(certain, assignment.labels, -1)
    distance = client_distances(replace(assignment, labels=labels), owner, n_clients)
    likeness, n_given = client_likeness(measured.angle_of_atom, labels, owner, n_clients)
    likeness = np.where(n_given > 0, likeness, measured.likeness)
    by_certain = np.zeros_like(measured.has)  # (K, r): components that were given a certain atom
    by_certain[owner[labels >= 0], labels[labels >= 0]] = True
    without = judge(
        replace(
            measured,
            distance=np.where(np.isfinite(distance), distance, measured.distance),
            n_matched=(measured.has & by_certain).sum(axis=1),
            has_allowing=measured.has_allowing & by_certain,
            n_possible=np.minimum(n_certain, measured.has.shape[1]),
            likeness=likeness,
            n_given=n_given,
        ),
        admitted.n_samples,
    )
    outlying = judged.outlying & without.outlying & (n_certain > 0)
    undetermined = (judged.outlying | (2 * n_certain < measured.n_atoms)) & ~outlying
    weak = (without.weak | without.outlying | undetermined) & ~outlying
    partial = without.partial & ~weak & ~outlying
    return replace(without, outlying=outlying, weak=weak, partial=partial, undetermined=undetermined)


def _reach(deviation: Array) -> Array:
    """By how much the logarithm of a client's squared distance may exceed the typical one. deviation : (K,)."""
    return np.asarray(float(student_t.ppf(1 - FAR_ALARMS, max(deviation.size - 1, 2))) * deviation)


def _fewer_matches(measured: Measured) -> BoolArray:
    """Whether a client matches fewer components than clients like the others would but for one in a thousand.

    A client that is noisier than most, and not so much that it is far, is not blamed a second time for atoms that its
    noise takes away from the components.
    """
    possible = measured.n_possible
    share = measured.n_matched / np.maximum(possible, 1)
    usual = float(np.median(share))
    usual = min(usual - float(np.median(np.abs(share - usual))), MAX_MATCHED)
    return np.asarray(binom.cdf(measured.has_allowing.sum(axis=1), possible, max(usual, 0.0)) <= FEW_MATCHES_ALARMS)


def _usual_samples(n_samples: IntArray) -> float:
    declared = n_samples[n_samples > 0]
    return float(np.median(declared)) if declared.size else 0.0


def _expected_excess(n_samples: IntArray, distance: Array, radius: float) -> Array:
    """Error that declared samples predict, in radii: sqrt(n_typical / n), at least one."""
    typical = n_samples[(distance <= radius) & (n_samples > 0)]
    if typical.size == 0:
        return np.ones(n_samples.size)
    ratio = np.median(typical) / np.maximum(n_samples, 1)
    return np.asarray(np.where(n_samples > 0, np.sqrt(np.maximum(ratio, 1.0)), 1.0))


def span_is_right(inside: Array, excess: Array) -> BoolArray:
    """Whether few samples may have turned a client's atoms within a span that is right, or is as they explain, (K,).

    A local ICA of few samples may find anything, but within the leading directions of the data, which need far fewer.
    """
    error = 1 / np.maximum(inside, 1e-2) - 1
    typical, squares, few = max(float(np.median(error)), 1e-12), excess**2, excess > FEW_SAMPLES
    predicted = SAMPLES_SLACK * squares
    if np.count_nonzero(few) >= MIN_FEW:
        share = max(float(np.median((error[few] / typical - 1) / (squares[few] - 1))), 0.0)
        predicted = np.minimum(LIKENESS_SLACK * (1 + share * (squares - 1)), predicted)
    return np.asarray((inside >= SPAN_KEPT * np.median(inside)) | (error <= typical * predicted))


def expected_likeness(likeness: Array, excess: Array) -> Array:
    """Mean cosine that declared samples predict, (K,).

    All of the typical client's error may be one of sampling: then its square is proportional to 1/n. Where several
    clients have few samples, their median tells how much of that there is.
    """
    usual = max(float(np.median(likeness)), 1e-3)
    typical, squares = max(1 / usual**2 - 1, 1e-12), excess**2
    few, share = excess > FEW_SAMPLES, 1.0
    if np.count_nonzero(few) >= MIN_FEW:
        errors = (1 / np.maximum(likeness[few], 1e-3) ** 2 - 1) / typical
        share = float(np.clip(np.median((errors - 1) / (squares[few] - 1)), 0.0, 1.0))
    predicted = np.minimum(LIKENESS_SLACK * (1 + share * (squares - 1)), squares)
    return np.asarray(1 / np.sqrt(1 + typical * predicted))

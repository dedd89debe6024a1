"""Whether the step that clients agree on is taken, and how far.

(R7) The step is taken where more than half of the clients agree on it, and its mean square over its expected error, its
     gain q, is at least `MIN_GAIN`. And where its expected error is not above that of the first answer, which is the
     median squared error of the atoms over their number, all in the coordinates of the sources; or the step is longer
     than both errors explain (`BIASED`). Where clients share a deviation that may have made it (R8), it is taken
     without its part along that deviation.
(R13) It is taken by (q (1 - u) - (1 - f)) / (q + `CAUTION`) of its length, if at all: f is the share of the clients
     behind the first answer that count, since an answer of all that lost nothing differs from one of some of them by
     1 - f on average; u the share of its square that may be of a deviation whose direction is not known (R8).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, BoolArray
from fedica.server.refinement.shared import contested
from fedica.server.refinement.steps import Steps

MIN_GAIN = 0.12
"""A step whose square is below this times its expected error is not worth taking."""
SLACK = 1.05
"""The expected squared error of the step may be this much above that of the first answer."""
MAX_MOVED = 0.15
"""A step is not taken whole if deviations that clients share may have caused more than this of its square: without its
part along one of many directions it loses little."""
MAX_CONTESTED = 0.47
"""The same where one of these deviations was found from the step itself: a step of which half is bias is no gain."""
CAUTION = 0.2
"""A step whose square is just its expected error is taken by 1 / (1 + this) of its length: a part of the clients that
cannot be told from the others may have made some of it. The squared error grows by at most a quarter of this."""
BIASED = 4.0
"""A first answer that claims a smaller error than the step has is believed, unless the step is longer than that error
explains: its square at least 1 + 4 (ratio - 1) times its own, for the ratio of the two."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Clients whose second messages were looked at, and those that count, (K,); n_first : how many gave the first."""

    judged: BoolArray
    counts: BoolArray
    n_first: int

    @property
    def absent(self) -> float:
        """Share of the clients behind the first answer that do not count."""
        return max(1 - int(self.counts.sum()) / self.n_first, 0.0) if self.n_first else 0.0


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether the step is taken, why, and the part of it that is left out, in the values of `Steps`, (p,)."""

    taken: bool
    reason: str
    left_out: Array


def supported(
    steps: Steps, left: Steps, weights: Array, judged: Judged, min_gain: float, error_before: float
) -> Verdict:
    """Decide whether the step is taken, or a part of it, and say why.

    left : what first messages do not explain of the steps (R10); weights : (K,), zero for clients that do not count;
    error_before : expected squared error of the answer before, in the sources.
    """
    n_clients, n_counted = int(judged.judged.sum()), int(judged.counts.sum())
    mean, errors = steps.mean(weights), steps.expected_errors(weights)
    whole = np.zeros_like(mean)
    if 2 * n_counted <= n_clients:
        return Verdict(False, f"only {n_counted} of {n_clients} clients agree on a step; more than half must.", whole)
    known = np.isfinite(errors)
    dispersion = max(1.0, float(np.median(steps.distances(mean)[judged.counts])))

    def gain_of(step: Array) -> float:
        return float(np.mean(step[known] ** 2 / errors[known])) / dispersion if known.any() else 0.0

    gain, least = gain_of(mean), max(min_gain, judged.absent)
    size = f"{n_counted} of {n_clients} clients agree on a step of {np.sqrt(gain):.2f} times its own error"
    if min_gain == 0:
        return Verdict(True, f"{size}.", whole)
    if gain <= least:  # (R7), and (R13): nothing would be left
        return Verdict(
            False, f"{size}; below {np.sqrt(least):.2f} times it is not better than the answer before.", whole
        )
    ratio = dispersion * float(steps.in_sources[known] @ errors[known]) / error_before
    if ratio > SLACK and gain < 1 + BIASED * (ratio - 1):
        return Verdict(False, f"{size}, which is {np.sqrt(ratio):.2f} times that of the answer before.", whole)
    step, unknown, shared = _uncontested(steps, left, weights)
    gain = gain_of(step)
    length = (gain * (1 - unknown) - judged.absent) / (gain + CAUTION)  # (R13)
    if gain < min_gain or length <= 0:
        return Verdict(False, f"{size}{shared}.", whole)
    left_out = "; its part along this is left out" if shared else ""
    return Verdict(True, f"{size}{shared}{left_out}; {length:.2f} of it is taken.", mean - length * step)


def _uncontested(steps: Steps, left: Steps, weights: Array) -> tuple[Array, float, str]:
    """Return the step without its part along deviations that some clients share, if these may have made it.

    Beside it the share of its square that may be theirs still, and what is said of it. The arguments are as in
    `supported`.
    """  # (R8)
    mean, shared = steps.mean(weights), contested(steps, left, weights)
    known = weights @ steps.has > 0

    def square_of(step: Array) -> float:
        return max(float(steps.in_sources[known] @ step[known] ** 2), 1e-300)

    if shared.square <= (MAX_CONTESTED if shared.along_step else MAX_MOVED) * square_of(mean):
        return mean, 0.0, ""
    share = np.sqrt(shared.square / square_of(mean))
    step = mean - (shared.directions @ mean) @ shared.directions
    told = f", but a deviation that some of them share may be {share:.2f} times it"
    return step, shared.hidden / square_of(step), told

"""The verdict on every client, with its reason as a kind and numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import polygamma
from scipy.stats import binom
from scipy.stats import t as student_t

from fedica.arrays import Array, BoolArray, IntArray, unit
from fedica.blocks import Columns, Drawn, columns_of, group_medians
from fedica.records import Reason, Trust
from fedica.records.reasons import Numbers
from fedica.server.admission import Admitted
from fedica.server.agreement import (
    Chance,
    angles_to,
    chance_likeness,
    client_cut,
    client_distances,
    client_influence,
    client_likeness,
    duplicate_weights,
    matched_atoms,
    radius_of,
    robust_deviation,
    unlike_others,
)
from fedica.server.assign import MAX_DISTANCE, Assignment, assign_atoms

FALSE_ALARMS = 0.02
"""Share of honest clients that may be called outlying: half of it for their distance, the rest for too few matches and
for too little likeness."""
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
SAMPLES_NEEDED = 40.0
"""Below 40 r^2 samples, and a quarter of the others', a local ICA may find anything: theory asks for r^2 at least."""
MAX_COMPARED = 60
"""Outlying clients that are searched for agreement among themselves."""


@dataclass(frozen=True, eq=False)
class _Measured:
    """Clients against components: K clients, R atoms, r components. Angles are in degrees.

    Parameters
    ----------
    distance : ndarray of shape (K,)
        How far each client is from the components: `client_distances`.
    radius : float
        The typical distance.
    n_atoms, n_unmatched, n_copies : ndarray of shape (K,)
        Atoms sent; atoms that match no component; clients that sent the same atoms, itself included.
    n_matched, n_possible : ndarray of shape (K,)
        Components that it matches; that it could match with so many atoms.
    has_allowing : ndarray of shape (K, r)
        Components that it matches if the noise is allowed for that it may have as others have theirs.
    n_allowing : ndarray of shape (K,)
        How many those are.
    deviation : ndarray of shape (K,)
        By how much the logarithm of the squared distance differs between clients that are alike.
    chance : Chance
        Likeness by chance.
    likeness, n_given : ndarray of shape (K,)
        Mean cosine of the atoms that are given to components, and how many they are.
    within : float
        Deviation of cosines between the atoms of one client.
    angle_of_atom : ndarray of shape (R,)
        Angle of each atom to its component; 90 if it has none.
    angle, angles, has
        As in `Trust`.
    """

    distance: Array
    radius: float
    n_atoms: IntArray
    n_unmatched: IntArray
    n_copies: IntArray
    n_matched: IntArray
    n_possible: IntArray
    has_allowing: BoolArray
    n_allowing: IntArray
    deviation: Array
    chance: Chance
    likeness: Array
    n_given: IntArray
    within: float
    angle_of_atom: Array
    angle: Array
    angles: Array
    has: BoolArray


@dataclass(frozen=True, eq=False)
class _Judged:
    """Verdicts, (K,) each, and what they rest on."""

    outlying: BoolArray
    weak: BoolArray
    partial: BoolArray
    few_samples: BoolArray
    few_matches: BoolArray
    unlike: BoolArray
    undetermined: BoolArray


def assess(admitted: Admitted, centres: Array, weights: Array, assignment: Assignment, drawn: Drawn) -> Trust:
    """Judge every client against the components.

    Parameters
    ----------
    admitted : Admitted
        All atoms.
    centres : ndarray of shape (d, r)
        Raw centres of the components.
    weights : ndarray of shape (R,)
        How much each atom counted in its centre.
    assignment : Assignment
        The atoms against these components.
    drawn : Drawn
        The clients in random order: those drawn first show what chance gives.

    Returns
    -------
    Trust
        A verdict and its reason for each client.
    """
    chance = chance_likeness(admitted.atoms, drawn, unit(centres))
    measured = _measure(admitted, unit(centres), weights, assignment, chance)
    judged = _excuse_uncertain(measured, _judge(measured, admitted.n_samples), admitted, assignment)
    verdict = np.select(
        [judged.outlying, judged.weak, judged.partial], ["outlying", "weak", "partial"], default="trusted"
    )
    owner, norms = admitted.client_of_atom, np.linalg.norm(centres, axis=0)
    return Trust(
        clients=admitted.clients,
        verdict=tuple(verdict.tolist()),
        why=_reasons(admitted, measured, judged),
        angle=measured.angle,
        angles=measured.angles,
        has=measured.has,
        n_unmatched=measured.n_unmatched,
        influence=client_influence(assignment, measured.angle_of_atom, weights, norms, owner, len(admitted.clients)),
    )


def _measure(admitted: Admitted, mixing: Array, weights: Array, assignment: Assignment, chance: Chance) -> _Measured:
    owner, n_clients, r = admitted.client_of_atom, len(admitted.clients), mixing.shape[1]
    duplicates = duplicate_weights(admitted.atoms, owner, assignment, r)
    distance = client_distances(assignment, owner, n_clients)
    n_atoms = np.bincount(owner, minlength=n_clients)
    radius, deviation = radius_of(distance, duplicates), _deviations(distance, n_atoms, r)
    allowed = np.clip(distance / radius, 1.0, np.exp(_reach(deviation) / 2))
    matched = matched_atoms(assignment, weights, r)
    matched_allowing = matched_atoms(assignment, weights, r, allowed[owner])
    angle_of_atom = angles_to(admitted.atoms, mixing, assignment.labels)
    angles, has = np.full((n_clients, r), 90.0), np.zeros((n_clients, r), dtype=np.bool_)
    has_allowing = np.zeros_like(has)
    known = np.flatnonzero(assignment.labels >= 0)
    angles[owner[known], assignment.labels[known]] = angle_of_atom[known]
    has[owner[matched], assignment.labels[matched]] = True
    has_allowing[owner[matched_allowing], assignment.labels[matched_allowing]] = True
    likeness, n_given = client_likeness(angle_of_atom, assignment.labels, owner, n_clients)
    return _Measured(
        distance=distance,
        radius=radius,
        n_atoms=n_atoms,
        n_matched=has.sum(axis=1),
        n_possible=np.minimum(n_atoms, r),
        has_allowing=has_allowing,
        n_allowing=has_allowing.sum(axis=1),
        deviation=deviation,
        chance=chance,
        likeness=likeness,
        n_given=n_given,
        within=float(np.median(1.4826 * np.abs(np.cos(np.radians(angle_of_atom[known])) - likeness[owner[known]]))),
        n_unmatched=np.bincount(owner, weights=~matched, minlength=n_clients).astype(np.int64),
        n_copies=np.round(1 / duplicates).astype(np.int64),
        angle_of_atom=angle_of_atom,
        angle=group_medians(angle_of_atom, np.where(assignment.labels >= 0, owner, -1), n_clients, empty=90.0),
        angles=angles,
        has=has,
    )


def _judge(measured: _Measured, n_samples: IntArray) -> _Judged:
    """Compare every client with the others.

    A client is outlying when it is farther from the components, matches fewer of them, or is much less like them, than
    clients like the others are in all but ``FALSE_ALARMS`` of the cases; and its samples do not explain it. One that
    agrees on what it has, but lacks components or has others of its own, is partial.
    """
    distance, typical = measured.distance, measured.radius
    log = np.log(np.maximum(distance, 1e-9) ** 2)
    far = (log > 2 * np.log(typical) + _reach(measured.deviation)) & (distance > np.maximum(FARTHER * typical, CLOSE))
    few_matches = _fewer_matches(measured)
    unlike = unlike_others(measured.likeness, measured.n_given, measured.within, measured.chance, FALSE_ALARMS / 4)
    excess = _expected_excess(n_samples, distance, typical)
    few = excess > FEW_SAMPLES
    hardly_any = n_samples < np.minimum(SAMPLES_NEEDED * measured.has.shape[1] ** 2, _usual_samples(n_samples) / 4)
    near = np.where(
        unlike,
        measured.likeness >= _expected_likeness(measured.likeness, excess),
        distance <= SAMPLES_SLACK * excess * typical,
    )
    explained = few & (near | hardly_any)
    outlying = (far | few_matches | unlike) & ~explained
    noisy = distance > client_cut(measured.has.shape[1]) * typical
    weak = (noisy | far | few_matches | unlike) & ~outlying
    partial = ((measured.n_unmatched > 0) | ~measured.has.all(axis=1)) & ~outlying & ~weak
    return _Judged(outlying, weak, partial, few, few_matches, unlike, np.zeros_like(few))


def _excuse_uncertain(measured: _Measured, judged: _Judged, admitted: Admitted, assignment: Assignment) -> _Judged:
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
    without = _judge(
        replace(
            measured,
            distance=np.where(np.isfinite(distance), distance, measured.distance),
            n_matched=(measured.has & by_certain).sum(axis=1),
            n_allowing=(measured.has_allowing & by_certain).sum(axis=1),
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


def _deviations(distance: Array, n_atoms: IntArray, n_components: int) -> Array:
    """Deviation of the logarithm of a squared distance: that among clients, at least what a median of n_k atoms has."""
    log = np.log(np.clip(distance, 1e-9, MAX_DISTANCE) ** 2)
    among_clients = robust_deviation(log)
    of_medians = np.pi / 2 * float(polygamma(1, max(n_components - 1, 1) / 2)) / np.maximum(n_atoms, 1)
    return np.maximum(among_clients, np.sqrt(of_medians))


def _reach(deviation: Array) -> Array:
    """By how much the logarithm of a client's squared distance may exceed the typical one. deviation : (K,)."""
    return np.asarray(float(student_t.ppf(1 - FALSE_ALARMS / 2, max(deviation.size - 1, 2))) * deviation)


def _fewer_matches(measured: _Measured) -> BoolArray:
    """Whether a client matches fewer components than clients like the others would but for one in two hundred.

    A client that is noisier than most, and not so much that it is far, is not blamed a second time for atoms that its
    noise takes away from the components.
    """
    possible = measured.n_possible
    share = measured.n_matched / np.maximum(possible, 1)
    usual = float(np.median(share))
    usual = min(usual - float(np.median(np.abs(share - usual))), MAX_MATCHED)
    return np.asarray(binom.cdf(measured.n_allowing, possible, max(usual, 0.0)) <= FALSE_ALARMS / 4)


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


def _expected_likeness(likeness: Array, excess: Array) -> Array:
    """Mean cosine that declared samples predict, (K,), where all of the typical client's error is one of sampling."""
    usual = max(float(np.median(likeness)), 1e-3)
    return np.asarray(1 / np.sqrt(1 + (1 / usual**2 - 1) * excess**2))


def _reasons(admitted: Admitted, measured: _Measured, judged: _Judged) -> tuple[Reason, ...]:
    """Return the reason for each verdict; most clients simply agree."""
    outlying, copied = judged.outlying, measured.n_copies > 1
    agreeing = _agreeing_outliers(admitted.atoms, admitted.client_of_atom, np.flatnonzero(outlying), measured.distance)
    compared = measured.n_matched if outlying.all() else measured.n_matched[~outlying]
    n_uncertain = np.bincount(admitted.client_of_atom, weights=admitted.uncertain, minlength=outlying.size)
    usual = tuple(np.quantile(compared, (0.1, 0.5, 0.9), method="nearest").tolist())
    chance = {"chance": measured.chance.typical, "chance_high": measured.chance.high}
    compared_likeness = float(np.median(measured.likeness if outlying.all() else measured.likeness[~outlying]))
    why = [
        Reason("agrees", {"angle": angle, "likeness": float(np.cos(np.radians(angle))), **chance})
        for angle in measured.angle.tolist()
    ]
    for k in np.flatnonzero(outlying | judged.weak | judged.partial | copied).tolist():
        numbers = {
            "angle": float(measured.angle[k]),
            "likeness": float(np.cos(np.radians(measured.angle[k]))),
            **chance,
            "mean_likeness": float(measured.likeness[k]),
            "usual_likeness": compared_likeness,
            "mean_chance": measured.chance.mean,
            "n_atoms": int(measured.n_atoms[k]),
            "n_matched": int(measured.n_matched[k]),
            "n_possible": int(measured.n_possible[k]),
            "usual_matches": usual,
            "n_unmatched": int(measured.n_unmatched[k]),
            "missing": tuple(np.flatnonzero(~measured.has[k]).tolist()),
            "n_samples": int(admitted.n_samples[k]),
            "n_copies": int(measured.n_copies[k]),
            "n_agreeing": agreeing.get(k, 0),
            "n_uncertain": int(n_uncertain[k]),
        }
        if outlying[k]:
            kind = _kind_of_outlier(numbers, few_matches=bool(judged.few_matches[k]), unlike=bool(judged.unlike[k]))
        elif judged.undetermined[k]:
            kind = "undetermined"
        elif judged.weak[k]:
            kind = "few-samples" if judged.few_samples[k] and numbers["n_samples"] else "noisy"
        else:
            kind = "partial" if judged.partial[k] else "agrees"
        why[k] = Reason(kind, numbers)
    return tuple(why)


def _kind_of_outlier(numbers: Numbers, *, few_matches: bool, unlike: bool) -> str:
    if numbers["n_agreeing"]:
        return "other-basis"
    if numbers["n_unmatched"] == numbers["n_atoms"]:
        return "no-match"
    if few_matches:
        return "few-matches"
    return "unlike" if unlike else "far"


def _agreeing_outliers(atoms: Columns, owner: IntArray, outlying: IntArray, distances: Array) -> dict[int, int]:
    """For each outlying client, how many others agree with it on another basis: at half its distance or less."""
    compared = outlying[:MAX_COMPARED]
    if compared.size < 2:
        return {}
    inside = np.flatnonzero(np.isin(owner, compared))
    names = np.searchsorted(compared, owner[inside])
    theirs = columns_of(atoms.take(inside), names)
    found: dict[int, int] = {}
    for place, k in enumerate(compared):
        basis = theirs.take(np.flatnonzero(names == place))
        if basis.shape[1] > basis.shape[0] or np.linalg.cond(basis) > 1e6:
            continue
        apart = client_distances(assign_atoms(theirs, names, basis), names, compared.size)
        near = apart <= 0.5 * min(distances[k], 1.0)
        near[place] = False
        found[int(k)] = int(near.sum())
    return found

"""The reason for each verdict, as a kind and its numbers."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.blocks import Columns, columns_of
from fedica.records import Reason
from fedica.records.wordings import Numbers
from fedica.server.admission import Admitted
from fedica.server.agreement import client_distances
from fedica.server.assign import assign_atoms
from fedica.server.trust.judge import Judged
from fedica.server.trust.measure import Measured

MAX_COMPARED = 60
"""Outlying clients that are searched for agreement among themselves."""


def reasons(admitted: Admitted, measured: Measured, judged: Judged) -> tuple[Reason, ...]:
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

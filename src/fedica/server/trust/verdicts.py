"""The verdict on every client, with its reason as a kind and numbers."""

from __future__ import annotations

import numpy as np

from fedica.arrays import Array, unit
from fedica.blocks import Drawn
from fedica.records import Trust
from fedica.server.admission import Admitted
from fedica.server.agreement import client_influence
from fedica.server.assign import Assignment
from fedica.server.trust.judge import excuse_uncertain, judge
from fedica.server.trust.likeness import chance_likeness
from fedica.server.trust.measure import measure
from fedica.server.trust.reasons import reasons


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
    measured = measure(admitted, unit(centres), weights, assignment, chance)
    judged = excuse_uncertain(measured, judge(measured, admitted.n_samples), admitted, assignment)
    verdict = np.select(
        [judged.outlying, judged.weak, judged.partial], ["outlying", "weak", "partial"], default="trusted"
    )
    owner, norms = admitted.client_of_atom, np.linalg.norm(centres, axis=0)
    return Trust(
        clients=admitted.clients,
        verdict=tuple(verdict.tolist()),
        why=reasons(admitted, measured, judged),
        angle=measured.angle,
        angles=measured.angles,
        has=measured.has,
        n_unmatched=measured.n_unmatched,
        influence=client_influence(assignment, measured.angle_of_atom, weights, norms, owner, len(admitted.clients)),
    )

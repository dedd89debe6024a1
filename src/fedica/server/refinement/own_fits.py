"""What clients' own first messages explain of the steps that their second ones ask for.

(R10) A client's atoms tell of the same step as its averages do, with errors from the same samples. In the sources its
      unit atoms are the columns of F: f_ij = (F_ji - F_ij) / 2 is the rotation that they ask for, and (F F')_ij their
      covariance, each over its expected error and cut at `MAX_OWN`. Of a client's values x less a centre, f explains
      b f, with b its own slope, at most `MAX_SLOPE`; the cosine of theta and f is its likeness. What is left has half
      of the variance where clients are weak, and a sixth where they are strong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import pinv
from scipy.stats import chi2

from fedica.arrays import NEAR_ZERO, Array, BoolArray, IntArray
from fedica.blocks import columns_of, weighted_median
from fedica.records import Aggregate
from fedica.server.refinement.steps import Steps

MAX_OWN = 2.0
"""A value of a client's own fit counts for at most so many expected errors: large ones are often of another optimum."""
MAX_SLOPE = 0.6
"""A second message is explained by at most this times the first, so that what is left is never only the trace of how
the two were computed."""
PRIOR = 5.0
"""A client's own slope counts against the typical one as if that were known from so many values."""
LONG = 0.01
"""What is left of a client counts for at most the length that this share of clients like the median one exceeds."""


@dataclass(frozen=True, eq=False)
class Unexplained:
    """What the clients' own fits do not explain of their steps.

    steps : their values less what is explained, about a centre. likeness : (K,), cosine of the rotations of a client's
    two messages; zero if it sent no atoms.
    """

    steps: Steps
    likeness: Array

    def of_clients(self, clients: BoolArray) -> Unexplained:
        """Return the same of some of the clients alone. clients : (K,)."""
        return Unexplained(self.steps.of_clients(clients), self.likeness[clients])


def unexplained(steps: Steps, centre: Array, weights: Array, own: Array) -> Unexplained:
    """Take off the steps what the clients' own atoms explain of them.

    centre : (p,), robust; weights : (K,), for the typical slope and length; own : (K, p), as of `own_steps`.
    """
    root = np.sqrt(steps.n_samples)[:, None]
    own = np.where(steps.has, np.clip(own * root, -MAX_OWN, MAX_OWN), 0.0)
    about = np.where(steps.has, steps.values - centre, 0.0) * root
    left = np.zeros_like(about)
    for kind in steps.kinds:
        left[:, kind] = _left_of(about[:, kind], own[:, kind], steps.has[:, kind], weights)
    rotation, _ = steps.kinds
    lengths = np.linalg.norm(about[:, rotation], axis=1) * np.linalg.norm(own[:, rotation], axis=1)
    likeness = (about * own)[:, rotation].sum(axis=1) / np.maximum(lengths, 1e-300)
    return Unexplained(replace(steps, values=left / root), likeness)


def _left_of(about: Array, own: Array, has: BoolArray, weights: Array) -> Array:
    """Take off each client's values about the centre what its own fit explains; shorten what is too long. (K, p)."""
    products, squares = (about * own).sum(axis=1), (own**2).sum(axis=1)
    typical = weights @ products / max(weights @ squares, 1e-300)
    slope = np.clip((products + PRIOR * typical) / (squares + PRIOR), 0.0, MAX_SLOPE)
    left = about - slope[:, None] * own  # (R10)
    p = np.maximum(has.sum(axis=1), 1)
    lengths = (left**2).sum(axis=1) / chi2.median(p)
    longest = weighted_median(lengths, weights, empty=1.0) * chi2.ppf(1 - LONG, p) / chi2.median(p)
    return np.asarray(left * np.sqrt(np.minimum(longest / np.maximum(lengths, 1e-300), 1.0))[:, None])


def own_steps(steps: Steps, result: Aggregate, names: Sequence[str], scale: Array) -> Array:
    """Return what each client's atoms ask for, in the values of its steps, (K, p); 0 where it has no atom.

    names : (K,), the clients of the steps; scale : (r,), deviations of the sources.
    """
    r, row = result.n_components, {name: k for k, name in enumerate(names)}
    inverse = np.asarray(pinv(result.mixing)) / np.where(scale > 0, scale, np.inf)[:, None]
    client = np.array([row.get(name, -1) for name in result.clients], dtype=np.int64)[result.client_of_atom]
    labels = np.where(client >= 0, result.labels, -1)

    def in_sources(block: Array, label: IntArray) -> tuple[Array]:
        along = inverse @ block
        own = np.sign(along[np.maximum(label, 0), np.arange(label.size)])
        return (along * own / np.maximum(np.linalg.norm(along, axis=0), NEAR_ZERO),)

    (along,) = columns_of(result.atoms, result.client_of_atom).each(in_sources, labels)
    known, F = labels >= 0, np.tile(np.eye(r), (len(names), 1, 1))
    F[client[known], :, labels[known]] = along[:, known].T
    upper, (rotation, _) = np.triu_indices(r, 1), steps.kinds
    turned = (np.swapaxes(F, 1, 2) - F)[:, *upper] / np.sqrt(2 * steps.in_sources[rotation])  # (R10)
    return np.concatenate([turned, (F @ np.swapaxes(F, 1, 2))[:, *upper]], axis=1)

"""Where single atoms agree little: several answers, and the choice of the one that suits clients it was not fitted to.

(C6) The answers are the consensus, the components turned jointly (`fedica.server.consensus.joint_rotation`), the groups
     of Algorithm 1 among the atoms of the clients that count, these groups matched one to one
     (`fedica.server.consensus.one_to_one`), and the mean of the last three. Clients are dealt into folds in their drawn
     order, so that nobody chooses a fold; each answer is fitted without one fold and compared with the clients of that
     fold, by the mean cosine of their atoms to the components, one to one. The mean is taken unless another answer
     serves the median client better, beyond the standard error of that: fewer than half of the clients cannot choose
     it. Of more than 60 clients the consensus is taken unless the components turned jointly are better in that way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedica.arrays import Array, IntArray, unit
from fedica.blocks import Columns, columns_of
from fedica.errors import GroupingError
from fedica.matching import match_similarity
from fedica.server.agreement import normal_deviation
from fedica.server.centres import geometric_medians
from fedica.server.clusters import kmeans
from fedica.server.consensus.joint_rotation import turned_jointly
from fedica.server.consensus.one_to_one import matched_one_to_one, mean_components
from fedica.server.consensus.spreads import MEDIAN_VARIANCE
from fedica.server.embedding import EMBEDDINGS
from fedica.server.signs import align_signs

MAX_FOLDS = 6
"""Folds into which the clients are dealt; more than ``MAX_GROUPED`` clients are halved."""
MAX_GROUPED = 60
"""Groups of atoms as they are follow the strongest directions where clients are weak; many clients average better."""
MIN_GAIN = 1.4
"""Standard errors by which an answer must be better: chance gives as much to the better of two in one case of six."""
N_REGROUPED = 8
"""Groupings from which one-to-one matching starts: each ends in the optimum near it."""
CONSENSUS, TURNED, GROUPS, MATCHED, MEAN = 0, 1, 2, 3, 4
"""Places of the answers."""

Answers = Callable[[IntArray], tuple[Array, ...]]
"""The answers, (p, r) each, fitted to some of the panel's atoms."""


def all_answers(
    atoms: Array, owner: IntArray, weights: Array, reference: Array, *, n_init: int, rng: np.random.Generator
) -> tuple[Array, ...]:
    """Return the reference, turned jointly, the groups of Algorithm 1, these matched, and the mean: (p, r) each.

    atoms : (p, n); owner : (n,), ascending; weights : (n,), positive where a client counts; reference : (p, r).
    """
    counting = weights > 0
    turned = turned_jointly(atoms, weights, reference)
    try:
        groupings = _groupings(columns_of(unit(atoms[:, counting])), reference.shape[1], n_init=n_init, rng=rng)
    except GroupingError:  # too few distinct atoms
        return reference, turned, reference, reference, reference
    matched = matched_one_to_one(atoms[:, counting], owner[counting], (*groupings, reference))
    return reference, turned, groupings[0], matched, mean_components((matched, turned, groupings[0]))


def _groupings(atoms: Columns, n_components: int, *, n_init: int, rng: np.random.Generator) -> list[Array]:
    """Algorithm 1 on the atoms as they are, (p, n): geometric medians of its groups, (p, r), unit columns.

    The best of n_init starts comes first; the others have one start each.
    """
    points, ones = EMBEDDINGS["squared"](atoms, n_components).points.kept(), np.ones(atoms.shape[1])
    found = []
    for starts in (n_init, *(1,) * (N_REGROUPED - 1)):
        labels = kmeans(points, n_components, n_init=starts, rng=rng).labels
        signs = align_signs(atoms, labels, n_components)
        found.append(unit(geometric_medians(atoms, labels, n_components, signs=signs, weights=ones).centres))
    return found


def best_for_others(fitted_to: Answers, atoms: Array, owner: IntArray) -> int:
    """Return which answer serves clients best that it was not fitted to: (C6).

    fitted_to : gives the answers of some atoms; atoms : (p, n), with their lengths along the panel's axes; owner :
    (n,), ascending, the client of each atom in the drawn order.
    """
    n_clients = int(owner[-1]) + 1
    few = n_clients <= MAX_GROUPED
    n_folds = min(MAX_FOLDS, n_clients) if few else 2
    likeness = []
    for fold in range(n_folds):
        inside = owner % n_folds == fold
        answers = fitted_to(np.flatnonzero(~inside))
        likeness.append([_likeness(atoms[:, inside], owner[inside], answer) for answer in answers])
    found = np.concatenate(likeness, axis=1)  # (5, K)
    usual, others = (MEAN, (CONSENSUS, TURNED, GROUPS, MATCHED)) if few else (CONSENSUS, (TURNED,))
    gains = [_gain(found[other] - found[usual]) for other in others]
    return others[int(np.argmax(gains))] if max(gains) > MIN_GAIN else usual


def _gain(differences: Array) -> float:
    """Median of differences, (K,), over its standard error."""
    median = float(np.median(differences))
    error = np.sqrt(MEDIAN_VARIANCE / differences.size) * normal_deviation(differences, centre=median)
    return median / max(float(error), 1e-12)


def _likeness(atoms: Array, owner: IntArray, reference: Array) -> Array:
    """Mean cosine of each client's atoms, (p, n), to the components, (p, r), one to one."""
    place = np.cumsum(np.diff(owner, prepend=owner[0]) != 0)
    found = match_similarity(atoms.T @ reference, place)
    n_matched = np.bincount(place, weights=found.labels >= 0)
    return np.asarray(np.bincount(place, weights=found.cosines) / np.maximum(n_matched, 1))

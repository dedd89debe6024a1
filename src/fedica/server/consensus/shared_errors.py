"""Clients that err in the same way, as independent fits do not: a minority that so stands apart loses its voice.

(C4) Errors of clients are vectors, all atoms side by side in the coordinates of the reference. The directions between
     pairs of independent errors have a dimension, estimated from quadruples of clients; beyond the edge that it sets
     for the eigenvalues of the clients' correlation matrix (Marchenko and Pastur) an error is shared. Along it the
     clients are split in two; where the two groups stand apart by more than a single cloud's halves do, the smaller
     one does not count. Then the same for each component alone, along the leading directions of its errors; who leans
     there loses the voice for that component.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray
from fedica.blocks import Columns
from fedica.server.assign import Assignment

MAX_CLIENTS = 300
"""Clients among whom shared errors are looked for; all are then judged along them."""
MIN_CLIENTS = 8
"""With fewer clients nothing is said: any three of seven may agree."""
MAX_SHARED = 3
"""Shared errors that are looked for, one after the other."""
ACCURATE = 1.6
"""Clients that agree closely are accurate if they differ from the others by this many times the expected square."""
MIN_SHARING = 2
"""Fewer clients share nothing."""
EDGE = 1.1
"""Eigenvalues must be above the edge of chance by this factor."""
APART, APART_OF_FEW = 2.9, 36.0
"""Distance between two groups of n clients over their own spread, c + b / n: the best split of one Gaussian cloud along
a line is beyond it in about one case of 50, and in fewer where n is above 100. Its halves have 2.7."""
APART_IN_ONE, APART_IN_ONE_OF_FEW = 3.2, 58.0
"""The same in one component: the best split along three leading directions of one Gaussian cloud, of 4 to 19
dimensions, is beyond it in about one case of 1,000."""
MAX_LENGTH = 2.0
"""Typical errors to which an error is cut where a direction is sought in one component."""
MAX_ERROR = 3.0
"""Longer errors are cut to this length: one wild client makes no direction."""
MAX_OUTSIDE = 10
"""Leading directions outside the span of the components in which errors are seen."""
QUADRUPLES = 600
CHI_SQUARE_MEDIAN = 0.455
"""Of one degree of freedom."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of some clients, in the coordinates of the reference and along directions outside its span.

    clients : (n,), in an order that does not depend on that of arrival; vectors : (n, r, q), zero where a client lacks
    a component; frame : (q, d).
    """

    clients: IntArray
    vectors: Array
    frame: Array

    @property
    def dimension(self) -> float:
        """Dimension of an atom's error: one over the typical squared cosine of two clients' errors."""
        squares = []
        for a in range(min(self.vectors.shape[1], 12)):
            own = self.vectors[:60, a]
            own = own[np.abs(own).sum(axis=1) > 0]
            directions = own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-300)
            squares.append((directions @ directions.T)[np.triu_indices(len(own), 1)] ** 2)
        every = np.concatenate(squares)
        highest = max(float(self.vectors.shape[2] - 1), 1.0)
        if not every.size:
            return highest
        return float(np.clip(CHI_SQUARE_MEDIAN / max(float(np.median(every)), 1e-9), 1.0, highest))

    @property
    def joint_dimension(self) -> float:
        """Dimension of a client's errors, those of all components side by side."""
        flat = self.vectors.reshape(len(self.vectors), -1)
        return _dimension_of_differences(flat @ flat.T)


def client_errors(
    atoms: Columns, owner: IntArray, assignment: Assignment, reference: Array, clients: IntArray, axes: Array
) -> Errors:
    """Return the errors of some clients.

    atoms : (d, R); reference : (d, r); clients : (n,); axes : (p, d), leading directions of all atoms.
    """
    r = reference.shape[1]
    own, row = known_atoms(clients, owner, assignment.labels)
    label = assignment.labels[own]
    inverse = np.asarray(np.linalg.pinv(reference), dtype=np.float64)
    left, scale, _ = np.linalg.svd(axes.T - reference @ (inverse @ axes.T), full_matrices=False)
    outside = left[:, scale > 1e-3][:, :MAX_OUTSIDE].T
    frame = np.concatenate([inverse, outside])
    vectors = np.zeros((clients.size, r, frame.shape[0]))
    vectors[row, label] = _errors(atoms.seen(lambda block: frame @ block, frame.shape[0]).take(own), label)
    return Errors(clients, vectors, frame)


def known_atoms(clients: IntArray, owner: IntArray, labels: IntArray) -> tuple[IntArray, IntArray]:
    """Return the assigned atoms of some clients, and of each the place of its client among these."""
    place = np.full(int(owner[-1]) + 1, -1)
    place[clients] = np.arange(clients.size)
    own = np.flatnonzero((place[owner] >= 0) & (labels >= 0))
    return own, place[owner[own]]


def _errors(coordinates: Array, label: IntArray) -> Array:
    """Coordinates over that along the own component, which itself is left out: (q, n) to (n, q)."""
    along = coordinates[label, np.arange(label.size)]
    vectors = (coordinates / np.where(np.abs(along) > 1e-9, along, 1e-9)).T
    vectors[np.arange(label.size), label] = 0.0
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors * np.minimum(1.0, MAX_ERROR / np.maximum(length, 1e-300)))


def independent_clients(
    atoms: Columns, owner: IntArray, assignment: Assignment, errors: Errors, weights: Array, scale: Array
) -> BoolArray:
    """Tell which clients count, (K,): all but minorities that share an error and stand apart.

    weights : (K,), of clients; scale : (r,), typical distance of each component.
    """
    counts = np.ones(weights.size, dtype=np.bool_)
    vectors = errors.vectors / scale[:, None]
    has = np.abs(vectors).sum(axis=2) > 0
    lost = 0.0
    for _ in range(MAX_SHARED):
        inside = (weights * counts)[errors.clients] > 0
        if inside.sum() < MIN_CLIENTS:
            break
        for direction in _shared_directions(vectors[inside], has[inside], weights[errors.clients[inside]]):
            position, shown = _positions(atoms, owner, assignment, errors.frame, direction, scale)
            apart, bound = _best_split(position, shown * weights * counts)
            upper = position[errors.clients] > bound
            few = min((upper & inside).sum(), (~upper & inside).sum()) < MIN_SHARING
            if few or apart <= _apart_by_chance(shown * weights * counts):
                continue
            voting = counts[errors.clients] & has.any(axis=1)  # also who is too far away to be averaged
            below, above = _voices(vectors[voting], has[voting], upper[voting])
            if max(below, above) > lost + min(below, above):  # all that do not count are a minority together
                counts &= (position > bound) == (above > below)
                lost += min(below, above)
                break
        else:
            break
    return counts


def _apart_by_chance(weights: Array) -> float:
    """How far apart the two parts of one cloud may seem: farther among few clients. weights : (K,), not negative."""
    n = weights.sum() ** 2 / max(float(np.square(weights).sum()), 1e-300)  # as many as so many equal ones
    return float(APART + APART_OF_FEW / max(n, 1.0))  # (C4)


def _voices(vectors: Array, has: BoolArray, upper: BoolArray) -> tuple[float, float]:
    """Count the clients of two parts, each as one, or less where it is nearer to the mean of its part than most are.

    Independent clients scatter: many that send nearly the same are not many, unless independent errors of the others
    explain how far these are from them on average; then they are accurate, and nothing is said (0, 0).
    vectors : (n, r, q); has : (n, r); upper : (n,), those of the second part.
    """
    length = np.zeros(upper.size)
    for part in (~upper, upper):
        own, known = vectors[part], has[part]
        apart = (own - own.sum(axis=0) / np.maximum(known.sum(axis=0), 1)[:, None]) * known[:, :, None]
        length[part] = np.sqrt(np.square(apart).sum(axis=(1, 2)) / np.maximum(known.sum(axis=1), 1))
    typical = float(np.median(length))
    voice = np.minimum(length / typical, 1.0) if typical > 0 else np.ones(upper.size)  # (C4)
    near = voice < 0.5
    if near.any() and not near.all():  # accurate clients are near each other too, but where the others are on average
        means = [vectors[p].sum(axis=0) / np.maximum(has[p].sum(axis=0), 1)[:, None] for p in (near, ~near)]
        rest = (vectors[~near] - means[1]) * has[~near, :, None]
        expected = (np.square(rest).sum(axis=2) / np.maximum(has[~near].sum(axis=0), 1) ** 2).sum()
        if np.square(means[0] - means[1]).sum() <= ACCURATE * expected:
            return 0.0, 0.0
    return float(voice[~upper].sum()), float(voice[upper].sum())


def independent_atoms(
    atoms: Columns, owner: IntArray, assignment: Assignment, errors: Errors, weights: Array, scale: Array
) -> BoolArray:
    """Tell which atoms count, (R,): all but those of minorities that share an error of one component.

    weights : (R,), of atoms; scale : (r,), typical distance of each component.
    """
    own, row = known_atoms(errors.clients, owner, assignment.labels)
    counting = np.zeros(errors.vectors.shape[:2], dtype=np.bool_)
    counting[row, assignment.labels[own]] = weights[own] > 0
    vectors = (errors.vectors / scale[:, None] * counting[:, :, None]).transpose(1, 0, 2)
    length = np.linalg.norm(vectors, axis=2, keepdims=True)
    vectors *= np.minimum(1.0, MAX_LENGTH / np.maximum(length, 1e-300))  # (C4)
    directions, bounds = np.zeros(vectors[:, 0].shape), np.full(vectors.shape[0], np.inf)
    for a, axes in enumerate(_leading_axes(vectors, counting.T)):
        if counting[:, a].sum() >= MIN_CLIENTS:
            directions[a], bounds[a] = _minority_of_component(vectors[a, counting[:, a]], axes)
    if np.isinf(bounds).all():
        return np.ones(owner.size, dtype=np.bool_)
    along = _along(atoms, assignment, errors.frame, directions / scale[:, None])
    return np.asarray(along <= np.where(assignment.labels >= 0, bounds[assignment.labels], np.inf))


def _leading_axes(vectors: Array, has: BoolArray) -> Array:
    """Leading directions of the errors of each component, (r, MAX_SHARED, q). vectors : (r, n, q); has : (r, n)."""
    mean = vectors.sum(axis=1) / np.maximum(has.sum(axis=1), 1)[:, None]
    centred = (vectors - mean[:, None]) * has[:, :, None]
    if centred.shape[1] >= centred.shape[2]:
        return np.linalg.eigh(centred.transpose(0, 2, 1) @ centred)[1].transpose(0, 2, 1)[:, : -MAX_SHARED - 1 : -1]
    left = np.linalg.eigh(centred @ centred.transpose(0, 2, 1))[1].transpose(0, 2, 1)[:, : -MAX_SHARED - 1 : -1]
    axes = left @ centred
    return np.asarray(axes / np.maximum(np.linalg.norm(axes, axis=2, keepdims=True), 1e-300))


def _minority_of_component(vectors: Array, axes: Array) -> tuple[Array, float]:
    """Direction, (q,), beyond whose bound a minority stands apart; the bound is infinite where none does.

    vectors : (n, q), errors in units of a typical one; axes : (MAX_SHARED, q), along which it is sought.
    """
    n = vectors.shape[0]
    most, found = APART_IN_ONE + APART_IN_ONE_OF_FEW / n, (np.zeros(vectors.shape[1]), np.inf)
    for direction in axes:
        position = vectors @ direction
        apart, bound = _best_split(position, np.ones(n))
        upper = position > bound
        if apart <= most or min(upper.sum(), (~upper).sum()) < MIN_SHARING:
            continue
        below, above = _voices(vectors[:, None], np.ones((n, 1), dtype=np.bool_), upper)
        if below != above:
            sign = 1.0 if above < below else -1.0
            most, found = apart, (sign * direction, sign * bound)
    return found


def _shared_directions(vectors: Array, has: BoolArray, weights: Array) -> list[Array]:
    """Directions, (r, q), of errors that too many clients share. vectors : (n, r, q); has : (n, r)."""
    n, r, q = vectors.shape
    flat, seen = vectors.reshape(n, -1), np.repeat(has, q, axis=1)
    centre = (weights @ flat) / np.maximum(weights @ seen, 1e-12)
    centred = (flat - centre) * seen
    length = np.maximum(np.linalg.norm(centred, axis=1), 1e-300)
    values, left = np.linalg.eigh((centred / length[:, None]) @ (centred / length[:, None]).T)
    edge = EDGE * (1 + np.sqrt(n / _dimension_of_differences(flat @ flat.T))) ** 2  # (C4)
    found = [j for j in range(n - 1, -1, -1) if values[j] > edge][:MAX_SHARED]
    directions = [centred.T @ (left[:, j] / length) for j in found]
    return [(v / np.linalg.norm(v)).reshape(r, q) for v in directions]


def _dimension_of_differences(gram: Array) -> float:
    """Dimension of e_k - e_l, from squared cosines with e_m - e_n: the centre, which may be forged, drops out.

    gram : (n, n), inner products of the errors.
    """
    n = gram.shape[0]
    k, l, m, o = np.argsort(np.random.default_rng(0).random((QUADRUPLES, n)), axis=1)[:, :4].T  # noqa: E741
    product = gram[k, m] - gram[k, o] - gram[l, m] + gram[l, o]
    first = gram[k, k] + gram[l, l] - 2 * gram[k, l]
    second = gram[m, m] + gram[o, o] - 2 * gram[m, o]
    differ = (first > 1e-6 * np.median(first)) & (second > 1e-6 * np.median(second))
    if not differ.any():
        return 2.0
    return max(CHI_SQUARE_MEDIAN / float(np.median(product[differ] ** 2 / (first * second)[differ]) + 1e-12), 2.0)


def _along(atoms: Columns, assignment: Assignment, frame: Array, directions: Array) -> Array:
    """Error of every atom along the direction of its component, (R,). directions : (r, q)."""

    def of_block(block: Array, label: IntArray) -> tuple[Array]:
        known = np.flatnonzero(label >= 0)
        along = np.zeros(label.size)
        errors = _errors(frame @ block[:, known], label[known])
        along[known] = np.einsum("nq,nq->n", errors, directions[label[known]])
        return (along,)

    (along,) = atoms.each(of_block, assignment.labels)
    return np.asarray(along)


def _positions(
    atoms: Columns, owner: IntArray, assignment: Assignment, frame: Array, direction: Array, scale: Array
) -> tuple[Array, Array]:
    """Where every client is along a direction (r, q), and how much of the direction its components show. (K,) each."""
    n_clients, strength = int(owner[-1]) + 1, np.einsum("rq,rq->r", direction, direction)
    along = _along(atoms, assignment, frame, direction / scale[:, None])
    shown = np.where(assignment.labels >= 0, strength[assignment.labels], 0.0)
    shown_by = np.bincount(owner, weights=shown, minlength=n_clients) / max(float(strength.sum()), 1e-300)
    position = np.bincount(owner, weights=along, minlength=n_clients) / np.maximum(shown_by, 0.1)
    return np.asarray(position), np.asarray(np.minimum(shown_by, 1.0))


def _best_split(position: Array, weights: Array) -> tuple[float, float]:
    """Split weighted points on a line in two parts that stand apart most. position : (n,)."""
    used = np.flatnonzero(weights > 0)
    order = used[np.argsort(position[used], kind="stable")]
    x, w = position[order], weights[order]
    left, total = np.cumsum(w)[:-1], w.sum()
    sums, squares = np.cumsum(w * x), np.cumsum(w * x * x)
    right = np.maximum(total - left, 1e-9 * total)  # the last weights may be rounding; so small a part is no part
    means = sums[:-1] / left, (sums[-1] - sums[:-1]) / right
    within = np.maximum(squares[-1] - left * means[0] ** 2 - right * means[1] ** 2, 1e-300) / total
    apart = np.where(np.minimum(left, right) >= 0.04 * total, (means[1] - means[0]) / np.sqrt(within), 0.0)
    cut = int(np.argmax(apart))
    return float(apart[cut]), float(x[cut] + x[cut + 1]) / 2

"""Step 6: the centre of every group of aligned atoms, by mean, geometric median, or index alone (the naive methods)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fedica.arrays import Array, BoolArray, IntArray
from fedica.blocks import Columns, membership
from fedica.errors import GroupingError

WEIGHTS = ("samples",)
MAX_JUMPS = 8
"""Times a centre is put onto a point that it approaches, so that near-duplicates cannot keep it hopping for ever."""
MAX_WEISZFELD_STEPS = 60
"""After these steps for all groups at once, the groups that have not converged are finished one by one."""
MIN_SHARE = 0.01
"""A client counts in a component when its atom has at least this share of the largest weight."""
ENOUGH = 3
"""Clients that count in a component which is nobody's own."""


@dataclass(frozen=True, eq=False)
class Medians:
    """Geometric medians of all groups."""

    centres: Array  # (d, r), one centre per column
    gap: Array  # (r,), gamma, certified: the centre's sum of distances is at most (1 + gamma) times the least possible
    distance: Array  # (R,), of each point to its centre; of no meaning for a point of no group


def client_weights(n_samples: IntArray, weights: str | None) -> Array:
    """Weight of each client in a mean: 1, or its declared samples over the median of all, at most 1.

    n_samples : (K,), 0 where a client declares none: it gets the smallest weight of those who do. A declared number is
    a claim, so above the median it adds no weight. The variance of an atom falls as 1/n_samples: a mean takes these
    weights, a geometric median (which sees distances, not squares) their square roots.
    """
    if weights is None or not n_samples.any():
        return np.ones(n_samples.size)
    declared = n_samples > 0
    known = np.where(declared, n_samples, n_samples[declared].min())
    return np.asarray(np.minimum(known / np.median(known), 1.0))


def index_in_client(client_of_atom: IntArray, n_components: int) -> IntArray:
    """Place of each atom in its client's matrix, which the naive methods take for its component."""
    index = np.arange(client_of_atom.size) - np.searchsorted(client_of_atom, client_of_atom)
    if index.max() >= n_components:
        raise GroupingError(
            f"the naive methods combine columns by their index: {n_components} components were wanted, but a client "
            f"sent {index.max() + 1} atoms. Ask for n_components={index.max() + 1}, or take another method."
        )
    return index


def naive_centres(atoms: Columns, index: IntArray, n_components: int, combine: Callable[..., Array]) -> Array:
    """Combine the first atoms of all clients, the second, and so on. atoms : (d, R); result : (d, r)."""
    return np.stack([combine(atoms.take(np.flatnonzero(index == a)), axis=1) for a in range(n_components)], axis=1)


def group_means(
    atoms: Columns,
    labels: IntArray,
    n_groups: int,
    *,
    signs: Array,
    weights: Array,
    otherwise: Array | None = None,
) -> Array:
    """Weighted mean of the signed atoms of each group, Eq. (15); of ``otherwise`` where a group has no weight.

    atoms : (d, R); labels : (R,), -1 for an atom of no group; result : (d, r).
    """

    def of_block(block: Array, label: IntArray, sign: Array, weight: Array) -> tuple[Array, Array]:
        member = membership(label, n_groups, weight)
        return block @ (sign[:, None] * member), member.sum(axis=0)

    sums, total = atoms.total(of_block, labels, signs, weights)
    means = np.asarray(sums / np.where(total > 0, total, 1.0))  # Eq. (15)
    return means if otherwise is None else np.where(total > 0, means, otherwise)


def geometric_medians(
    points: Columns,
    labels: IntArray,
    n_groups: int,
    *,
    signs: Array | None = None,
    weights: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 1000,
) -> Medians:
    """Minimise sum_i w_i ||s_i x_i - m_a|| over m_a, for every group a at once, Eq. (16).

    points : (d, R), one per column; labels : (R,), -1 for a point of no group; no group is empty; signs : (R,), all one
    by default. It stops when every gap is below ``tol``.

    Notes
    -----
    Weiszfeld's iteration with the step of Vardi and Zhang (2000), which is right also where the iterate m coincides
    with points, as duplicates of colluding clients do. With eta the weight of the points at m, and sums over the
    others::

        g = sum_i w_i (x_i - m) / norm(x_i - m)                            (a) resultant
        m <- m + (1 - eta / norm(g))_+ g / sum_i (w_i / norm(x_i - m))     (b) Weiszfeld step
        max sum_i w_i <u_i, x_i>, norm(u_i) <= 1, sum_i w_i u_i = 0        (c) dual

    The directions from m to the points, shifted by their mean, (1 - eta / norm(g))_+ g / sum_i w_i, and shrunk by one
    plus its norm, are feasible in the dual: their value bounds the optimum from below.
    """
    s = np.ones(labels.size) if signs is None else signs
    w = np.where(labels >= 0, 1.0 if weights is None else weights, 0.0)
    group = np.maximum(labels, 0)  # a point of no group weighs nothing anywhere
    total = np.bincount(group, weights=w, minlength=n_groups).astype(np.float64)
    (sums,) = points.total(lambda block, own, ws: (block @ membership(own, n_groups, ws),), group, w * s)
    centres, scale = sums / total, np.zeros(n_groups)
    jumps = np.zeros(n_groups, dtype=np.int64)
    for _ in range(min(max_iter, MAX_WEISZFELD_STEPS)):
        evaluate = _evaluate_at(centres, 1e-14 * np.maximum(scale, 1e-300))
        (distance,), ((objective, inverse_sum, eta), resultant) = points.sweep(evaluate, group, s, w)
        resultant, scale = resultant.T, objective / total
        gap = _relative_gap(resultant, eta, total, objective, (sums - total * centres).T)
        if np.all(gap <= tol):
            break
        step = _vardi_zhang(resultant, eta) * resultant / np.maximum(inverse_sum, 1e-300)[:, None]  # (b)
        centres = centres + step.T
        centres = _jumped_onto_points(centres, jumps, points, s, np.where(w > 0, labels, -1), distance, scale)
    else:
        for a in np.flatnonzero(gap > tol):  # few groups: those whose points lie along a line
            own = np.flatnonzero(labels == a)
            x = (points.take(own) * s[own]).T
            centres[:, a], gap[a] = _newton(x, w[own], centres[:, a], tol=tol, max_iter=max_iter)
            distance[own] = np.linalg.norm(x - centres[:, a], axis=1)
    worst = int(np.argmax(gap))
    if gap[worst] > tol:
        warnings.warn(
            f"geometric median: gap {gap[worst]:.1e} of component {worst} still above tol {tol:.0e} after {max_iter} "
            "iterations",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Medians(centres, gap, distance)


def _evaluate_at(centres: Array, coincidence: Array) -> Callable[..., tuple[tuple[Array], tuple[Array, Array]]]:
    """Return the work of one sweep at these centres, (d, r).

    It gives the distance of each point; of each group the objective, the sum of inverse distances and eta, (3, r), and
    the resultant, (d, r). Points no farther than ``coincidence``, (r,), coincide with the centre.
    """
    r = centres.shape[1]

    def evaluate(block: Array, own: IntArray, sign: Array, weight: Array) -> tuple[tuple[Array], tuple[Array, Array]]:
        away = block * sign
        away -= centres.take(own, axis=1)
        distance = np.sqrt(np.einsum("db,db->b", away, away))
        coincides = distance <= coincidence[own]
        inverse = np.where(coincides, 0.0, weight / np.where(coincides, 1.0, distance))
        of_point = (weight * distance, inverse, np.where(coincides, weight, 0.0))
        of_group = np.stack([np.bincount(own, weights=v, minlength=r).astype(np.float64) for v in of_point])
        return (distance,), (of_group, away @ membership(own, r, inverse))  # (a)

    return evaluate


def _newton(x: Array, w: Array, centre: Array, *, tol: float, max_iter: int) -> tuple[Array, float]:
    """Geometric median of one group by Newton steps, halved until they do better than a Weiszfeld step.

    x : (n, d). Where points lie along a line the sum of distances is nearly flat along it: Weiszfeld's steps, which are
    gradient steps, hardly move there. The work is done in the span of the points, so d may be large.
    """
    middle = x.mean(axis=0)
    left, scale, axes = np.linalg.svd(x - middle, full_matrices=False)
    y, total = left * scale, w.sum()

    def evaluate(z: Array) -> tuple[float, float, Array, Array]:
        """Objective, gap, Weiszfeld's step and Newton's step at z."""
        away = y - z
        distance = np.linalg.norm(away, axis=1)
        objective = w @ distance
        coincides = distance <= 1e-14 * max(objective / total, 1e-300)
        inverse = np.where(coincides, 0.0, 1 / np.where(coincides, 1.0, distance))
        resultant, eta, lines = (w * inverse) @ away, w[coincides].sum(), inverse[:, None] * away  # (a)
        gap = _relative_gap(resultant[None], eta[None], total[None], objective[None], (w @ away)[None])[0]
        inverse_sum = max(float(w @ inverse), 1e-300)
        hessian = inverse_sum * (1 + 1e-13) * np.eye(z.size) - (lines.T * (w * inverse)) @ lines
        weiszfeld = _vardi_zhang(resultant[None], eta[None])[0] * resultant / inverse_sum  # (b)
        return float(objective), float(gap), weiszfeld, np.linalg.solve(hessian, resultant)

    best = (centre - middle) @ axes.T
    objective, gap, weiszfeld, newton = evaluate(best)
    for _ in range(max_iter):
        if gap <= tol:
            break
        nearest = y[np.argmin(np.linalg.norm(y - best, axis=1))]
        tries = [nearest, best + weiszfeld, *(best + newton * 0.5**halvings for halvings in range(8))]
        found = [evaluate(z) for z in tries]
        lowest = min(range(len(tries)), key=lambda i: found[i][0])
        if found[lowest][0] > objective * (1 - 1e-13):  # the objective is flat to rounding: go by the gap
            lowest = min(range(len(tries)), key=lambda i: (found[i][0] > objective * (1 + 1e-13), found[i][1]))
            if found[lowest][1] >= gap:
                break
        best, (objective, gap, weiszfeld, newton) = tries[lowest], found[lowest]
    return middle + best @ axes, gap


def _vardi_zhang(resultant: Array, eta: Array) -> Array:
    """Factor (1 - eta / ||g||)_+ of Weiszfeld's step, (r, 1): 0 where the iterate is the median."""
    return np.asarray(np.maximum(1 - eta / np.maximum(np.linalg.norm(resultant, axis=1), 1e-300), 0)[:, None])


def _relative_gap(resultant: Array, eta: Array, total: Array, objective: Array, offset: Array) -> Array:
    """Duality gap (c) over the dual value, (r,). resultant : (r, d); offset : (r, d), sum of w_i (x_i - m).

    Points at the iterate may take any direction of norm <= 1: they cancel as much of the resultant as they can.
    """
    shift = _vardi_zhang(resultant, eta) * resultant / total[:, None]  # h, (r, d)
    dual = (objective - np.einsum("rd,rd->r", shift, offset)) / (1 + np.linalg.norm(shift, axis=1))  # (c)
    gap = np.maximum(objective - dual, 0)
    return np.where(objective <= 1e-15 * total, 0.0, gap / np.maximum(dual, 1e-9 * objective + 1e-300))


def _jumped_onto_points(
    centres: Array, jumps: IntArray, points: Columns, signs: Array, group: IntArray, distance: Array, scale: Array
) -> Array:
    """Put a centre that approaches a point onto it: the next step either stays there or leaves.

    Towards a point that is the median the iteration only creeps, and its gap does not close before they coincide.
    ``jumps``, (r,), counts them for each group.
    """
    near = (distance <= 1e-3 * scale[group]) & (distance > 0) & (jumps[group] < MAX_JUMPS) & (group >= 0)
    close = np.flatnonzero(near)
    if not close.size:
        return centres
    close = close[np.lexsort((distance[close], group[close]))]
    groups, first = np.unique(group[close], return_index=True)  # the nearest point of each group
    moved = centres.copy()
    moved[:, groups] = points.take(close[first]) * signs[close[first]]
    jumps[groups] += 1
    return moved


def count_clients(labels: IntArray, owner: IntArray, n_components: int) -> IntArray:
    """Count the clients that have an atom in each component, (r,). labels, owner : (R,); label -1 is no component."""
    has = np.zeros((int(owner[-1]) + 1, n_components + 1), dtype=bool)  # a client counts once; -1 is the last column
    has[owner, labels] = True
    return np.asarray(has[:, :n_components].sum(axis=0))


def count_weighted_clients(labels: IntArray, weights: Array, owner: IntArray, n_components: int) -> IntArray:
    """Count the clients whose atoms count in each component, (r,): a centre is made of these alone."""
    largest = np.zeros(n_components + 1)
    np.maximum.at(largest, labels, weights)
    counts = (weights > 0) & (weights >= MIN_SHARE * largest[labels])
    return count_clients(np.where(counts, labels, -1), owner, n_components)


def narrow_components(labels: IntArray, weights: Array, owner: IntArray, n_components: int) -> BoolArray:
    """Tell in which components fewer than three clients count by the weights, though more match them, (r,)."""
    counting = count_weighted_clients(labels, weights, owner, n_components)
    return np.asarray(counting < np.minimum(count_clients(labels, owner, n_components), ENOUGH))

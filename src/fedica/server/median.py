"""Step 6: the geometric median of every group at once, with a certified gap to the optimum."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fedica.arrays import Array, IntArray
from fedica.blocks.columns import Columns

MOST_MOVES = 8
WEISZFELD_STEPS = 60
"""After so many steps for all groups at once, the groups that have not converged are finished one by one."""


@dataclass(frozen=True, eq=False)
class Medians:
    """Centres of all groups.

    Parameters
    ----------
    centres : ndarray of shape (d, r)
        One centre a column.
    gap : ndarray of shape (r,)
        gamma, certified: the centre's sum of distances is at most (1 + gamma) times the least possible.
    distance : ndarray of shape (R,)
        Of each point to its centre; of no meaning for a point of no group.
    """

    centres: Array
    gap: Array
    distance: Array


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

    points : (d, R), one a column; labels : (R,), -1 for a point of no group; no group is empty; signs : (R,), all one
    by default.
    Weiszfeld's iteration with the step of Vardi and Zhang (2000) where the iterate meets points: colluding clients send
    duplicates. It stops when every gap is below ``tol``.

    Notes
    -----
    The gap comes from the dual, max sum_i w_i <u_i, x_i> over ||u_i|| <= 1 with sum_i w_i u_i = 0: the directions from
    the iterate to the points, shifted by their mean g and shrunk by 1 + ||g||, are feasible there.
    """
    s = np.ones(labels.size) if signs is None else signs
    w = np.where(labels >= 0, 1.0 if weights is None else weights, 0.0)
    group = np.maximum(labels, 0)  # a point of no group weighs nothing anywhere
    total = np.bincount(group, weights=w, minlength=n_groups).astype(np.float64)
    (sums,) = points.total(lambda block, own, ws: (block @ _member(own, ws, n_groups),), group, w * s)
    centres, scale = sums / total, np.zeros(n_groups)
    moves = np.zeros(n_groups, dtype=np.int64)
    for _ in range(min(max_iter, WEISZFELD_STEPS)):
        look = _look_from(centres, 1e-14 * np.maximum(scale, 1e-300))
        (distance,), ((objective, stiffness, held), pull) = points.sweep(look, group, s, w)
        pull, scale = pull.T, objective / total
        gap = _relative_gap(pull, held, total, objective, (sums - total * centres).T)
        if np.all(gap <= tol):
            break
        step = _free_share(pull, held) * pull / np.maximum(stiffness, 1e-300)[:, None]
        centres = centres + step.T
        centres = _moved_onto_near_points(centres, moves, points, s, np.where(w > 0, labels, -1), distance, scale)
    else:
        for a in np.flatnonzero(gap > tol):  # a few stubborn groups: their points lie along a line
            own = np.flatnonzero(labels == a)
            x = (points.take(own) * s[own]).T
            centres[:, a], gap[a] = _newton(x, w[own], centres[:, a], tol=tol, max_iter=max_iter)
            distance[own] = np.linalg.norm(x - centres[:, a], axis=1)
    worst = int(np.argmax(gap))
    if gap[worst] > tol:
        warnings.warn(
            f"geometric median: gap {gap[worst]:.1e} of component {worst} still above tol {tol:.0e} after {max_iter} "
            "iterations; raise max_iter",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Medians(centres, gap, distance)


def _look_from(centres: Array, met: Array) -> Callable[..., tuple[tuple[Array], tuple[Array, Array]]]:
    """Return what a sweep finds from these centres, (d, r).

    Of each point its distance; of each group its objective, its stiffness and the weight of the points met, (3, r), and
    its pull, (d, r): minus the gradient, points met left out. Points no farther than ``met``, (r,), are met.
    """
    r = centres.shape[1]

    def look(block: Array, own: IntArray, sign: Array, weight: Array) -> tuple[tuple[Array], tuple[Array, Array]]:
        away = block * sign
        away -= centres.take(own, axis=1)
        distance = np.sqrt(np.einsum("db,db->b", away, away))
        on_point = distance <= met[own]
        pull = np.where(on_point, 0.0, weight / np.where(on_point, 1.0, distance))
        of_point = (weight * distance, pull, np.where(on_point, weight, 0.0))
        of_group = np.stack([np.bincount(own, weights=v, minlength=r).astype(np.float64) for v in of_point])
        return (distance,), (of_group, away @ _member(own, pull, r))

    return look


def _newton(x: Array, w: Array, centre: Array, *, tol: float, max_iter: int) -> tuple[Array, float]:
    """Geometric median of one group by Newton steps, halved until they do better than a Weiszfeld step.

    x : (n, d). Where points lie along a line the sum of distances is nearly flat along it: Weiszfeld's steps, which are
    gradient steps, hardly move there. The work is done in the span of the points, so d may be large.
    """
    middle = x.mean(axis=0)
    left, scale, axes = np.linalg.svd(x - middle, full_matrices=False)
    y, total = left * scale, w.sum()

    def look(z: Array) -> tuple[float, float, Array, Array]:
        """Objective, gap, Weiszfeld's step and Newton's step at z."""
        away = y - z
        distance = np.linalg.norm(away, axis=1)
        objective = w @ distance
        on_point = distance <= 1e-14 * max(objective / total, 1e-300)
        inverse = np.where(on_point, 0.0, 1 / np.where(on_point, 1.0, distance))
        pull, held, lines = (w * inverse) @ away, w[on_point].sum(), inverse[:, None] * away
        gap = _relative_gap(pull[None], held[None], total[None], objective[None], (w @ away)[None])[0]
        stiffness = max(float(w @ inverse), 1e-300)
        hessian = stiffness * (1 + 1e-13) * np.eye(z.size) - (lines.T * (w * inverse)) @ lines
        weiszfeld = _free_share(pull[None], held[None])[0] * pull / stiffness
        return float(objective), float(gap), weiszfeld, np.linalg.solve(hessian, pull)

    best = (centre - middle) @ axes.T
    objective, gap, weiszfeld, newton = look(best)
    for _ in range(max_iter):
        if gap <= tol:
            break
        nearest = y[np.argmin(np.linalg.norm(y - best, axis=1))]
        tries = [nearest, best + weiszfeld, *(best + newton * 0.5**halvings for halvings in range(8))]
        seen = [look(z) for z in tries]
        lowest = min(range(len(tries)), key=lambda i: seen[i][0])
        if seen[lowest][0] > objective * (1 - 1e-13):  # the objective is flat to rounding: go by the gap
            lowest = min(range(len(tries)), key=lambda i: (seen[i][0] > objective * (1 + 1e-13), seen[i][1]))
            if seen[lowest][1] >= gap:
                break
        best, (objective, gap, weiszfeld, newton) = tries[lowest], seen[lowest]
    return middle + best @ axes, gap


def _free_share(pull: Array, held: Array) -> Array:
    """Share of Weiszfeld's step to take where the iterate meets points (Vardi and Zhang): 0 where it is the median."""
    return np.asarray(np.maximum(1 - held / np.maximum(np.linalg.norm(pull, axis=1), 1e-300), 0)[:, None])


def _relative_gap(pull: Array, held: Array, total: Array, objective: Array, offset: Array) -> Array:
    """Duality gap over the dual value. pull : (r, d), what is left to balance; held : (r,), the weight of points met.

    Points that the iterate meets may take any direction of norm <= 1: they cancel as much of the pull as they can.
    """
    left = _free_share(pull, held) * pull / total[:, None]  # g, (r, d)
    dual = (objective - np.einsum("rd,rd->r", left, offset)) / (1 + np.linalg.norm(left, axis=1))
    gap = np.maximum(objective - dual, 0)
    return np.where(objective <= 1e-15 * total, 0.0, gap / np.maximum(dual, 1e-9 * objective + 1e-300))


def _moved_onto_near_points(
    centres: Array, moves: IntArray, points: Columns, signs: Array, group: IntArray, distance: Array, scale: Array
) -> Array:
    """Put a centre that closes in on a point onto it: the next step either stays there or leaves.

    Towards a point that is the median the iteration only creeps, and its gap does not close before they coincide.
    ``moves`` counts them for each group: a handful, so that near-duplicates cannot keep a centre hopping for ever.
    """
    near = (distance <= 1e-3 * scale[group]) & (distance > 0) & (moves[group] < MOST_MOVES) & (group >= 0)
    close = np.flatnonzero(near)
    if not close.size:
        return centres
    close = close[np.lexsort((distance[close], group[close]))]
    groups, first = np.unique(group[close], return_index=True)  # the nearest point of each group
    moved = centres.copy()
    moved[:, groups] = points.take(close[first]) * signs[close[first]]
    moves[groups] += 1
    return moved


def _member(groups: IntArray, values: Array, n_groups: int) -> Array:
    """Matrix (b, r) that holds the value of each point in the column of its group: a product with it sums by group."""
    member = np.zeros((groups.size, n_groups))
    member[np.arange(groups.size), groups] = values
    return member

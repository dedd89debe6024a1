"""How far each client moves each component, to first order; and weights that keep one client from moving one far.

Without client k the mean projector lacks ``pi_k P_k``. Its leading directions then turn out of the common span, and the
ICA, whose data that is, turns within it. Noise turns them mostly towards directions that no two clients share, which
are not among those that are looked at: of these only the length is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray

CAP = 1.5
"""A client that moves a component more than this many times as far as the typical one that has it weighs less."""
MIN_CLIENTS = 3
"""As many clients must have a component, for one of them to be called typical."""


@dataclass(frozen=True, eq=False)
class Response:
    """How components follow the mean projector: q leading directions, r of which span the components.

    Parameters
    ----------
    others : ndarray of shape (q - r,)
        Which directions are outside the span of the components.
    towards : ndarray of shape (q - r, r)
        One over the gap of eigenvalues between a direction outside and one of the span.
    beyond : ndarray of shape (r,)
        One over the gap between a direction of the span and those that are not among the q.
    leading : ndarray of shape (r,)
        Which directions are those of the span.
    turn : ndarray of shape (r, r)
        From these to the components.
    own, cross : ndarray of shape (r, q - r) and (r, r, q - r)
        ``E[tanh(y_i) v_o]`` and ``E[tanh'(y_i) y_j v_o]`` over features, y the components and v the directions outside.
    excess : ndarray of shape (r,)
        ``E[tanh'(y_i)] - E[tanh(y_i) y_i]``: how far a component is from Gaussian.
    """

    others: IntArray
    towards: Array
    beyond: Array
    leading: IntArray
    turn: Array
    own: Array
    cross: Array
    excess: Array

    @classmethod
    def of(cls, directions: Array, eigenvalues: Array, leading: IntArray, turn: Array) -> Response:
        """Measure it at components found. directions : (d, q), eigenvectors; turn : (r, r)."""
        scaled = directions * np.sqrt(len(directions))
        others = np.setdiff1d(np.arange(eigenvalues.size), leading)
        smallest = 1e-3 * eigenvalues[0]
        beyond, towards = (
            1 / np.where(np.abs(gaps) < smallest, smallest, gaps)
            for gaps in (eigenvalues[leading] - eigenvalues[-1], eigenvalues[leading] - eigenvalues[others][:, None])
        )
        y, outside = scaled[:, leading] @ turn, scaled[:, others]
        slope = np.tanh(y)
        curve = 1 - slope**2
        cross = np.array([(curve[:, [i]] * y).T @ outside for i in range(y.shape[1])]) / len(y)
        excess = curve.mean(axis=0) - (slope * y).mean(axis=0)
        return cls(others, towards, beyond, leading, turn, slope.T @ outside / len(y), cross, excess)

    def moved(self, share: Array) -> Array:
        """Return how far each component moves, (r,), in radians, when a client's share is gone. share : (q, q)."""
        away = share[np.ix_(self.others, self.leading)] * self.towards @ self.turn  # (q - r, r)
        signs = np.where(self.excess < 0, -1.0, 1.0)
        slope = np.einsum("ijo,oi->ij", self.cross, away) + self.own @ away
        gradient = signs[:, None] * slope
        turned = (gradient - gradient.T) / np.maximum(np.add.outer(np.abs(self.excess), np.abs(self.excess)), 1e-6)
        return np.asarray(np.sqrt((away**2).sum(axis=0) + (turned**2).sum(axis=1)))

    def moved_beyond(self, unseen: Array) -> Array:
        """Return how far each moves towards directions that are not among the q, (r,). unseen : (r, r), see `Moved`."""
        away = self.beyond[:, None] * self.turn
        return np.asarray(np.sqrt(np.maximum(np.einsum("ai,ab,bi->i", away, unseen, away), 0.0)))


@dataclass(frozen=True, eq=False)
class Moved:
    """How far each component moves without each client, (K, r), in degrees, at most 90.

    Parameters
    ----------
    shared : ndarray of shape (K, r)
        Towards the q leading directions, which clients share, and within the common span.
    whole : ndarray of shape (K, r)
        In all.
    """

    shared: Array
    whole: Array

    @classmethod
    def of(cls, response: Response, inside: Array, unseen: Array, weights: Array) -> Moved:
        """Measure it, to first order.

        inside : (K, q, q), projectors in the leading directions. unseen : (K, r, r), products of what they make of
        those of the span beyond the q. weights : (K,).
        """
        shared, beyond = (np.zeros((len(weights), response.leading.size)) for _ in range(2))
        shared[weights >= 1] = np.inf  # without the only client nothing is left
        for k in np.flatnonzero((weights > 0) & (weights < 1)).tolist():
            share = weights[k] / (1 - weights[k])
            shared[k] = response.moved(share * inside[k])
            beyond[k] = share * response.moved_beyond(unseen[k])
        whole = np.hypot(shared, beyond)  # (G10)
        return cls(*(np.minimum(np.degrees(moved), 90.0) for moved in (shared, whole)))


def capped(weights: Array, moved: Moved, has: BoolArray) -> Array:
    """Return weights with which no client moves a component much farther than the typical one that has it, (K,).

    weights : (K,). moved : with these weights. has : (K, r), which client has which component.
    """
    having = has & (weights > 0)[:, None]
    excess = np.ones(len(weights))
    for i in np.flatnonzero(having.sum(axis=0) >= MIN_CLIENTS).tolist():
        for own in (moved.shared[:, i], moved.whole[:, i]):
            excess = np.maximum(excess, own / max(CAP * float(np.median(own[having[:, i]])), 1e-9))
    limited = weights / excess  # (G11)
    return np.asarray(limited / limited.sum())

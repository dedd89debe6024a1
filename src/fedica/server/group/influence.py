"""How far each client moves each component, to first order; and weights that keep one client from moving one far.

Without client k the mean projector lacks ``pi_k P_k``. Its leading directions then turn out of the common span, and the
ICA, whose data that is, turns within it.
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
        gaps = eigenvalues[leading] - eigenvalues[others][:, None]
        smallest = 1e-3 * eigenvalues[0]
        towards = 1 / np.where(np.abs(gaps) < smallest, smallest, gaps)
        y, outside = scaled[:, leading] @ turn, scaled[:, others]
        slope = np.tanh(y)
        curve = 1 - slope**2
        cross = np.array([(curve[:, [i]] * y).T @ outside for i in range(y.shape[1])]) / len(y)
        excess = curve.mean(axis=0) - (slope * y).mean(axis=0)
        return cls(others, towards, leading, turn, slope.T @ outside / len(y), cross, excess)

    def moved(self, share: Array) -> Array:
        """Return how far each component moves, (r,), in degrees, when a client's share is gone. share : (q, q)."""
        away = share[np.ix_(self.others, self.leading)] * self.towards @ self.turn  # (q - r, r)
        signs = np.where(self.excess < 0, -1.0, 1.0)
        slope = np.einsum("ijo,oi->ij", self.cross, away) + self.own @ away
        gradient = signs[:, None] * slope
        turned = (gradient - gradient.T) / np.maximum(np.add.outer(np.abs(self.excess), np.abs(self.excess)), 1e-6)
        return np.asarray(np.degrees(np.sqrt((away**2).sum(axis=0) + (turned**2).sum(axis=1))))  # (G10)


def influences(response: Response, inside: Array, weights: Array) -> Array:
    """Return how far each component moves without each client, (K, r), in degrees, at most 90.

    inside : (K, q, q), projectors in the leading directions. weights : (K,).
    """
    moved = np.zeros((len(weights), response.leading.size))
    for k in np.flatnonzero(weights).tolist():
        moved[k] = response.moved(weights[k] / (1 - weights[k]) * inside[k]) if weights[k] < 1 else 90.0
    return np.minimum(moved, 90.0)


def capped(weights: Array, moved: Array, has: BoolArray) -> Array:
    """Return weights with which no client moves a component much farther than the typical one that has it, (K,).

    weights : (K,). moved : (K, r), with these weights. has : (K, r), which client has which component.
    """
    counts = weights > 0
    excess = np.ones(len(weights))
    for own, having in zip(moved.T, (has & counts[:, None]).T, strict=True):
        if having.sum() >= MIN_CLIENTS:
            excess = np.maximum(excess, own / max(CAP * float(np.median(own[having])), 1e-9))
    limited = weights / excess  # (G11)
    return np.asarray(limited / limited.sum())

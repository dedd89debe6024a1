"""Riemannian Newton steps for Eq. (2) on fourth moments, for starts from which the fixed point converges slowly.

On few samples, or with components that are nearly Gaussian, the fixed point of Eq. (2) contracts by 0.99 per step or
worse. The Hessian follows from the moments, and Newton's method doubles the number of correct digits at every step.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from fedica.arrays import Array, polar
from fedica.ica.moments import FourthMoments
from fedica.ica.rotation import Rotation, antisymmetric, column_steps


def newton_ascent(moments: FourthMoments, start: Array, *, tol: float, max_iter: int) -> Rotation:
    """Maximise sum_i E[(R'z)_i^4] from a start (r, r) by Newton steps ``R <- R expm(W)``, W antisymmetric.

    A step that would lower the objective is halved until it does not.
    """
    current, step, n_iter = start, np.inf, 0
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        second = moments.second(current)  # (r, r, r): E[y_b^2 z z'] for every component b
        slope = np.einsum("ijb,jb->ib", second, current)
        turn = _newton_turn(current, slope, second)
        height = float(np.sum(current * slope))
        new = current
        for _ in range(30):
            new = polar(current @ expm(turn))
            if float(np.sum(new * moments.gradient(new))) >= (1 - 1e-14) * height:
                break
            turn = turn / 2
        step = float(column_steps(new, current).max())
        current = new
        if step <= tol:
            break
    return Rotation(current, n_iter, step, step <= tol)


def _newton_turn(current: Array, slope: Array, second: Array) -> Array:
    """Solve the Newton equation for the antisymmetric W by conjugate gradients, up to a direction of wrong curvature.

    Of f(R expm(W)) the gradient is 4 g, g = R'G, and the Hessian takes W to 12 [T_b w_b]_b + 2 (g W' + W' g), where
    T_b = R' E[y_b^2 zz'] R and w_b is column b of W; both projected on antisymmetric matrices.
    """
    g = current.T @ slope
    blocks = np.einsum("ia,ijb,jc->bac", current, second, current, optimize=True)

    def curvature(turn: Array) -> Array:  # minus the Hessian: positive near a maximum
        own = np.matmul(blocks, turn.T[:, :, None])[:, :, 0].T
        return antisymmetric(-12.0 * own + 2.0 * (g @ turn + turn @ g))

    residual = 4.0 * antisymmetric(g)
    turn, direction = np.zeros_like(g), residual
    square = first = float(np.sum(residual**2))
    for _ in range(g.shape[0] ** 2):
        if square <= 1e-20 * first or square == 0.0:
            break
        image = curvature(direction)
        curved = float(np.sum(direction * image))
        if curved <= 1e-10 * float(np.sum(direction**2)):  # negative curvature: stop CG
            return _at_most_a_radian(turn if turn.any() else direction)
        length = square / curved
        turn = turn + length * direction
        residual = residual - length * image
        square, before = float(np.sum(residual**2)), square
        direction = residual + (square / before) * direction
    return _at_most_a_radian(turn)


def _at_most_a_radian(turn: Array) -> Array:
    """Scale a turn of more than a radian down to one."""
    return turn / max(1.0, float(np.linalg.norm(turn, 2)))

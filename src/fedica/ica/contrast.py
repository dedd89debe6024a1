"""The contrast of the default solver, and its slope over rotations.

``f(R) = sum_i s_i E[log cosh y_i]``, y = R'z, is least where the sources are farthest from Gaussian. The sign s_i is
+1 for a heavy-tailed source and -1 for a flat one, and follows the data, as in Picard-O [1]: the stationary points are
those of symmetric FastICA (logcosh).

References
----------
[1] Ablin, Cardoso, Gramfort (2018). Faster ICA under orthogonal constraint. ICASSP.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array
from fedica.ica.rotation import antisymmetric
from fedica.ica.whitened import Whitened, logcosh


@dataclass(frozen=True, eq=False)
class Slope:
    """What one pass over the data says of a rotation.

    correlation : (r, r), E[tanh(y_i) y_j]. excess : (r,), E[tanh'(y_i)] - E[tanh(y_i) y_i]: zero for a Gaussian source,
    positive for one of heavy tails.
    """

    correlation: Array
    excess: Array

    @classmethod
    def of(cls, rotation: Array, correlation: Array, derivative: Array) -> Slope:
        """Return the slope at a rotation from E[z tanh(y)'] (r, r) and E[tanh'(y)] (r,)."""
        own = correlation.T @ rotation
        return cls(own, derivative - np.diagonal(own))

    @property
    def signs(self) -> Array:
        """Kind of each source, (r,): +1 for heavy tails, -1 for flat ones."""
        return np.where(self.excess < 0, -1.0, 1.0)

    def gradient(self, signs: Array) -> Array:
        """Return G (r, r), antisymmetric: the contrast at ``R @ expm(W).T`` changes by ``sum(G * W)``, W small."""
        return antisymmetric(signs[:, None] * self.correlation)

    def rounded(self, unit: float) -> Slope:
        """Return the slope in whole units: what differs by rounding alone becomes the same."""
        return Slope(np.round(self.correlation / unit) * unit, np.round(self.excess / unit) * unit)

    @property
    def largest(self) -> float:
        """Largest entry of the gradient."""
        return float(np.abs(self.gradient(self.signs)).max())


def slope_at(data: Whitened, rotation: Array) -> Slope:
    """Return the slope at a rotation (r, r), in one pass."""
    return Slope.of(rotation, *data.expect(rotation, logcosh))

"""Features with places: a square sheet of voxels or sensors, on which maps are smooth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from fedica.arrays import Array, unit

CANDIDATES = 20
"""Draws from which the map least like those before is taken."""


@dataclass(frozen=True)
class Sheet:
    """A square sheet of features.

    Parameters
    ----------
    side : int
        Features along one side; d is its square.
    noise_width : float
        Standard deviation of the Gaussian that smooths noise, in features.
    """

    side: int
    noise_width: float

    def noise(self, n_maps: int, rng: np.random.Generator, *, wider: float = 1.0) -> Array:
        """Draw smooth random maps of unit norm: (d, n). wider : factor on the width of the smoothing."""
        width = wider * self.noise_width
        white = rng.standard_normal((n_maps, self.side, self.side))
        return unit(gaussian_filter(white, (0, width, width)).reshape(n_maps, -1).T)

    def blobs(self, width: float, rng: np.random.Generator) -> Array:
        """Draw a map of one to three smooth blobs at random places, of either sign: (d, 1), unit norm."""
        peaks = np.zeros((self.side, self.side))
        for row, column in rng.integers(self.side, size=(rng.integers(1, 4), 2)):
            peaks[row, column] += rng.uniform(0.5, 1) * rng.choice([-1.0, 1.0])
        return unit(gaussian_filter(peaks, width).reshape(-1, 1))

    def components(self, n_maps: int, width: float, rng: np.random.Generator) -> Array:
        """Draw maps of blobs that overlap little and are not symmetric: (d, n).

        Each is the candidate that is least like the maps before it, their mirror images, and its own.
        """
        maps = np.empty((self.side**2, 0))
        for _ in range(n_maps):
            drawn = np.concatenate([self.blobs(width, rng) for _ in range(CANDIDATES)], axis=1)
            others = np.concatenate([maps, self.flip(maps)], axis=1)
            symmetry = np.abs(np.sum(drawn * self.flip(drawn), axis=0))
            overlap = np.maximum(np.abs(others.T @ drawn).max(axis=0, initial=0), symmetry)
            maps = np.concatenate([maps, drawn[:, [np.argmin(overlap)]]], axis=1)
        return maps

    def flip(self, maps: Array) -> Array:
        """Mirror maps left for right. maps : (d, n)."""
        return np.asarray(maps.reshape(self.side, self.side, -1)[:, ::-1].reshape(maps.shape))

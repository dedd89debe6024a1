"""Scalp maps: positions of the electrodes of the 10-10 system, and interpolation between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import RBFInterpolator

from fedica.arrays import Array, IntArray

# Inclination from the top of the head, and azimuth, in degrees, of the left half and the midline (a spherical head; the
# right half mirrors the left: an odd number becomes the next even one).
_LEFT = """
Fp1 92 72|AF7 92 54|AF3 74 65|AF1 70 79|F9 115 36|F7 92 36|F5 75 41|F3 60 51|F1 50 68|FT9 115 18|FT7 92 18|FC5 72 21
FC3 50 28|FC1 32 45|T9 115 0|T7 92 0|C5 69 0|C3 46 0|C1 23 0|TP9 115 -18|TP7 92 -18|CP5 72 -21|CP3 50 -28|CP1 32 -45
P9 115 -36|P7 92 -36|P5 75 -41|P3 60 -51|P1 50 -68|PO9 115 -54|PO7 92 -54|PO5 82 -58|PO3 74 -65|PO1 70 -79|O9 115 -72
O1 92 -72|A1 125 -8|M1 125 -14
"""
_MIDLINE = (
    "Fpz 92 90|AFz 69 90|Fz 46 90|FCz 23 90|Cz 0 0|CPz 23 -90|Pz 46 -90|POz 69 -90|Oz 92 -90|Iz 115 -90|Nz 115 90"
)
_OLD_NAMES = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}
_DECORATION = re.compile(r"^eeg[\s_:-]*|[\s_:-]*(ref|le|re|ar|avg|a1|a2|m1|m2)$|[.\s]+$", flags=re.IGNORECASE)
MIN_CHANNELS = 8
MAX_UNKNOWN_SHARE = 0.25
"""Up to this share of the features may be something else, such as eye channels; the map omits them."""
GRID = 64


def _positions() -> dict[str, tuple[float, float]]:
    """Position of every electrode on a flat head of radius one, nose up, by lower-case name."""
    places: dict[str, tuple[float, float]] = {}
    for mirrored, table in ((True, _LEFT), (False, _MIDLINE)):
        for entry in table.strip().replace("\n", "|").split("|"):
            name, inclination, azimuth = entry.split()
            radius, turn = float(inclination) / 100, np.radians(float(azimuth))
            x, y = float(radius * np.cos(turn)), float(radius * np.sin(turn))
            places[name.lower()] = (-x, y) if mirrored else (x, y)
            if mirrored:
                number = re.sub(r"\d+", lambda found: str(int(found[0]) + 1), name)
                places[number.lower()] = (x, y)
    return places | {old.lower(): places[new.lower()] for old, new in _OLD_NAMES.items()}


POSITIONS = _positions()


@dataclass(frozen=True, eq=False)
class Montage:
    """The features that are electrodes: their indices, and their positions on a head of radius one, nose up."""

    index: IntArray
    places: Array


def montage_of(features: Sequence[str] | None) -> Montage | None:
    """Return the positions of the features if nearly all are electrodes of the 10-10 system, otherwise None."""
    if features is None:
        return None
    found = [(i, POSITIONS[name]) for i, name in enumerate(map(_bare, features)) if name in POSITIONS]
    if len(found) < max(MIN_CHANNELS, (1 - MAX_UNKNOWN_SHARE) * len(features)):
        return None
    places = np.array([place for _, place in found])
    if len(np.unique(places, axis=0)) < len(places):  # two names of one electrode, such as T3 and T7: no known montage
        return None
    return Montage(np.array([i for i, _ in found]), places)


def scalp_maps(montage: Montage, values: Array) -> Array:
    """Interpolate values (d, r) over the head: (r, GRID, GRID), top line first, NaN outside the head.

    Thin-plate splines: smooth, exact at the electrodes.
    """
    side = np.linspace(-1, 1, GRID)
    x, y = np.meshgrid(side, -side)
    inside = x**2 + y**2 <= 1.1  # the page clips the rim to a circle
    spline = RBFInterpolator(montage.places, values[montage.index], kernel="thin_plate_spline")
    maps = np.full((values.shape[1], GRID, GRID), np.nan)
    maps[:, inside] = spline(np.column_stack([x[inside], y[inside]])).T
    return maps


def _bare(name: str) -> str:
    """Return a channel's name in lower case without recorders' decoration: "EEG Fp1-REF" and "Fp1." give "fp1"."""
    bare = name.strip()
    if bare.lower() in POSITIONS:
        return bare.lower()
    for _ in range(3):
        bare = _DECORATION.sub("", bare)
    return bare.lower()

"""Scalp maps: positions of the electrodes of the 10-10 system and of BioSemi-128, and interpolation between them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
# The same of BioSemi's cap of 128 electrodes, A1 to A32, B1, and so on to D32.
_BIOSEMI_128 = """
0 0|11.5 -90|23 -90|34.5 -90|46 -112.5|46 -135|57.5 -135|69 -126|80.5 -126|92 -126|103.5 -126|115 -126|115 -108
103.5 -108|92 -108|80.5 -108|69 -108|57.5 -112.5|46 -90|57.5 -90|69 -90|80.5 -90|92 -90|103.5 -90|115 -90|115 -72
103.5 -72|92 -72|80.5 -72|69 -72|57.5 -67.5|46 -67.5|11.5 -18|23 -45|46 -45|57.5 -45|69 -54|80.5 -54|92 -54|103.5 -54
115 -54|103.5 -36|92 -36|80.5 -36|69 -36|92 -18|80.5 -18|69 -18|57.5 -22.5|46 -22.5|34.5 -30|23 0|34.5 0|46 0|57.5 0
69 0|80.5 0|92 0|92 18|80.5 18|69 18|57.5 22.5|46 22.5|34.5 30|11.5 54|23 45|46 45|57.5 45|69 36|80.5 36|92 36|92 54
80.5 54|69 54|34.5 60|46 67.5|57.5 67.5|69 72|80.5 72|92 72|92 90|80.5 90|69 90|57.5 90|46 90|34.5 90|23 90|34.5 120
46 112.5|57.5 112.5|69 108|80.5 108|92 108|92 126|80.5 126|69 126|11.5 126|23 135|46 135|57.5 135|69 144|80.5 144
92 144|92 162|80.5 162|69 162|57.5 157.5|46 157.5|34.5 150|23 180|11.5 -162|23 -135|34.5 -150|34.5 180|46 180|57.5 180
69 180|80.5 180|92 180|92 -162|80.5 -162|69 -162|57.5 -157.5|46 -157.5|69 -144|80.5 -144|92 -144|103.5 -144
"""
_OLD_NAMES = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}
_PREFIX = re.compile(r"^eeg[\s_:-]*|^\d-(?=[a-d]\d)", flags=re.IGNORECASE)
_SUFFIX = re.compile(r"[\s_:-]*(ref|le|re|ar|avg|a1|a2|m1|m2)$|[.\s]+$", flags=re.IGNORECASE)
Positions = Mapping[str, tuple[float, float]]
"""Where each electrode is on a flat head of radius one, nose up, by lower-case name."""
MIN_CHANNELS = 8
MAX_UNKNOWN_SHARE = 0.25
"""Up to this share of the features may be something else, such as eye channels; the map omits them."""
GRID = 64


def flat_position(inclination: float, azimuth: float) -> tuple[float, float]:
    """Return the position on the flat head of a direction in degrees: from the top, and from the right forwards."""
    radius, turn = inclination / 100, np.radians(azimuth)
    return float(radius * np.cos(turn)), float(radius * np.sin(turn))


def _ten_ten() -> dict[str, tuple[float, float]]:
    """Return the positions of the 10-10 system."""
    places: dict[str, tuple[float, float]] = {}
    for mirrored, table in ((True, _LEFT), (False, _MIDLINE)):
        for entry in table.strip().replace("\n", "|").split("|"):
            name, inclination, azimuth = entry.split()
            x, y = flat_position(float(inclination), float(azimuth))
            places[name.lower()] = (-x, y) if mirrored else (x, y)
            if mirrored:
                number = re.sub(r"\d+", lambda found: str(int(found[0]) + 1), name)
                places[number.lower()] = (x, y)
    return places | {old.lower(): places[new.lower()] for old, new in _OLD_NAMES.items()}


def _biosemi_128() -> dict[str, tuple[float, float]]:
    """Return the positions of BioSemi's cap of 128 electrodes."""
    names = [f"{band}{number}" for band in "abcd" for number in range(1, 33)]
    entries = _BIOSEMI_128.strip().replace("\n", "|").split("|")
    return {name: flat_position(*map(float, entry.split())) for name, entry in zip(names, entries, strict=True)}


POSITIONS: Positions = _ten_ten()
BIOSEMI_128: Positions = _biosemi_128()


@dataclass(frozen=True, eq=False)
class Montage:
    """The features that are electrodes: their indices, and their positions on a head of radius one, nose up."""

    index: IntArray
    places: Array

    @property
    def extent(self) -> float:
        """Radius of the map: beyond that of the head if electrodes lie below its widest line."""
        return max(1.0, float(np.linalg.norm(self.places, axis=1).max()) + 0.02)


def montage_of(features: Sequence[str] | None, positions: Positions | None = None) -> Montage | None:
    """Return the positions of the features if nearly all are electrodes, otherwise None.

    positions : those of a recording, by name in lower case; by default those of the 10-10 system or of BioSemi-128,
    whichever knows more of the names.
    """
    if features is None:
        return None
    caps = (POSITIONS, BIOSEMI_128) if positions is None else (positions,)
    found = max((_located(features, cap) for cap in caps), key=len)
    if len(found) < max(MIN_CHANNELS, (1 - MAX_UNKNOWN_SHARE) * len(features)):
        return None
    places = np.array(list(found.values()))
    if len(np.unique(places, axis=0)) < len(places):  # two names of one electrode, such as T3 and T7: no known montage
        return None
    return Montage(np.array(list(found)), places)


def _located(features: Sequence[str], positions: Positions) -> dict[int, tuple[float, float]]:
    """Return the positions of the features that have one, by index."""
    names = [_bare(name, positions) for name in features]
    return {i: positions[name] for i, name in enumerate(names) if name in positions}


def scalp_maps(montage: Montage, values: Array, n_pixels: int = GRID) -> Array:
    """Interpolate values (d, r) over the head: (r, n_pixels, n_pixels), top line first, NaN outside the map.

    Thin-plate splines: smooth, exact at the electrodes.
    """
    side = montage.extent * np.linspace(-1, 1, n_pixels)
    x, y = np.meshgrid(side, -side)
    inside = x**2 + y**2 <= 1.1 * montage.extent**2  # the page clips the rim to a circle
    spline = RBFInterpolator(montage.places, values[montage.index], kernel="thin_plate_spline")
    maps = np.full((values.shape[1], n_pixels, n_pixels), np.nan)
    maps[:, inside] = spline(np.column_stack([x[inside], y[inside]])).T
    return maps


def _bare(name: str, known: Positions) -> str:
    """Return a channel's name in lower case without recorders' decoration: "EEG Fp1-REF" and "Fp1." give "fp1"."""
    bare = name.strip().lower()
    for decoration in (_PREFIX, _SUFFIX, _SUFFIX, _SUFFIX):
        if bare in known:
            break
        bare = decoration.sub("", bare)
    return bare

"""The atoms that clients sent of each component, as small pictures beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedica.arrays import Array, IntArray
from fedica.progress import counting
from fedica.records import Aggregate
from fedica.report.forms import Form
from fedica.report.png import thumbnail
from fedica.report.slices import peak_of

MAX_BYTES = 1_500_000
"""About this much of the page goes to small pictures; of more clients, some are left out."""
MIN_SHOWN, MAX_SHOWN = 3, 40
"""Fewest and most clients of a component with a picture."""
SCALP_PIXELS = 36
MAX_THUMBNAIL = 160
"""Pixels of the longer side of a small picture."""
STROKES_WIDTH, STROKES_HEIGHT = 120, 40
BYTES_PER_STROKE = 14


@dataclass(frozen=True)
class ClientMap:
    """What one client sent of a component."""

    client: int
    likeness: float  # absolute cosine to the component
    picture: str  # data URL, or SVG path of strokes


@dataclass(frozen=True)
class ClientMaps:
    """The small pictures of one component, most alike first, and how many clients sent an atom of it."""

    shown: tuple[ClientMap, ...]
    n_clients: int


def client_maps(aggregate: Aggregate, form: Form) -> list[ClientMaps]:
    """Draw what clients sent of each component: all, or a regular selection from the most to the least alike.

    Slices go through the component's own peak and colours have its scale, so that pictures can be compared.
    """
    most = _n_shown(aggregate, form)
    return [
        _of_component(aggregate, form, a, most) for a in counting(range(aggregate.n_components), aggregate.n_components)
    ]


def _of_component(aggregate: Aggregate, form: Form, a: int, most: int) -> ClientMaps:
    component = aggregate.mixing[:, a]
    peak, largest = peak_of(component), float(np.abs(component).max())
    atoms, likeness = _nearest_atoms(aggregate, a)
    shown = []
    for i in np.linspace(0, atoms.size - 1, min(most, atoms.size)).round().astype(int).tolist():
        values = aggregate.atoms[:, atoms[i]] * aggregate.signs[atoms[i]]
        drawn = _draw(form, values, peak, largest)
        shown.append(ClientMap(int(aggregate.client_of_atom[atoms[i]]), float(likeness[i]), drawn))
    return ClientMaps(tuple(shown), atoms.size)


def _nearest_atoms(aggregate: Aggregate, a: int) -> tuple[IntArray, Array]:
    """Return each client's nearest atom of a component, and its likeness, most alike first."""
    mine = np.flatnonzero(aggregate.labels == a)
    likeness = np.minimum(np.abs(aggregate.mixing[:, a] @ aggregate.atoms[:, mine]), 1.0)
    order = np.argsort(-likeness, kind="stable")
    first = np.sort(np.unique(aggregate.client_of_atom[mine[order]], return_index=True)[1])
    return mine[order][first], likeness[order][first]


def _draw(form: Form, values: Array, peak: int, largest: float) -> str:
    if form.kind in ("bars", "profile"):
        return strokes(values, STROKES_WIDTH, STROKES_HEIGHT, largest)
    drawn = form.picture(values, peak, SCALP_PIXELS)
    return thumbnail(drawn, largest, MAX_THUMBNAIL)


def _n_shown(aggregate: Aggregate, form: Form) -> int:
    """Return how many clients of a component have a picture, so that the page stays small."""
    d, r = aggregate.mixing.shape
    if form.kind in ("bars", "profile"):
        size = BYTES_PER_STROKE * min(d, STROKES_WIDTH)
    else:
        height, width = form.picture(aggregate.mixing[:, 0], 0, SCALP_PIXELS).shape
        step = -(-max(height, width) // MAX_THUMBNAIL)
        size = height * width // step**2
    return int(np.clip(MAX_BYTES // (r * (size + 400)), MIN_SHOWN, MAX_SHOWN))


def strokes(values: Array, width: int, height: int, largest: float) -> str:
    """Return the SVG path of vertical strokes from zero; with many features, a stroke spans the extremes of a few.

    values : (d,). largest : the value that reaches the upper edge; larger ones are cut.
    """
    edges = np.linspace(0, values.size, min(values.size, width) + 1).astype(int)[:-1]
    values = np.clip(values / max(largest, 1e-300), -1, 1)
    middle = height / 2
    top = middle - (middle - 2) * np.maximum(np.maximum.reduceat(values, edges), 0)
    bottom = middle - (middle - 2) * np.minimum(np.minimum.reduceat(values, edges), 0)
    x = (np.arange(edges.size) + 0.5) * width / edges.size
    return "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(x, top, bottom, strict=True))

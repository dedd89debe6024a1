"""All atoms in two dimensions, around the marks of the components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedica.arrays import IntArray
from fedica.records import Aggregate
from fedica.report.atom_map import AtomMap, map_atoms
from fedica.report.figures.style import QUIET, Description, colour, layout, plain, to_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "pentagon", "hexagon", "star"]
"""Marker of each client; they repeat after ten clients."""
EXTENT = 1.36
"""The axes run from minus to plus this value; components lie on the unit circle."""
LABEL_RADIUS = 1.24
_ANGLE = "%{customdata[1]:.1f}° from component %{customdata[2]}"
MAX_LARGE_MARKERS = 1500
"""From this number of atoms on, markers are smaller and more transparent."""


def plot_atoms(aggregate: Aggregate) -> Figure:
    """Draw all atoms in two dimensions; colour shows the component, shape the client.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.

    Returns
    -------
    plotly.graph_objects.Figure
        An atom on a component's mark equals the component; one in the middle is near none.
    """
    return to_figure(describe_atoms(aggregate, map_atoms(aggregate)))


def describe_atoms(aggregate: Aggregate, atom_map: AtomMap) -> Description:
    """Return the description of the map, one trace per component."""
    labels = aggregate.labels[atom_map.shown]
    groups = [(a, np.flatnonzero(labels == a)) for a in range(-1, aggregate.n_components)]
    hidden = {"visible": False, "range": [-EXTENT, EXTENT]}
    return {
        "data": [_marks(atom_map), *(_atoms_of(a, mine, aggregate, atom_map) for a, mine in groups if mine.size)],
        "layout": layout(
            "All atoms",
            xaxis=hidden | {"scaleanchor": "y", "constrain": "domain"},
            yaxis=hidden,
            annotations=[_label(a, float(x), float(y)) for a, (x, y) in enumerate(atom_map.marks)],
            hovermode="closest",
            showlegend=False,
            height=560,
            margin={"l": 8, "r": 8, "t": 8, "b": 8},
        ),
    }


def _atoms_of(a: int, mine: IntArray, aggregate: Aggregate, atom_map: AtomMap) -> Description:
    """Describe the atoms of component a, or with a = -1 those of none; customdata is client, angle, nearest."""
    owner = aggregate.client_of_atom[atom_map.shown[mine]].tolist()
    name = f"component {a}" if a >= 0 else "matches no component"
    suffix = "" if a >= 0 else "-open"
    few = atom_map.shown.size < MAX_LARGE_MARKERS
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": atom_map.places[mine, 0].round(4).tolist(),
        "y": atom_map.places[mine, 1].round(4).tolist(),
        "customdata": [
            [k, round(float(angle), 2), int(near)]
            for k, angle, near in zip(owner, atom_map.angles[mine], atom_map.nearest[mine], strict=True)
        ],
        "text": [plain(aggregate.clients[k]) for k in owner],
        "hovertemplate": f"%{{text}}<br>{name}<br>{_ANGLE}<extra></extra>",
        "marker": {
            "symbol": [SYMBOLS[k % len(SYMBOLS)] + suffix for k in owner],
            "color": colour(a),
            "size": 8 if few else 5,
            "opacity": 0.8 if few else 0.6,
        },
    }


def _marks(atom_map: AtomMap) -> Description:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": atom_map.marks[:, 0].round(4).tolist(),
        "y": atom_map.marks[:, 1].round(4).tolist(),
        "marker": {"symbol": "cross-thin-open", "size": 16, "color": QUIET, "line": {"width": 1}},
        "hoverinfo": "skip",
        "showlegend": False,
        "name": "marks",
    }


def _label(a: int, x: float, y: float) -> Description:
    font = {"color": colour(a), "size": 15}
    return {"x": LABEL_RADIUS * x, "y": LABEL_RADIUS * y, "text": f"<b>{a}</b>", "showarrow": False, "font": font}

"""Clients against components: a heat map of angles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedica.records import Aggregate
from fedica.report.agreement import trust_of, worst_first
from fedica.report.figures.style import Description, axis, layout, plain, to_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

HEAT: list[list[Any]] = [
    [0, "#e3f1ec"],
    [0.15, "#cfe8de"],
    [0.33, "#f0e2a8"],
    [0.47, "#f3c98b"],
    [0.62, "#e79a6b"],
    [1, "#7d1f2b"],
]
"""Colour scale of the angles, pale where client and component agree. The position on it is sqrt(angle / 90)."""
HEAT_TICKS = np.array([0, 2, 5, 15, 30, 60, 90])
"""Labelled angles of the colour scale, in degrees."""


def plot_trust(aggregate: Aggregate) -> Figure:
    """Draw clients against components as a heat map of angles, outlying clients on top.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.

    Returns
    -------
    plotly.graph_objects.Figure
        Hovering shows client, component and angle.
    """
    return to_figure(describe_trust(aggregate))


def describe_trust(aggregate: Aggregate) -> Description:
    """Return the description of the heat map."""
    trust, r = trust_of(aggregate), aggregate.n_components
    order = worst_first(trust)[::-1]  # plotly draws the first row at the bottom
    angles = trust.angles[order]
    names = [plain(aggregate.clients[k], 24) for k in order]
    trace = {
        "type": "heatmap",
        "x": list(range(r)),
        "y": list(range(len(order))),
        "z": np.sqrt(angles / 90).round(4).tolist(),
        "customdata": angles.round(2).tolist(),
        "text": [[f"{name} ({trust.verdict[k]})"] * r for name, k in zip(names, order, strict=True)],
        "hovertemplate": "%{text}<br>component %{x}: %{customdata:.1f}°<extra></extra>",
        "colorscale": HEAT,
        "zmin": 0,
        "zmax": 1,
        "xgap": 1,
        "ygap": 1,
        "colorbar": {
            "title": {"text": "angle"},
            "tickvals": np.sqrt(HEAT_TICKS / 90).tolist(),
            "ticktext": [f"{angle}°" for angle in HEAT_TICKS],
        },
    }
    step = max(1, len(order) // 60)
    ticks = {"tickvals": list(range(0, len(order), step)), "ticktext": names[::step]}
    return {
        "data": [trace],
        "layout": layout(
            "Angle of each client to each component",
            xaxis=axis("component", dtick=max(1, r // 20), showgrid=False),
            yaxis=axis("", showgrid=False, automargin=True, **ticks),
            height=int(np.clip(140 + 18 * len(order), 260, 1200)),
        ),
    }

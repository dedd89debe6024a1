"""Clients against components: a heat map of likeness over chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedica.records import Aggregate
from fedica.report.agreement import chance_of, likeness_of, over_chance, trust_of, worst_first
from fedica.report.figures.style import Description, axis, layout, plain, to_figure, wrapped

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

HEAT: list[list[Any]] = [
    [0, "#7d1f2b"],
    [0.05, "#b5482e"],
    [0.2, "#e79a6b"],
    [0.4, "#f3c98b"],
    [0.6, "#f0e2a8"],
    [0.85, "#cfe8de"],
    [1, "#e3f1ec"],
]
"""Colour scale of likeness over chance, pale where client and component agree."""

HOVER = "%{text}<br>component %{x}: cosine %{customdata[0]:.2f} (chance %{customdata[1]:.2f})<extra></extra>"


def plot_trust(aggregate: Aggregate) -> Figure:
    """Draw clients against components as a heat map of likeness over chance, outlying clients on top.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.

    Returns
    -------
    plotly.graph_objects.Figure
        Hovering shows client, component, likeness and what chance gives.
    """
    return to_figure(describe_trust(aggregate))


def describe_trust(aggregate: Aggregate) -> Description:
    """Return the description of the heat map."""
    trust, r = trust_of(aggregate), aggregate.n_components
    order = worst_first(trust)[::-1]  # plotly draws the first row at the bottom
    likeness, chance = likeness_of(trust)[order], chance_of(trust)[order]
    names = [plain(aggregate.clients[k]) for k in order]
    whole = [wrapped(aggregate.clients[k]) for k in order]
    trace = {
        "type": "heatmap",
        "x": list(range(r)),
        "y": list(range(len(order))),
        "z": over_chance(trust)[order].round(4).tolist(),
        "customdata": np.stack([likeness, np.repeat(chance[:, None], r, axis=1)], axis=2).round(3).tolist(),
        "text": [[f"{name} ({trust.verdict[k]})"] * r for name, k in zip(whole, order, strict=True)],
        "hovertemplate": HOVER,
        "colorscale": HEAT,
        "zmin": 0,
        "zmax": 1,
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"title": {"text": "likeness over chance"}},
    }
    step = max(1, len(order) // 60)
    ticks = {"tickvals": list(range(0, len(order), step)), "ticktext": names[::step]}
    return {
        "data": [trace],
        "layout": layout(
            "Likeness of each client to each component, over chance",
            xaxis=axis("component", dtick=max(1, r // 20), showgrid=False),
            yaxis=axis("client", showgrid=False, automargin=True, **ticks),
            height=int(np.clip(140 + 18 * len(order), 260, 1200)),
        ),
    }

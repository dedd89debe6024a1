"""How alike atoms are to their components, beside what chance gives: a histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedica.arrays import Array
from fedica.records import Aggregate, Trust
from fedica.report.agreement import chance_of, likeness_of, trust_of
from fedica.report.figures.style import ACCENT, Description, axis, layout, marked, to_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

N_BINS = 50


def plot_likeness(aggregate: Aggregate) -> Figure:
    """Draw how many atoms reach which likeness to their component; a dashed line marks what chance gives.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.

    Returns
    -------
    plotly.graph_objects.Figure
        A histogram of absolute cosines.
    """
    return to_figure(describe_likeness(trust_of(aggregate)))


def describe_likeness(trust: Trust) -> Description:
    """Return the description of the histogram."""
    counts, edges = np.histogram(assigned_likeness(trust), bins=N_BINS, range=(0.0, 1.0))
    trace = {
        "type": "bar",
        "x": ((edges[1:] + edges[:-1]) / 2).round(4).tolist(),
        "y": counts.tolist(),
        "width": [1 / N_BINS] * N_BINS,
        "marker": {"color": ACCENT, "opacity": 0.75},
        "hovertemplate": "cosine %{x:.2f}: %{y}<extra></extra>",
        "showlegend": False,
    }
    chance = typical_chance(trust)
    marks = marked(chance, f"chance {chance:.2f}", on_its_left=chance > 0.8) if chance else {}
    return {
        "data": [trace],
        "layout": layout(
            "Number of atoms by their likeness to the component",
            xaxis=axis(
                "likeness: absolute cosine to the component",
                range=[0, 1],
                tickvals=[0.2, 0.4, 0.6, 0.8, 1],
                showgrid=False,
            ),
            yaxis=axis("number of atoms", rangemode="tozero"),
            height=320,
            **marks,
        ),
    }


def assigned_likeness(trust: Trust) -> Array:
    """Return the likeness of all atoms, or spans, that have a component."""
    return likeness_of(trust)[trust.angles < 90]


def typical_chance(trust: Trust) -> float:
    """Return what chance gives, the median over clients; 0 if it is not known."""
    return float(np.median(chance_of(trust)))

"""The spectrum of the affinity of all atoms, with the chosen number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedica.records import Aggregate
from fedica.report.figures.style import ACCENT, PALE, QUIET, Description, axis, layout, marked, to_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def plot_spectrum(aggregate: Aggregate) -> Figure:
    """Draw the leading eigenvalues of the affinity of all atoms, with the chosen number of components.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.

    Returns
    -------
    plotly.graph_objects.Figure
        The eigenvalues beyond the chosen number are pale.
    """
    return to_figure(describe_spectrum(aggregate))


def n_eigenvalues_shown(aggregate: Aggregate) -> int:
    """Return how many eigenvalues are drawn: twice the chosen number or more, so that the gap is visible."""
    return min(aggregate.spectrum.size, max(2 * aggregate.n_components + 4, 12))


def describe_spectrum(aggregate: Aggregate) -> Description:
    """Return the description of the spectrum."""
    r, n = aggregate.n_components, n_eigenvalues_shown(aggregate)
    number = np.arange(1, n + 1)
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": number.tolist(),
        "y": [float(f"{value:.5g}") for value in aggregate.spectrum[:n]],
        "line": {"color": QUIET, "width": 1},
        "marker": {"size": 8, "color": [ACCENT if i <= r else PALE for i in number]},
        "hovertemplate": "eigenvalue %{x}: %{y:.4g}<extra></extra>",
        "showlegend": False,
    }
    ticks = {"dtick": 1} if n <= 12 else {"nticks": 8}
    return {
        "data": [trace],
        "layout": layout(
            "Spectrum of the affinity",
            xaxis=axis(
                "number of the eigenvalue", range=[0.5, max(n, r + 1) + 0.9], showgrid=False, tickangle=0, **ticks
            ),
            yaxis=axis("eigenvalue", rangemode="tozero"),
            height=320,
            **marked(r + 0.5, f"{r} chosen"),
        ),
    }

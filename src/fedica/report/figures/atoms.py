"""The angle of every atom to its component."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedica.arrays import IntArray
from fedica.records import Aggregate
from fedica.report.agreement import concern, trust_of
from fedica.report.atom_angles import AtomAngles, angles_of_atoms
from fedica.report.figures.style import QUIET, Description, axis, layout, to_figure, wrapped

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

VERDICT_STYLES = {
    "trusted": ("circle", "#2f8f66"),
    "partial": ("diamond", "#2f74d0"),
    "weak": ("triangle-up", "#b7791f"),
    "outlying": ("x", "#c0392b"),
}
"""Symbol and colour of each verdict."""
OTHER_STYLE = ("circle", QUIET)
"""Of clients that were not judged."""
NONE = "none"
"""Tick of the column of atoms that match no component."""
MAX_TICKS = 15
"""Components named below the axis, so many that a phone shows them side by side."""
MAX_LARGE_MARKERS = 1500
"""From this number of atoms on, markers are smaller and more transparent."""


def plot_atoms(aggregate: Aggregate) -> Figure:
    """Draw the angle of every atom to its component; colour and shape show the client's verdict.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.

    Returns
    -------
    plotly.graph_objects.Figure
        One column of points per component; a client has the same place in every column.
    """
    return to_figure(describe_atoms(aggregate, angles_of_atoms(aggregate)))


def describe_atoms(aggregate: Aggregate, drawn: AtomAngles) -> Description:
    """Return the description of the columns, one trace per verdict and one of medians."""
    verdicts = np.array(trust_of(aggregate).verdict)[aggregate.client_of_atom[drawn.shown]]
    present = sorted(set(verdicts.tolist()), key=concern, reverse=True)
    at, names = component_ticks(aggregate)
    return {
        "data": [
            _medians(aggregate),
            *(_atoms_of(v, np.flatnonzero(verdicts == v), aggregate, drawn) for v in present),
        ],
        "layout": layout(
            "Angle of every atom to its component",
            xaxis=axis(
                "component",
                range=[-0.6, max(at[-1], aggregate.n_components - 1) + 0.6],
                showgrid=False,
                tickvals=at,
                ticktext=names,
                tickangle=0,
            ),
            yaxis=axis("angle to the component (°)", rangemode="tozero"),
            hovermode="closest",
            legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            height=480,
        ),
    }


def component_ticks(aggregate: Aggregate) -> tuple[list[int], list[str]]:
    """Return places and names of the columns: components, at regular steps if many, and the atoms of none."""
    r = aggregate.n_components
    at = list(range(0, r, -(-r // MAX_TICKS)))
    names = [str(a) for a in at]
    return (at, names) if (aggregate.labels >= 0).all() else ([*at, r], [*names, NONE])


def _atoms_of(verdict: str, mine: IntArray, aggregate: Aggregate, drawn: AtomAngles) -> Description:
    """Describe the atoms of clients with one verdict; customdata is client, angle, nearest component, cosine."""
    owner = aggregate.client_of_atom[drawn.shown[mine]].tolist()
    symbol, colour = VERDICT_STYLES.get(verdict, OTHER_STYLE)
    few = drawn.shown.size < MAX_LARGE_MARKERS
    return {
        "type": "scatter",
        "mode": "markers",
        "name": verdict,
        "x": drawn.x[mine].round(4).tolist(),
        "y": drawn.angles[mine].round(3).tolist(),
        "customdata": [
            [k, round(float(angle), 2), int(near), round(float(np.cos(np.radians(angle))), 3)]
            for k, angle, near in zip(owner, drawn.angles[mine], drawn.nearest[mine], strict=True)
        ],
        "text": [wrapped(aggregate.clients[k]) for k in owner],
        "hovertemplate": "%{text}<br>%{customdata[1]:.1f}° from component %{customdata[2]}, cosine %{customdata[3]:.2f}"
        f"<br>{verdict}<extra></extra>",
        "marker": {"symbol": symbol, "color": colour, "size": 7 if few else 4, "opacity": 0.8 if few else 0.6},
    }


def _medians(aggregate: Aggregate) -> Description:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(range(aggregate.n_components)),
        "y": [None if not np.isfinite(s) else round(float(s), 3) for s in aggregate.spread],
        "marker": {
            "symbol": "line-ew-open",
            "size": int(np.clip(500 / aggregate.n_components, 8, 22)),
            "color": QUIET,
            "line": {"width": 2},
        },
        "hoverinfo": "skip",
        "name": "median",
    }

"""The figures that move, as plotly takes them; in a notebook each function returns a plotly figure.

The page draws the same descriptions with a small build of plotly.js, so plotly itself is imported only where a figure
is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedica.records import Aggregate
from fedica.report.agreement import Agreement, agreement_of
from fedica.report.atom_map import AtomMap, map_atoms
from fedica.report.components import ImageShape, component_maps, feature_names
from fedica.report.headline import short
from fedica.report.png import DIVERGING

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Description = dict[str, Any]
"""Traces and layout of a figure: plain lists, texts and numbers."""

INK, QUIET, ACCENT, GRID = "#1b1f24", "#5b6470", "#1f5fbf", "#d5dae1"
_HUES = ["#1f77b4", "#d95f02", "#1b9e77", "#c2297f", "#7a5cc4", "#8c6d00", "#3f8f29", "#c0392b", "#0e8a9c", "#7f4f24"]
SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "pentagon", "hexagon", "star"]
"""Shapes of clients; with more than ten clients they come again."""
HEAT: list[list[Any]] = [
    [0, "#e3f1ec"],
    [0.15, "#cfe8de"],
    [0.33, "#f0e2a8"],
    [0.47, "#f3c98b"],
    [0.62, "#e79a6b"],
    [1, "#7d1f2b"],
]
"""Colours of angles: pale where client and component agree. The place on the scale is sqrt(angle / 90)."""


def colour(component: int) -> str:
    """Return the colour of a component; -1 is the grey of what belongs to none."""
    return "#7b8490" if component < 0 else _HUES[component % len(_HUES)]


def plain(text: str, most: int = 40) -> str:
    """Return a name that plotly shows as it is: plotly would take ``<b>`` for markup.

    The isolating signs keep a name that is written from right to left from turning its neighbours round.
    """
    safe = short(text, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"\u2068{safe}\u2069"


def plot_trust(aggregate: Aggregate) -> Figure:
    """Draw clients against components as a heat map of angles, those to worry about on top.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.

    Returns
    -------
    plotly.graph_objects.Figure
        Hovering names client, component and angle.
    """
    return _figure(describe_trust(aggregate, agreement_of(aggregate)))


def plot_spectrum(aggregate: Aggregate) -> Figure:
    """Draw the leading eigenvalues of the affinity of all atoms, with the chosen number of components.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.

    Returns
    -------
    plotly.graph_objects.Figure
        The eigenvalues beyond the chosen number are pale.
    """
    return _figure(describe_spectrum(aggregate))


def plot_atoms(aggregate: Aggregate) -> Figure:
    """Draw all atoms in two dimensions, coloured by component, shaped by client.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.

    Returns
    -------
    plotly.graph_objects.Figure
        An atom on a component's mark equals the component; one in the middle is near none.
    """
    agreement = agreement_of(aggregate)
    return _figure(describe_atoms(aggregate, map_atoms(aggregate, agreement)))


def plot_components(aggregate: Aggregate, *, image: ImageShape | str = "auto") -> Figure:
    """Draw every component over the features: bars, images, scalp maps or slices.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.
    image : tuple of int, "auto" or "no"
        Height and width when the features are pixels; by default that is guessed.

    Returns
    -------
    plotly.graph_objects.Figure
        One panel a component.
    """
    return _figure(describe_components(aggregate, image=image))


def describe_trust(aggregate: Aggregate, agreement: Agreement) -> Description:
    """Return the heat map of `plot_trust`."""
    order = agreement.worst_first()[::-1]  # plotly draws the first line at the bottom
    angles = agreement.angles[order]
    names = [plain(aggregate.clients[k], 24) for k in order]
    marks = [0, 2, 5, 15, 30, 60, 90]
    trace = {
        "type": "heatmap",
        "x": list(range(aggregate.n_components)),
        "y": list(range(order.size)),
        "z": np.sqrt(angles / 90).round(4).tolist(),
        "customdata": angles.round(2).tolist(),
        "text": [
            [f"{name} ({agreement.verdict[k]})"] * aggregate.n_components for name, k in zip(names, order, strict=True)
        ],
        "hovertemplate": "%{text}<br>component %{x}: %{customdata:.1f}°<extra></extra>",
        "colorscale": HEAT,
        "zmin": 0,
        "zmax": 1,
        "xgap": 1,
        "ygap": 1,
        "colorbar": {
            "title": {"text": "angle"},
            "tickvals": np.sqrt(np.array(marks) / 90).tolist(),
            "ticktext": [f"{m}°" for m in marks],
        },
    }
    step = max(1, order.size // 60)
    layout = _layout("Angle of each client to each component") | {
        "xaxis": _axis("component", dtick=max(1, aggregate.n_components // 20), showgrid=False),
        "yaxis": _axis(
            "", tickvals=list(range(0, order.size, step)), ticktext=names[::step], showgrid=False, automargin=True
        ),
        "height": int(np.clip(140 + 18 * order.size, 260, 1200)),
    }
    return {"data": [trace], "layout": layout}


def describe_spectrum(aggregate: Aggregate) -> Description:
    """Return the spectrum of `plot_spectrum`."""
    r = aggregate.n_components
    values = aggregate.spectrum[: shown_eigenvalues(aggregate)]
    place = np.arange(1, values.size + 1)
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": place.tolist(),
        "y": [float(f"{value:.5g}") for value in values],
        "line": {"color": QUIET, "width": 1},
        "marker": {"size": 8, "color": [ACCENT if i <= r else "#a9b1bb" for i in place]},
        "hovertemplate": "eigenvalue %{x}: %{y:.4g}<extra></extra>",
        "showlegend": False,
    }
    line = {
        "type": "line",
        "x0": r + 0.5,
        "x1": r + 0.5,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": ACCENT, "width": 1.5, "dash": "dash"},
    }
    label = {
        "x": r + 0.5,
        "y": 1,
        "yref": "paper",
        "text": f"{r} chosen",
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "top",
        "xshift": 6,
        "font": {"color": ACCENT},
    }
    layout = _layout("Spectrum of the affinity") | {
        "xaxis": _axis(
            "eigenvalue",
            range=[0.5, max(values.size, r + 1) + 0.9],
            showgrid=False,
            tickangle=0,
            **({"dtick": 1} if values.size <= 12 else {"nticks": 8}),
        ),
        "yaxis": _axis("", rangemode="tozero"),
        "shapes": [line],
        "annotations": [label],
        "height": 320,
    }
    return {"data": [trace], "layout": layout}


def shown_eigenvalues(aggregate: Aggregate) -> int:
    """How many eigenvalues are drawn: those that were taken, and as many again, to see the gap."""
    return min(aggregate.spectrum.size, max(2 * aggregate.n_components + 4, 12))


def describe_atoms(aggregate: Aggregate, atom_map: AtomMap) -> Description:
    """Return the map of `plot_atoms`: a trace a component; customdata is client, angle and atom."""
    owner, label = aggregate.client_of_atom[atom_map.shown], aggregate.labels[atom_map.shown]
    names = [plain(client) for client in aggregate.clients]
    traces = []
    for a in range(-1, aggregate.n_components):
        mine = np.flatnonzero(label == a)
        if not mine.size:
            continue
        what = f"component {a}" if a >= 0 else "matches no component"
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": what,
                "x": atom_map.places[mine, 0].round(4).tolist(),
                "y": atom_map.places[mine, 1].round(4).tolist(),
                "customdata": [
                    [int(k), round(float(angle), 2), int(near)]
                    for k, angle, near in zip(owner[mine], atom_map.angles[mine], atom_map.nearest[mine], strict=True)
                ],
                "text": [names[k] for k in owner[mine]],
                "hovertemplate": "%{text}<br>"
                + what
                + "<br>%{customdata[1]:.1f}° from component %{customdata[2]}<extra></extra>",
                "marker": {
                    "symbol": [SYMBOLS[k % len(SYMBOLS)] + ("-open" if a < 0 else "") for k in owner[mine].tolist()],
                    "color": colour(a),
                    "size": 8 if owner.size < 1500 else 5,
                    "opacity": 0.8 if owner.size < 1500 else 0.6,
                },
            }
        )
    labels = [
        {
            "x": float(1.24 * x),
            "y": float(1.24 * y),
            "text": f"<b>{a}</b>",
            "showarrow": False,
            "font": {"color": colour(a), "size": 15},
        }
        for a, (x, y) in enumerate(atom_map.marks)
    ]
    marks = {
        "type": "scatter",
        "mode": "markers",
        "x": atom_map.marks[:, 0].round(4).tolist(),
        "y": atom_map.marks[:, 1].round(4).tolist(),
        "marker": {"symbol": "cross-thin-open", "size": 16, "color": QUIET, "line": {"width": 1}},
        "hoverinfo": "skip",
        "showlegend": False,
        "name": "marks",
    }
    hidden = {"visible": False, "range": [-1.36, 1.36]}
    layout = _layout("All atoms") | {
        "xaxis": hidden | {"scaleanchor": "y", "constrain": "domain"},
        "yaxis": dict(hidden),
        "annotations": labels,
        "hovermode": "closest",
        "showlegend": False,
        "height": 560,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
    }
    return {"data": [marks, *traces], "layout": layout}


def describe_components(aggregate: Aggregate, *, image: ImageShape | str = "auto") -> Description:
    """Return the panels of `plot_components`."""
    found = component_maps(aggregate, image)
    names = [plain(name, 24) for name in feature_names(aggregate)] if found is None else []
    r = aggregate.n_components
    columns = min(r, 4)
    rows = -(-r // columns)
    layout = _layout("Components") | {"height": 90 + 230 * rows, "showlegend": False, "annotations": []}
    traces: list[Description] = []
    for a in range(r):
        row, column = divmod(a, columns)
        x = [column / columns + 0.02, (column + 1) / columns - 0.02]
        y = [1 - (row + 0.86) / rows, 1 - (row + 0.12) / rows]
        axes = {"xaxis": f"x{a + 1}", "yaxis": f"y{a + 1}"}
        values = aggregate.mixing[:, a]
        if found is None:
            traces.append(
                {"type": "bar", "x": names, "y": values.round(5).tolist(), "marker": {"color": colour(a)}, **axes}
            )
        else:
            picture = found[1][a]
            limit = float(np.nanmax(np.abs(picture)))
            scale = [[i / (len(DIVERGING) - 1), c] for i, c in enumerate(DIVERGING)]
            z = [[None if np.isnan(v) else round(float(v), 5) for v in line] for line in picture]
            traces.append(
                {
                    "type": "heatmap",
                    "z": z,
                    "colorscale": scale,
                    "zmin": -limit,
                    "zmax": limit,
                    "showscale": False,
                    **axes,
                }
            )
        pictured = found is not None
        layout[f"xaxis{a + 1}"] = {
            "domain": x,
            "anchor": f"y{a + 1}",
            "showticklabels": not pictured and len(names) <= 24,
            "showgrid": False,
        }
        layout[f"yaxis{a + 1}"] = {"domain": y, "anchor": f"x{a + 1}", "showgrid": not pictured, "zeroline": True}
        if pictured:
            layout[f"yaxis{a + 1}"] |= {
                "autorange": "reversed",
                "scaleanchor": f"x{a + 1}",
                "constrain": "domain",
                "showticklabels": False,
            }
            layout[f"xaxis{a + 1}"]["constrain"] = "domain"
        title = f"component {a}: {int(aggregate.support[a])} clients"
        layout["annotations"].append(
            {
                "text": title,
                "x": sum(x) / 2,
                "y": y[1],
                "xref": "paper",
                "yref": "paper",
                "showarrow": False,
                "yanchor": "bottom",
            }
        )
    return {"data": traces, "layout": layout}


def _figure(description: Description) -> Figure:
    from plotly.graph_objects import Figure  # noqa: PLC0415 - takes a moment; the page does without

    return Figure(description)


def _layout(title: str) -> Description:
    return {
        "title": {"text": title},
        "font": {"family": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", "color": INK, "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 16, "t": 48, "b": 48},
    }


def _axis(title: str, **more: Any) -> Description:
    return {"title": {"text": title}, "gridcolor": GRID, "zeroline": False, **more}

"""Every component over the features, one panel each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedica.arrays import Array
from fedica.exchange.tables import feature_names
from fedica.records import Aggregate
from fedica.report.components import MAX_BARS, ImageShape, component_maps
from fedica.report.figures.style import Description, colour, layout, plain, to_figure
from fedica.report.png import DIVERGING

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_SCALE = [[i / (len(DIVERGING) - 1), stop] for i, stop in enumerate(DIVERGING)]
_COLUMNS = 4


def plot_components(aggregate: Aggregate, *, image: ImageShape | str = "auto") -> Figure:
    """Draw every component over the features: bars, images, scalp maps or slices.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.
    image : tuple of int, "auto" or "no"
        Height and width when the features are pixels; guessed by default.

    Returns
    -------
    plotly.graph_objects.Figure
        One panel per component.
    """
    return to_figure(describe_components(aggregate, image=image))


def describe_components(aggregate: Aggregate, *, image: ImageShape | str = "auto") -> Description:
    """Return the description of the panels."""
    found = component_maps(aggregate, image)
    names = [plain(name, 24) for name in feature_names(aggregate)]
    columns = min(aggregate.n_components, _COLUMNS)
    rows = -(-aggregate.n_components // columns)
    traces, titles = [], []
    axes: Description = {}
    for a in range(aggregate.n_components):
        row, column = divmod(a, columns)
        x = [column / columns + 0.02, (column + 1) / columns - 0.02]
        y = [1 - (row + 0.86) / rows, 1 - (row + 0.12) / rows]
        trace = _bars(names, aggregate.mixing[:, a], colour(a)) if found is None else _picture(found[1][a])
        traces.append(trace | {"xaxis": f"x{a + 1}", "yaxis": f"y{a + 1}"})
        axes |= _axes(a + 1, x, y, pictured=found is not None, labelled=len(names) <= MAX_BARS)
        titles.append(_title(f"component {a}: {int(aggregate.support[a])} clients", sum(x) / 2, y[1]))
    more = {"height": 90 + 230 * rows, "showlegend": False, "annotations": titles}
    return {"data": traces, "layout": layout("Components", **more, **axes)}


def _bars(names: list[str], values: Array, hue: str) -> Description:
    return {"type": "bar", "x": names, "y": values.round(5).tolist(), "marker": {"color": hue}}


def _picture(values: Array) -> Description:
    limit = float(np.nanmax(np.abs(values)))
    z = [[None if np.isnan(v) else round(float(v), 5) for v in line] for line in values]
    return {"type": "heatmap", "z": z, "colorscale": _SCALE, "zmin": -limit, "zmax": limit, "showscale": False}


def _axes(number: int, x: list[float], y: list[float], *, pictured: bool, labelled: bool) -> Description:
    """Place the axes of one panel; pixels of a picture are square, its first line is on top."""
    across: Description = {"domain": x, "anchor": f"y{number}", "showgrid": False, "showticklabels": labelled}
    up: Description = {"domain": y, "anchor": f"x{number}", "showgrid": not pictured, "zeroline": True}
    if pictured:
        across |= {"constrain": "domain", "showticklabels": False}
        up |= {"autorange": "reversed", "scaleanchor": f"x{number}", "constrain": "domain", "showticklabels": False}
    return {f"xaxis{number}": across, f"yaxis{number}": up}


def _title(text: str, x: float, y: float) -> Description:
    return {"text": text, "x": x, "y": y, "xref": "paper", "yref": "paper", "showarrow": False, "yanchor": "bottom"}

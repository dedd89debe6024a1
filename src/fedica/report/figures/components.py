"""Every component over the features, one panel each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedica.arrays import Array, PathLike
from fedica.exchange.tables import feature_names
from fedica.records import Aggregate
from fedica.report.figures.style import Description, colour, layout, plain, to_figure
from fedica.report.forms import MAX_BARS, Form, ImageShape, component_maps
from fedica.report.png import DIVERGING
from fedica.report.slices import peak_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_SCALE = [[i / (len(DIVERGING) - 1), stop] for i, stop in enumerate(DIVERGING)]
_COLUMNS = 4
MAX_TICK = 60
"""Longest name of a feature below a bar; plotly makes room for it."""


def plot_components(aggregate: Aggregate, *, image: ImageShape | str = "auto", like: PathLike | None = None) -> Figure:
    """Draw every component over the features: bars, images, scalp maps or slices.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.
    image : tuple of int, "auto" or "no"
        Height and width when the features are pixels; guessed by default.
    like : path-like, optional
        A recording that has the positions of the electrodes, for scalp maps.

    Returns
    -------
    plotly.graph_objects.Figure
        One panel per component.
    """
    return to_figure(describe_components(aggregate, image=image, like=like))


def describe_components(
    aggregate: Aggregate, *, image: ImageShape | str = "auto", like: PathLike | None = None
) -> Description:
    """Return the description of the panels."""
    found = component_maps(aggregate, image, like)
    names = [plain(name, MAX_TICK) for name in feature_names(aggregate)]
    columns = min(aggregate.n_components, _COLUMNS)
    rows = -(-aggregate.n_components // columns)
    traces, titles = [], []
    axes: Description = {}
    for a, values in enumerate(aggregate.mixing.T):
        row, column = divmod(a, columns)
        x = [column / columns + 0.03, (column + 1) / columns - 0.05]
        y = [1 - (row + 0.72) / rows, 1 - (row + 0.12) / rows]
        if found is None:
            trace, panel = _bars(names, values, colour(a)), _bar_axes(labelled=len(names) <= MAX_BARS)
        else:
            trace = _picture(found[1][a], {"x": x[1], "y": sum(y) / 2, "len": (y[1] - y[0])})
            panel = _picture_axes(a + 1, found[0], peak_of(values), found[1].shape[2])
        traces.append(trace | {"xaxis": f"x{a + 1}", "yaxis": f"y{a + 1}"})
        axes[f"xaxis{a + 1}"] = {"domain": x, "anchor": f"y{a + 1}", "showgrid": False} | panel[0]
        axes[f"yaxis{a + 1}"] = {"domain": y, "anchor": f"x{a + 1}", "zeroline": True} | panel[1]
        titles.append(_title(f"component {a}: {int(aggregate.support[a])} clients", sum(x) / 2, y[1]))
    more = {"height": 90 + 270 * rows, "showlegend": False, "annotations": titles}
    return {"data": traces, "layout": layout("Components", **more, **axes)}


def _bars(names: list[str], values: Array, hue: str) -> Description:
    return {"type": "bar", "x": names, "y": values.round(5).tolist(), "marker": {"color": hue}}


def _picture(values: Array, place: Description) -> Description:
    limit = float(np.nanmax(np.abs(values)))
    z = [[None if np.isnan(v) else round(float(v), 5) for v in line] for line in values]
    bar = {"thickness": 8, "xanchor": "left", "nticks": 3, "tickfont": {"size": 9}, **place}
    return {"type": "heatmap", "z": z, "colorscale": _SCALE, "zmin": -limit, "zmax": limit, "colorbar": bar}


def _bar_axes(*, labelled: bool) -> tuple[Description, Description]:
    return {"title": {"text": "feature"}, "showticklabels": labelled, "automargin": True}, {"title": {"text": "value"}}


def _picture_axes(number: int, form: Form, peak: int, width: int) -> tuple[Description, Description]:
    """Describe the axes of a picture: square pixels, the first line on top, slices with their sides and positions."""
    across, up = ({"title": {"text": title}, "showticklabels": False} for title in form.axis_titles)
    if ticks := form.ticks(peak):
        at = [tick.at * width - 0.5 for tick in ticks]
        across |= {"tickvals": at, "ticktext": [tick.text for tick in ticks], "tickangle": 0, "tickfont": {"size": 8}}
        across["showticklabels"] = True
    square = {"autorange": "reversed", "scaleanchor": f"x{number}", "showgrid": False, "zeroline": False}
    return across | {"constrain": "domain"}, up | {"constrain": "domain"} | square


def _title(text: str, x: float, y: float) -> Description:
    return {"text": text, "x": x, "y": y, "xref": "paper", "yref": "paper", "showarrow": False, "yanchor": "bottom"}

"""What the figures share: colours, safe names, layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedica.report.headline import short
from fedica.text import show_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Description = dict[str, Any]
"""Traces and layout of a figure: plain lists, texts and numbers."""

INK, QUIET, ACCENT, GRID, PALE = "#1b1f24", "#5b6470", "#1f5fbf", "#d5dae1", "#a9b1bb"
_HUES = ["#1f77b4", "#d95f02", "#1b9e77", "#c2297f", "#7a5cc4", "#8c6d00", "#3f8f29", "#c0392b", "#0e8a9c", "#7f4f24"]


def colour(component: int) -> str:
    """Return the colour of a component; -1, for atoms that match none, is grey."""
    return "#7b8490" if component < 0 else _HUES[component % len(_HUES)]


def plain(text: str, most: int = 40) -> str:
    """Return a name, shortened and escaped, that plotly shows literally: it would take ``<b>`` for markup.

    Isolating characters (U+2068, U+2069) keep a name written from right to left from reordering its neighbours.
    """
    safe = short(text, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"\u2068{safe}\u2069"


def wrapped(text: str, most: int = 40) -> str:
    """Return a whole name as `plain` does, in lines of at most ``most`` characters."""
    whole = show_text(text)
    return "<br>".join(plain(whole[i : i + most], most) for i in range(0, max(len(whole), 1), most))


def to_figure(description: Description) -> Figure:
    """Return the plotly figure of a description."""
    from plotly.graph_objects import Figure  # noqa: PLC0415 - slow to import, and the page does without it

    return Figure(description)


def layout(title: str, **more: Any) -> Description:
    """Return the layout of a figure: the common one, with ``more`` added."""
    return {
        "title": {"text": title},
        "font": {"family": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", "color": INK, "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 16, "t": 48, "b": 48},
        **more,
    }


def axis(title: str, **more: Any) -> Description:
    """Return an axis with a title and a pale grid."""
    return {"title": {"text": title}, "gridcolor": GRID, "zeroline": False, **more}


def marked(x: float, text: str, *, on_its_left: bool = False) -> Description:
    """Return the part of a layout that marks a place on the horizontal axis: a dashed line with words at its top."""
    dashed = {"color": ACCENT, "width": 1.5, "dash": "dash"}
    line = {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": dashed}
    side = {"xanchor": "right", "xshift": -6} if on_its_left else {"xanchor": "left", "xshift": 6}
    place = {"x": x, "y": 1, "yref": "paper", "yanchor": "top", **side}
    return {"shapes": [line], "annotations": [{"text": text, "showarrow": False, "font": {"color": ACCENT}, **place}]}

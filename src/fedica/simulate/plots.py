"""Panels of lines with bands on a logarithmic axis: one figure as a PNG and as an interactive page."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fedica.arrays import Array, check_choice
from fedica.errors import MissingExtraError
from fedica.exchange.files import write_atomic
from fedica.simulate.grid import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, QUIET, GRID = "#1b1f24", "#68707a", "#e3e6ea"

STYLES: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {  # label, colour (safe for colour-blind readers), dash
        "consensus": ("consensus", "#009e73", "solid"),
        "srf-ica": ("SRF-ICA", "#0072b2", "solid"),
        "srf-ica-noalignment": ("SRF-ICA, no alignment", "#56b4e9", "dash"),
        "sf-ica": ("SF-ICA", "#d55e00", "solid"),
        "naive-mean": ("naive mean", "#8a8f98", "dot"),
        "naive-median": ("naive median", "#b9a23c", "dot"),
        "pooled": ("all data pooled", "#1b1f24", "dash"),
        "honest": ("honest clients, true labels", "#1b1f24", "dash"),
    }
)
"""Appearance of each line, the same in every figure."""

_DASHES = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.5))}
_OTHERS = ("#cc79a7", "#7f3c8d", "#a5aa99", "#e68310")


@dataclass(frozen=True, eq=False)
class Line:
    """One method in one panel: x, the centre of its errors, and a band (none if it equals the centre)."""

    name: str  # the method
    x: Array  # (n,), ascending, as the others are (n,)
    centre: Array
    low: Array
    high: Array

    def at(self, x: float) -> float:
        """Return the centre at one x; NaN where there is none."""
        found = self.centre[self.x == x]
        return float(found[0]) if found.size else math.nan


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel: a title, the label of x, and the lines."""

    title: str
    x_label: str
    lines: tuple[Line, ...]
    log_x: bool = False

    @property
    def ticks(self) -> Array:
        """The values of x at which a line was measured."""
        return np.unique(np.concatenate([np.empty(0), *(line.x for line in self.lines)]))


def summarise(rows: Sequence[Row], name: str, *, centre: str) -> Line:
    """Summarise the rows of one method over their seeds, for each value of "x".

    rows : with "method", "x" and "error"; those with a NaN error are left out. centre : "median", with the quartiles as
    its band, or "mean", which has none.
    """
    check_choice(centre, "centre", ("mean", "median"))
    errors: dict[float, list[float]] = {}
    for row in rows:
        if row["method"] == name and math.isfinite(float(row["error"])):
            errors.setdefault(float(row["x"]), []).append(float(row["error"]))
    x = np.array(sorted(errors))
    if centre == "mean":
        mean = np.array([np.mean(errors[value]) for value in x])
        return Line(name, x, mean, mean, mean)
    low, middle, high = (np.array([np.quantile(errors[value], q) for value in x]) for q in (0.25, 0.5, 0.75))
    return Line(name, x, middle, low, high)


def lines_of(rows: Sequence[Row]) -> list[str]:
    """Return the methods of the rows, in order of appearance."""
    return list(dict.fromkeys(str(row["method"]) for row in rows))


def make_panel(
    rows: Sequence[Row], names: Sequence[str], title: str, x_label: str, *, centre: str, log_x: bool = False
) -> Panel:
    """Return the panel with one line per method; ``centre`` as in `summarise`."""
    return Panel(title, x_label, tuple(summarise(rows, name, centre=centre) for name in names), log_x)


def figure_class(what: str, extra: str) -> type[Figure]:
    """Return matplotlib's Figure class, or say which extra of fedica installs it."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, loaded on demand
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs matplotlib, which is not installed. Run: pip install 'fedica[{extra}]'"
        ) from error
    return Figure


def draw_both(panels: Sequence[Panel], stem: Path, *, title: str, y_label: str) -> tuple[list[Path], str]:
    """Write STEM.png and STEM.html; without matplotlib, only the page. Return the files, and why there is no PNG."""
    page, picture = stem.with_name(f"{stem.name}.html"), stem.with_name(f"{stem.name}.png")
    draw_html(panels, page, title=title, y_label=y_label)
    try:
        draw_png(panels, picture, title=title, y_label=y_label)
    except MissingExtraError as error:
        return [page], str(error)
    return [picture, page], ""


def draw_png(panels: Sequence[Panel], path: Path, *, title: str, y_label: str) -> None:
    """Draw the panels side by side (at most four per row) and save them as a PNG."""
    n_rows, n_columns = _shape(len(panels))
    figure = figure_class("the PNG", "figures")(figsize=(4.1 * n_columns, 3.5 * n_rows + 1.1), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    looks = _looks(panels)
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw_panel(axis, panel, looks)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel(y_label, color=INK)
    figure.suptitle(title, color=INK, fontsize=13)
    handles = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 6), frameon=False
    )
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=160, metadata={"Software": None})
    write_atomic(path, [picture.getvalue()])


def draw_html(panels: Sequence[Panel], path: Path, *, title: str, y_label: str) -> None:
    """Draw the panels as a self-contained interactive page."""
    from plotly.subplots import make_subplots  # noqa: PLC0415 - slow to import

    n_rows, n_columns = _shape(len(panels))
    titles = [panel.title for panel in panels]
    figure = make_subplots(n_rows, n_columns, shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04)
    looks = _looks(panels)
    shown: set[str] = set()
    for k, panel in enumerate(panels):
        place = {"row": k // n_columns + 1, "col": k % n_columns + 1}
        for line in panel.lines:
            _add_line(figure, line, looks[line.name], showlegend=line.name not in shown, **place)
            shown.add(line.name)
        ticks = {"tickvals": panel.ticks, "ticktext": [f"{x:g}" for x in panel.ticks]}
        figure.update_xaxes(title_text=panel.x_label, type="log" if panel.log_x else "linear", **ticks, **place)
        figure.update_yaxes(type="log", dtick=1, minor={"showgrid": True}, **place)
        if place["col"] == 1:
            figure.update_yaxes(title_text=y_label, **place)
    figure.update_layout(
        title=title,
        template="plotly_white",
        hovermode="x unified",
        height=380 * n_rows + 140,
        legend={"orientation": "h", "y": -0.18 / n_rows, "x": 0.5, "xanchor": "center", "yanchor": "top"},
    )
    page = figure.to_html(include_plotlyjs=True, full_html=True, div_id="figure")
    write_atomic(path, [page.encode()])


def _add_line(figure: Any, line: Line, look: tuple[str, str, str], *, showlegend: bool, row: int, col: int) -> None:
    """Add a line to one panel of a plotly figure, over its band."""
    label, colour, dash = look
    common: dict[str, Any] = {"x": line.x, "legendgroup": label, "name": label, "row": row, "col": col}
    if np.any(line.low != line.high):
        band = {**common, "line_width": 0, "showlegend": False, "hoverinfo": "skip"}
        figure.add_scatter(y=line.low, **band)
        figure.add_scatter(y=line.high, fill="tonexty", fillcolor=_faint(colour), **band)
    figure.add_scatter(
        y=line.centre,
        mode="lines+markers",
        line={"color": colour, "dash": dash},
        customdata=np.stack([line.low, line.high], axis=1),
        hovertemplate="%{y:.4f} (%{customdata[0]:.4f} to %{customdata[1]:.4f})",
        showlegend=showlegend,
        **common,
    )


def _draw_panel(axis: Any, panel: Panel, looks: Mapping[str, tuple[str, str, str]]) -> None:
    for line in panel.lines:
        label, colour, dash = looks[line.name]
        if np.any(line.low != line.high):
            axis.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
        axis.plot(
            line.x, line.centre, label=label, color=colour, linestyle=_DASHES[dash], marker="o", markersize=3.5, lw=1.7
        )
    axis.set_yscale("log")
    axis.set_xscale("log" if panel.log_x else "linear")
    axis.set_xticks(panel.ticks, [f"{x:g}" for x in panel.ticks])
    axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axis.set_title(panel.title, color=INK, fontsize=11)
    axis.set_xlabel(panel.x_label, color=INK)
    axis.grid(axis="x", color=GRID, linewidth=0.7)
    axis.grid(axis="y", which="both", color=GRID, linewidth=0.7)
    axis.yaxis.set_major_formatter(_plain)
    axis.yaxis.set_minor_formatter(_plain)
    axis.set_axisbelow(True)
    axis.tick_params(colors=QUIET, which="both")
    for side in axis.spines.values():
        side.set_color(GRID)


def _plain(y: float, _: int | None = None) -> str:
    """Label 1, 2 and 5 of every decade in decimal notation: 0.02 rather than a power of ten."""
    return f"{y:g}" if y > 0 and round(y / 10 ** math.floor(math.log10(y) + 1e-9), 3) in {1, 2, 5} else ""


def _shape(n_panels: int) -> tuple[int, int]:
    n_columns = min(n_panels, 3 if n_panels % 4 and n_panels % 3 == 0 else 4)
    return math.ceil(n_panels / n_columns), n_columns


def _looks(panels: Sequence[Panel]) -> dict[str, tuple[str, str, str]]:
    """Return label, colour and dash of every line; a method without a style gets the next free colour."""
    names = dict.fromkeys(line.name for panel in panels for line in panel.lines)
    others = cycle(_OTHERS)
    return {name: STYLES.get(name) or (name, next(others), "solid") for name in names}


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"

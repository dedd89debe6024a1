"""The figures for papers: SVG and PDF, drawn by matplotlib."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedica.arrays import Array, PathLike
from fedica.errors import MissingExtraError
from fedica.exchange.files import PRIVATE, cannot_write, write_atomic
from fedica.exchange.tables import feature_names
from fedica.progress import counting
from fedica.records import Aggregate
from fedica.report.agreement import concern, confidence_cones, over_chance, trust_of, worst_first
from fedica.report.atom_angles import angles_of_atoms
from fedica.report.figures.atoms import OTHER_STYLE, VERDICT_STYLES, component_ticks
from fedica.report.figures.spectrum import n_eigenvalues_shown
from fedica.report.figures.style import ACCENT, GRID, INK, PALE, QUIET, colour
from fedica.report.figures.trust import HEAT
from fedica.report.forms import MAX_BARS, Form, ImageShape, component_maps
from fedica.report.headline import short
from fedica.report.slices import peak_of, silhouette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "pdf")
MAX_TICK = 40
"""Longest name of a feature below a bar."""
MAX_LINES = 120
"""Clients in the heat map; of more, the first in the order of concern."""
_MARKERS = {"circle": "o", "diamond": "D", "triangle-up": "^", "x": "X"}
"""Markers of matplotlib for the symbols of plotly."""
_STYLE: Any = {
    "font.size": 8,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "text.parse_math": False,  # a client may have the name "$x$"
    "svg.hashsalt": "fedica",  # makes the file reproducible
    "pdf.fonttype": 42,
}


def write_figures(
    aggregate: Aggregate, folder: PathLike, *, image: ImageShape | str = "auto", like: PathLike | None = None
) -> tuple[Path, ...]:
    """Write clients, spectrum, atoms and components as SVG and PDF.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.
    folder : path-like
        Folder of the files; created if it does not exist.
    image : tuple of int, "auto" or "no"
        As for `write_report`.
    like : path-like, optional
        As for `write_report`.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    drawings: dict[str, Callable[[Figure], None]] = {
        "clients": lambda figure: _draw_clients(figure, aggregate),
        "spectrum": lambda figure: _draw_spectrum(figure, aggregate),
        "atoms": lambda figure: _draw_atoms(figure, aggregate),
        "components": lambda figure: _draw_components(figure, aggregate, component_maps(aggregate, image, like)),
    }
    place = Path(folder)
    written = []
    with _styled() as new_figure:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(place, error) from error
        for name, draw in counting(drawings.items(), len(drawings)):
            figure = new_figure(layout="constrained")
            draw(figure)
            written += [_save(figure, place / f"{name}.{kind}", kind) for kind in FORMATS]
    return tuple(written)


def _save(figure: Figure, path: Path, kind: str) -> Path:
    stream = io.BytesIO()
    undated: dict[str, Any] = {"Date" if kind == "svg" else "CreationDate": None}
    figure.savefig(stream, format=kind, metadata=undated)
    write_atomic(path, [stream.getvalue()], mode=PRIVATE)
    return path


@contextmanager
def _styled() -> Iterator[Callable[..., Figure]]:
    """Yield matplotlib's Figure in our style, without its warnings about missing glyphs."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415 - optional, loaded on demand
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "figures for papers need matplotlib, which is not installed. Run: pip install 'fedica[figures]'"
        ) from error
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        yield Figure


def _draw_clients(figure: Figure, aggregate: Aggregate) -> None:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    trust = trust_of(aggregate)
    order = worst_first(trust)[:MAX_LINES]
    r = aggregate.n_components
    names = [f"{short(aggregate.clients[k], 60)} ({trust.verdict[k]})" for k in order]
    room = 0.07 * max(map(len, names))  # inches for the longest name
    figure.set_size_inches(min(1.6 + 0.32 * r, 9) + room, float(np.clip(1.0 + 0.17 * len(order), 1.8, 14)))
    ax = figure.add_subplot()
    scale = LinearSegmentedColormap.from_list("likeness", [(float(at), str(c)) for at, c in HEAT])
    drawn = ax.imshow(over_chance(trust)[order], cmap=scale, vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(r), [str(a) for a in range(r)])
    ax.set_yticks(range(len(order)), names)
    ax.set(xlabel="component", ylabel="client")
    bar = figure.colorbar(drawn, ax=ax, shrink=0.8, aspect=30)
    bar.set_label("likeness over chance")


def _draw_spectrum(figure: Figure, aggregate: Aggregate) -> None:
    figure.set_size_inches(4.2, 2.6)
    ax, r = figure.add_subplot(), aggregate.n_components
    values = aggregate.spectrum[: n_eigenvalues_shown(aggregate)]
    place = np.arange(1, values.size + 1)
    ax.grid(axis="y", color=GRID, linewidth=0.5)
    ax.plot(place, values, color=QUIET, linewidth=0.7, zorder=2)
    ax.scatter(place, values, c=[ACCENT if i <= r else PALE for i in place], s=18, zorder=3)
    ax.axvline(r + 0.5, color=ACCENT, linestyle="--", linewidth=1)
    ax.annotate(
        f"{r} chosen",
        (r + 0.5, 1),
        (4, -2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
        color=ACCENT,
    )
    ax.set(xlabel="number of the eigenvalue", ylabel="eigenvalue of the affinity", ylim=(0, None))


def _draw_atoms(figure: Figure, aggregate: Aggregate) -> None:
    figure.set_size_inches(float(np.clip(2 + 0.35 * aggregate.n_components, 4, 10)), 3.2)
    ax = figure.add_subplot()
    drawn = angles_of_atoms(aggregate)
    verdicts = np.array(trust_of(aggregate).verdict)[aggregate.client_of_atom[drawn.shown]]
    for verdict in sorted(set(verdicts.tolist()), key=concern, reverse=True):
        mine = np.flatnonzero(verdicts == verdict)
        symbol, hue = VERDICT_STYLES.get(verdict, OTHER_STYLE)
        ax.scatter(
            drawn.x[mine], drawn.angles[mine], marker=_MARKERS[symbol], s=9, alpha=0.8, c=hue, lw=0, label=verdict
        )
    ax.scatter(range(aggregate.n_components), aggregate.spread, marker="_", s=90, c=QUIET, lw=1, label="median")
    ax.set_xticks(*component_ticks(aggregate))
    ax.set(xlabel="component", ylabel="angle to the component (°)", ylim=(0, None))
    figure.legend(loc="outside upper center", ncols=6, frameon=False)


def _draw_components(figure: Figure, aggregate: Aggregate, found: tuple[Form, Array] | None) -> None:
    kind = "" if found is None else found[0].kind
    names, cones, r = feature_names(aggregate), confidence_cones(aggregate), aggregate.n_components
    columns = min(r, {"": 4, "slices": 2}.get(kind, 5))
    rows = -(-r // columns)
    width, height = {"": (2.3, 1.9), "slices": (3.7, 1.9)}.get(kind, (2.5, 2.3))
    if found is None and len(names) <= MAX_BARS:
        height += 0.04 * min(max(map(len, names)), MAX_TICK)
    figure.set_size_inches(width * columns, height * rows)
    for a, values in enumerate(aggregate.mixing.T):
        ax = figure.add_subplot(rows, columns, a + 1)
        if found is None:
            _bars(ax, values, names, a)
        else:
            _picture(figure, ax, found[0], found[1][a], peak_of(values))
        cone = f", ±{cones[a]:.2g}°" if np.isfinite(cones[a]) else ""
        ax.set_title(f"component {a}: {int(aggregate.support[a])} clients{cone}", fontsize=7.5)


def _picture(figure: Figure, ax: Axes, form: Form, drawn: Array, peak: int) -> None:
    """Draw one picture with its colour bar, and below slices their sides and positions."""
    limit = float(np.nanmax(np.abs(drawn)))
    shown = ax.imshow(drawn, cmap="RdBu_r", vmin=-limit, vmax=limit)
    if form.kind == "slices":
        ax.contour(silhouette(drawn), levels=[0.5], colors=QUIET, linewidths=0.4)
    ax.spines[:].set_visible(False)
    ticks = form.ticks(peak)
    ax.set_xticks([tick.at * drawn.shape[1] - 0.5 for tick in ticks], [tick.text for tick in ticks], fontsize=6)
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.set_xlabel(form.axis_titles[0], fontsize=6.5)
    ax.set_ylabel(form.axis_titles[1], fontsize=6.5)
    bar = figure.colorbar(shown, ax=ax, shrink=0.7, aspect=18, ticks=[-limit, 0, limit], format="%.2g")
    bar.ax.tick_params(labelsize=5.5, length=2)


def _bars(ax: Axes, values: Array, names: tuple[str, ...], component: int) -> None:
    ax.bar(range(values.size), values, color=colour(component), width=0.8)
    ax.axhline(0, color=QUIET, linewidth=0.5)
    ax.set_ylabel("value", fontsize=6.5)
    if values.size <= MAX_BARS:
        ax.set_xticks(range(values.size), [short(name, MAX_TICK) for name in names], rotation=90, fontsize=5.5)
    ax.set_xlabel("feature", fontsize=6.5)

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
from fedica.records import Aggregate
from fedica.report.agreement import confidence_cones, trust_of, worst_first
from fedica.report.atom_map import map_atoms
from fedica.report.components import MAX_BARS, ImageShape, component_maps
from fedica.report.figures.atoms import EXTENT, LABEL_RADIUS
from fedica.report.figures.spectrum import n_eigenvalues_shown
from fedica.report.figures.style import ACCENT, GRID, INK, PALE, QUIET, colour
from fedica.report.figures.trust import HEAT, HEAT_TICKS
from fedica.report.headline import short
from fedica.report.slices import silhouette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "pdf")
MAX_LINES = 120
"""Clients in the heat map; of more, the first in the order of concern."""
_MARKERS = ("o", "s", "D", "P", "X", "^", "v", "p", "h", "*")
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


def write_figures(aggregate: Aggregate, folder: PathLike, *, image: ImageShape | str = "auto") -> tuple[Path, ...]:
    """Write clients, spectrum, atoms and components as SVG and PDF.

    Parameters
    ----------
    aggregate : Aggregate
        Result of the server.
    folder : path-like
        Folder of the files; created if it does not exist.
    image : tuple of int, "auto" or "no"
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
        "components": lambda figure: _draw_components(figure, aggregate, image),
    }
    place = Path(folder)
    written = []
    with _styled() as new_figure:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(place, error) from error
        for name, draw in drawings.items():
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
    figure.set_size_inches(min(2.6 + 0.32 * r, 10), float(np.clip(1.0 + 0.17 * len(order), 1.8, 14)))
    ax = figure.add_subplot()
    scale = LinearSegmentedColormap.from_list("angles", [(float(at), str(c)) for at, c in HEAT])
    drawn = ax.imshow(np.sqrt(trust.angles[order] / 90), cmap=scale, vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(r), [str(a) for a in range(r)])
    ax.set_yticks(range(len(order)), [f"{short(aggregate.clients[k], 28)} ({trust.verdict[k]})" for k in order])
    ax.set_xlabel("component")
    bar = figure.colorbar(drawn, ax=ax, shrink=0.8, aspect=30)
    bar.set_ticks(np.sqrt(HEAT_TICKS / 90).tolist(), labels=[f"{angle}°" for angle in HEAT_TICKS])
    bar.set_label("angle to the component")


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
    ax.set(xlabel="eigenvalue", ylabel="affinity of all atoms", ylim=(0, None))


def _draw_atoms(figure: Figure, aggregate: Aggregate) -> None:
    figure.set_size_inches(5, 5)
    ax = figure.add_subplot()
    atom_map = map_atoms(aggregate)
    owner, label = aggregate.client_of_atom[atom_map.shown], aggregate.labels[atom_map.shown]
    ax.plot(*atom_map.marks.T, "+", color=QUIET, markersize=9, markeredgewidth=0.6)
    for a in range(-1, aggregate.n_components):
        for shape, marker in enumerate(_MARKERS):
            mine = np.flatnonzero((label == a) & (owner % len(_MARKERS) == shape))
            if not mine.size:
                continue
            x, y = atom_map.places[mine].T
            inside = "none" if a < 0 else colour(a)
            ax.scatter(x, y, marker=marker, s=16, alpha=0.8, facecolors=inside, edgecolors=colour(a), linewidths=0.6)
        if a >= 0:
            x, y = LABEL_RADIUS * atom_map.marks[a]
            ax.text(x, y, str(a), color=colour(a), fontweight="bold", fontsize=10, ha="center", va="center")
    ax.set(xlim=(-EXTENT, EXTENT), ylim=(-EXTENT, EXTENT), aspect="equal")
    ax.axis("off")


def _draw_components(figure: Figure, aggregate: Aggregate, image: ImageShape | str) -> None:
    found = component_maps(aggregate, image)
    kind, maps = found if found is not None else ("", None)
    names, cones, r = feature_names(aggregate), confidence_cones(aggregate), aggregate.n_components
    columns = min(r, {"": 4, "slices": 2}.get(kind, 5))
    rows = -(-r // columns)
    width, height = {"": (2.3, 1.9), "slices": (3.5, 1.7)}.get(kind, (2.3, 2.3))
    figure.set_size_inches(width * columns, height * rows)
    for a in range(r):
        ax = figure.add_subplot(rows, columns, a + 1)
        if maps is not None:
            limit = float(np.nanmax(np.abs(maps[a])))
            ax.imshow(maps[a], cmap="RdBu_r", vmin=-limit, vmax=limit)
            if kind == "slices":
                ax.contour(silhouette(maps[a]), levels=[0.5], colors=QUIET, linewidths=0.4)
            ax.axis("off")
        else:
            _bars(ax, aggregate.mixing[:, a], names, a)
        cone = f", ±{cones[a]:.2g}°" if np.isfinite(cones[a]) else ""
        ax.set_title(f"component {a}: {int(aggregate.support[a])} clients{cone}", fontsize=7.5)


def _bars(ax: Axes, values: Array, names: tuple[str, ...], component: int) -> None:
    ax.bar(range(values.size), values, color=colour(component), width=0.8)
    ax.axhline(0, color=QUIET, linewidth=0.5)
    if values.size <= MAX_BARS:
        ax.set_xticks(range(values.size), [short(name, 14) for name in names], rotation=90, fontsize=5.5)
    else:
        ax.set_xlabel("feature", fontsize=6.5)

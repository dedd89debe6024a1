"""The demo's picture: mixtures, recovery by one client, recovery by the federation, originals."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedica.arrays import Array
from fedica.exchange.files import write_atomic
from fedica.simulate.photographs import PhotographFederation
from fedica.simulate.plots import figure_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, GOOD, BAD = "#1b1f24", "#68707a", "#0b7a4b", "#c4431c"


@dataclass(frozen=True, eq=False)
class RecoveredPictures:
    """The pictures that a mixing matrix recovers from the mixtures."""

    who: str  # the client or the method that found the matrix
    pictures: Array  # (r, height, width), with the order and signs of the originals
    correlations: Array  # (r,), correlation of each picture with its original
    error: float  # error of the matrix, divided by sqrt(r)

    @property
    def captions(self) -> list[str]:
        """The correlations as captions."""
        return [f"correlation {c:.3f}" for c in self.correlations]


def matplotlib_figure() -> type[Figure]:
    """Return matplotlib's Figure class, or say how to install it."""
    return figure_class("the picture", "demo")


def draw_picture(
    federation: PhotographFederation, *, lone: RecoveredPictures, together: RecoveredPictures, path: Path
) -> None:
    """Draw four rows of six pictures and save them as one PNG.

    The mixtures with the clients' tiles, what one client and what the federation recovers, and the originals.
    """
    figure = matplotlib_figure()(figsize=(12.6, 8.35), dpi=100, facecolor="white")
    rows = _rows(federation, lone, together)
    grid = figure.add_gridspec(4, 6, left=0.152, right=0.994, top=0.973, bottom=0.008, wspace=0.035, hspace=0.13)
    for i, (title, detail, colour, pictures, captions) in enumerate(rows):
        axes = [figure.add_subplot(grid[i, k]) for k in range(len(pictures))]
        for ax, picture, caption in zip(axes, pictures, captions, strict=True):
            _show(ax, picture)
            ax.set_title(caption, fontsize=9.5, color=QUIET, pad=3.5)
            if i == 0:
                _outline_clients(ax, federation)
        place = axes[0].get_position()
        middle = (place.y0 + place.y1) / 2
        figure.text(0.008, middle + 0.006, title, fontsize=14, fontweight="bold", color=colour, va="bottom")
        figure.text(0.008, middle - 0.002, detail, fontsize=9.5, color=QUIET, va="top", linespacing=1.35)
    _save(figure, path)


def _rows(
    federation: PhotographFederation, lone: RecoveredPictures, together: RecoveredPictures
) -> list[tuple[str, str, str, Array, Sequence[str]]]:
    """Return title, detail, colour, pictures and captions of each row."""
    n_bad = sum(client.fault != "none" for client in federation.clients)
    height, width = next(client.box[2:] for client in federation.clients if client.name == lone.who)
    clients = f"{len(federation.clients)} clients, a tile each;\n{n_bad} bad ones in red"
    alone = f"{height} x {width} pixels\nerror {lone.error:.3f}"
    joint = f"one message per client\n{together.who}: error {together.error:.3f}"
    channels = [f"channel {k + 1}" for k in range(len(federation.mixtures))]
    return [
        ("Mixtures", clients, INK, federation.mixtures, channels),
        (f"{lone.who} alone", alone, BAD, lone.pictures, lone.captions),
        ("Federation", joint, GOOD, together.pictures, together.captions),
        ("Originals", "unknown to the clients", INK, federation.sources, federation.names),
    ]


def _show(ax: Axes, picture: Array) -> None:
    low, high = np.percentile(picture, [0.5, 99.5])
    ax.imshow(picture, cmap="gray", vmin=low, vmax=high, interpolation="antialiased")
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)


def _outline_clients(ax: Axes, federation: PhotographFederation) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - optional, loaded on demand

    for client in federation.clients:
        top, left, height, width = client.box
        look: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.6}
        if client.fault != "none":
            look = {"edgecolor": BAD, "linewidth": 1.3, "zorder": 3}
        ax.add_patch(Rectangle((left, top), width - 1, height - 1, fill=False, **look))


def _save(figure: Figure, path: Path) -> None:
    """Save with a palette of 256 colours: enough for grey photographs, and half the file size."""
    from PIL import Image  # noqa: PLC0415 - comes with matplotlib

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(small, format="png", optimize=True)
    write_atomic(path, [small.getvalue()])

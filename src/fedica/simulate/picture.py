"""The demo's picture: mixtures, what one client alone recovers, what the federation recovers, the originals."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedica.arrays import Array
from fedica.errors import MissingExtraError
from fedica.exchange.files import write_atomic
from fedica.simulate.photographs import PhotographFederation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, GOOD, BAD = "#1b1f24", "#68707a", "#0b7a4b", "#c4431c"


@dataclass(frozen=True, eq=False)
class RecoveredPictures:
    """What a mixing matrix makes of the mixtures.

    Parameters
    ----------
    who : str
        The client or the method that found the matrix.
    pictures : ndarray of shape (r, height, width)
        In the order and with the signs of the originals.
    correlations : ndarray of shape (r,)
        Of each picture with its original.
    error : float
        Error of the matrix, divided by sqrt(r).
    """

    who: str
    pictures: Array
    correlations: Array
    error: float


def import_matplotlib() -> type[Figure]:
    """Return matplotlib's Figure class, or say how to install it."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, loaded on demand
    except ImportError as error:
        raise MissingExtraError(
            "the picture needs matplotlib, which is not installed. Run: pip install 'fedica[demo]'"
        ) from error
    return Figure


def draw_picture(
    federation: PhotographFederation, *, lone: RecoveredPictures, together: RecoveredPictures, path: Path
) -> None:
    """Draw four rows of six pictures and save them as one PNG.

    Parameters
    ----------
    federation : PhotographFederation
        Gives the mixtures, the clients' pieces and the originals.
    lone, together : RecoveredPictures
        One client by itself; the federation.
    path : Path
        The file.
    """
    figure = import_matplotlib()(figsize=(12.6, 8.35), dpi=100, facecolor="white")
    n_clients, n_bad = len(federation.clients), sum(client.fault != "none" for client in federation.clients)
    height, width = next(client.box[2:] for client in federation.clients if client.name == lone.who)
    channels = [f"channel {k + 1}" for k in range(len(federation.mixtures))]
    rows = (
        ("Mixtures", f"{n_clients} clients, a tile each;\n{n_bad} bad ones in red", INK, federation.mixtures, channels),
        (
            f"{lone.who} alone",
            f"{height} x {width} pixels\nerror {lone.error:.3f}",
            BAD,
            lone.pictures,
            _correlations(lone),
        ),
        (
            "Federation",
            f"one message a client\n{together.who}: error {together.error:.3f}",
            GOOD,
            together.pictures,
            _correlations(together),
        ),
        ("Originals", "seen by nobody", INK, federation.sources, federation.names),
    )
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


def _correlations(recovered: RecoveredPictures) -> list[str]:
    return [f"correlation {c:.3f}" for c in recovered.correlations]


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
    """Save with a palette of 256 colours: grey photographs need no more, and the file is half as large."""
    from PIL import Image  # noqa: PLC0415 - comes with matplotlib

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(small, format="png", optimize=True)
    write_atomic(path, [small.getvalue()])

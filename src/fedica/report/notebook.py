"""The report inside a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from fedica.arrays import PathLike
from fedica.exchange import ResultFolder
from fedica.records import Aggregate
from fedica.report.forms import ImageShape
from fedica.report.headline import headline
from fedica.report.page import material_of, render_report


@dataclass(frozen=True)
class Shown:
    """A report that a notebook shows as a page; elsewhere it prints its headline."""

    sentence: str
    html: str
    height: int  # of the frame, in pixels

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        """Return the page in an iframe, which keeps its styles and scripts apart from those of the notebook."""
        return (
            f'<iframe srcdoc="{escape(self.html, quote=True)}" title="fedica report" '
            'sandbox="allow-scripts allow-downloads" '
            f'style="width:100%;height:{self.height}px;border:1px solid #d9dee5;border-radius:8px"></iframe>'
        )


def show(
    result: Aggregate | ResultFolder | PathLike,
    *,
    image: ImageShape | str = "auto",
    like: PathLike | None = None,
    height: int = 800,
) -> Shown:
    """Show the report of an aggregate in a notebook.

    Parameters
    ----------
    result : Aggregate, ResultFolder or path-like
        Result of the server, or the folder that holds it.
    image : tuple of int, "auto" or "no"
        As for `write_report`.
    like : path-like, optional
        As for `write_report`.
    height : int
        Height of the frame, in pixels.

    Returns
    -------
    Shown
        Jupyter shows it as the page.
    """
    page = render_report(result, image=image, like=like)
    return Shown(str(headline(material_of(result).aggregate)), page, height)

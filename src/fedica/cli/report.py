"""``fedica report``: a result folder as a page to open, and as figures for papers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from typer import Argument

from fedica.cli.console import console
from fedica.cli.options import option
from fedica.errors import OptionError


def report(
    folder: Annotated[Path, Argument(metavar="DIR", help="The result folder that fedica aggregate wrote.")],
    output: Annotated[Path | None, option("FILE", "The page; by default DIR/report.html.", "--output", "-o")] = None,
    figures: Annotated[Path | None, option("OUT", "Also write the figures, as SVG and PDF, to this folder.")] = None,
    image: Annotated[str, option("HxW", "The features are pixels, in H rows and W columns; or: auto, no.")] = "auto",
) -> None:
    """Write the report of a result: one HTML file that any browser opens, without a network.

    Says who agrees and who does not, and why; shows clients against components, the spectrum, all atoms, every
    component, what was rejected, and how to repeat it. The page speaks of single clients, so it is the coordinator's.
    """
    from fedica.exchange import read_folder
    from fedica.report import headline, write_figures, write_report

    shape = parse_image(image)
    aggregate = read_folder(folder).aggregate
    page = write_report(folder, output, image=shape)
    out = console()
    out.print(str(headline(aggregate)))
    out.print(f"Report: {page}", soft_wrap=True)
    if figures is not None:
        for path in write_figures(aggregate, figures, image=shape):
            out.print(str(path), soft_wrap=True)


def parse_image(text: str) -> tuple[int, int] | str:
    """Return what ``--image`` says: "auto", "no", or height and width from ``28x28``."""
    if text in ("auto", "no"):
        return text
    found = re.fullmatch(r"(\d{1,6})\s*[xX×]\s*(\d{1,6})", text.strip())
    if found is None:
        raise OptionError(f"--image must be like 28x28, or auto, or no; got {text!r:.60}.")
    return int(found[1]), int(found[2])

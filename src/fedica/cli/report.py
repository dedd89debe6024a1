"""``fedica report``: a result folder as a page to open, and as figures for papers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from typer import Argument

from fedica.cli.options import option
from fedica.cli.output import Output, with_output
from fedica.errors import OptionError


@with_output
def report(
    *,
    folder: Annotated[Path, Argument(metavar="DIR", help="The result folder that fedica aggregate wrote.")],
    output: Annotated[Path | None, option("FILE", "The page; by default DIR/report.html.", "--output", "-o")] = None,
    figures: Annotated[Path | None, option("OUT", "Also write the figures, as SVG and PDF, to this folder.")] = None,
    image: Annotated[str, option("HxW", "The features are pixels, in H rows and W columns; or: auto, no.")] = "auto",
    like: Annotated[
        Path | None, option("RAW", "A recording with the positions of the electrodes, for scalp maps.")
    ] = None,
    out: Output,
) -> None:
    """Write the report of a result: one HTML file that any browser opens, without a network.

    Says who agrees and who does not, and why; shows clients against components, the spectrum, the angles of all
    atoms, every component with what each client sent of it, what was rejected, and how to repeat it. The page speaks
    of single clients, so it is the coordinator's.
    """
    from fedica.exchange import read_folder
    from fedica.report import headline, write_figures, write_report

    shape = parse_image(image)
    with out:
        out.progress(f"reading {folder}")
        aggregate = read_folder(folder).aggregate
        out.progress(f"drawing {aggregate.n_components} components of {len(aggregate.clients)} clients")
        page = write_report(folder, output, image=shape, like=like)
        if figures is not None:
            out.progress(f"drawing figures into {figures}")
        files = () if figures is None else write_figures(aggregate, figures, image=shape, like=like)
    said = str(headline(aggregate))
    if out.result({"headline": said, "report": str(page), "figures": list(map(str, files))}):
        out.text(said)
        out.lines(f"Report: {page}", *files)


def parse_image(text: str) -> tuple[int, int] | str:
    """Return what ``--image`` says: "auto", "no", or height and width from ``28x28``."""
    if text in ("auto", "no"):
        return text
    found = re.fullmatch(r"(\d{1,6})\s*[xX×]\s*(\d{1,6})", text.strip())
    if found is None:
        raise OptionError(f"--image must be like 28x28, or auto, or no; got {text!r:.60}.")
    return int(found[1]), int(found[2])

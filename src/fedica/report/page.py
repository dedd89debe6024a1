"""The report: one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedica.arrays import PathLike
from fedica.exchange import Provenance, ResultFolder, read_folder
from fedica.exchange.files import PRIVATE, check_output, write_atomic
from fedica.exchange.inputs import files_of
from fedica.records import Aggregate, ClientTrust, Trust
from fedica.report.agreement import atoms_per_client, concern, likeness_of, over_chance, trust_of, worst_first
from fedica.report.atom_angles import angles_of_atoms
from fedica.report.components import component_cards
from fedica.report.figures.atoms import describe_atoms
from fedica.report.figures.likeness import assigned_likeness, describe_likeness, typical_chance
from fedica.report.figures.spectrum import describe_spectrum
from fedica.report.figures.style import colour
from fedica.report.forms import Form, ImageShape, form_of
from fedica.report.headline import headline, short
from fedica.report.png import DIVERGING
from fedica.report.provenance import command as command_of
from fedica.report.provenance import facts, versions
from fedica.report.scalp import Montage
from fedica.text import MAX_SENTENCE, show_text

REPORT = "report.html"
MAX_CELLS, MAX_ROWS = 60_000, 1000
"""What a browser lays out without delay; of more clients the first in the order of concern are shown."""
BINS = (0.95, 0.75, 0.5, 0.3, 0.15, 0.05, 0.0)
"""Lower ends of the colours of the heat map: likeness over chance."""


@dataclass(frozen=True, eq=False)
class Material:
    """What a page is made from: the aggregate, and as much of its origin as is known."""

    aggregate: Aggregate
    provenance: tuple[Provenance, ...] = ()
    summary: Mapping[str, Any] | None = None
    folder: str | None = None


@dataclass(frozen=True)
class ClientRow:
    """One row of the tables: a client by number, its verdict, and what the page shows beside it."""

    number: int
    trust: ClientTrust
    rank: int
    n_atoms: int
    n_samples: int | None
    cells: tuple[tuple[str, str], ...]


def write_report(
    result: Aggregate | ResultFolder | PathLike,
    path: PathLike | None = None,
    *,
    image: ImageShape | str = "auto",
    like: PathLike | None = None,
    command: str | None = None,
    provenance: Iterable[Provenance] = (),
) -> Path:
    """Write the report of an aggregate: one HTML file that loads nothing from the network.

    Parameters
    ----------
    result : Aggregate, ResultFolder or path-like
        Result of the server, or the folder that holds it.
    path : path-like, optional
        The file; ``report.html`` in the result folder if ``result`` is its path.
    image : tuple of int, "auto" or "no"
        Height and width when the features are the pixels of an image; guessed by default.
    like : path-like, optional
        A recording that has the positions of the electrodes, for scalp maps; by default they follow from names of the
        10-10 system or of BioSemi's cap of 128 electrodes.
    command : str, optional
        The command that made the result; reconstructed from the result by default.
    provenance : iterable of Provenance
        Where the contributions came from, when ``result`` does not hold it.

    Returns
    -------
    Path
        The file. It names single clients, so it is for the coordinator alone, like details.safetensors.
    """
    target = Path(path) if path is not None else _default_path(result)
    text = render_report(result, image=image, like=like, command=command, provenance=provenance)
    check_output(target, files_of(result))
    write_atomic(target, [text.encode("utf-8", "backslashreplace")], mode=PRIVATE)
    return target


def render_report(
    result: Aggregate | ResultFolder | PathLike,
    *,
    image: ImageShape | str = "auto",
    like: PathLike | None = None,
    command: str | None = None,
    provenance: Iterable[Provenance] = (),
) -> str:
    """Return the report as a string.

    Parameters
    ----------
    result : Aggregate, ResultFolder or path-like
        As for `write_report`, like the other parameters.
    image : tuple of int, "auto" or "no"
        Whether the features are pixels.
    like : path-like, optional
        A recording that has the positions of the electrodes.
    command : str, optional
        The command that made the result.
    provenance : iterable of Provenance
        Where the contributions came from.

    Returns
    -------
    str
        The HTML page.
    """
    material = material_of(result, tuple(provenance))
    aggregate, trust = material.aggregate, trust_of(material.aggregate)
    rows = _client_rows(material, trust)
    drawn, form = angles_of_atoms(aggregate), form_of(aggregate, image, like)
    scripts = {name: _script(name) for name in ("page.js", "plotly-basic.min.js")}
    return (
        _environment()
        .get_template("report.html")
        .render(
            style=Markup(_text("templates", "style.css")),  # noqa: S704 - our own file
            scripts=scripts,
            policy=_policy(scripts.values()),
            headline=headline(aggregate),
            aggregate=aggregate,
            rows=rows,
            n_atoms_hidden=aggregate.labels.size - drawn.shown.size,
            n_unmatched=int((aggregate.labels < 0).sum()),
            **_components(aggregate, form),
            bins=BINS,
            spectrum_text=_spectrum_text(aggregate),
            likeness_text=_likeness_text(trust),
            chance=typical_chance(trust),
            facts=facts(aggregate, material.summary),
            versions=versions(),
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            inputs=material.provenance,
            files=(material.summary or {}).get("files", {}),
            command=command or command_of(aggregate, material.provenance, material.folder),
            data={
                "figures": {
                    "likeness": describe_likeness(trust),
                    "spectrum": describe_spectrum(aggregate),
                    "atoms": describe_atoms(aggregate, drawn),
                },
                "clients": {row.number: _described(row) for row in rows},
                "angles": {row.number: trust.angles[row.number].round(2).tolist() for row in rows},
                "explained": _explained(aggregate, rows),
            },
        )
    )


def _components(aggregate: Aggregate, form: Form) -> dict[str, Any]:
    """Return what the section on components shows."""
    cards = component_cards(aggregate, form)
    return {
        "form": form,
        "cards": cards,
        "n_maps": sum(card.n_clients for card in cards),
        "n_maps_hidden": sum(card.n_clients - len(card.clients) for card in cards),
        "colour_scale": DIVERGING,
        "electrodes": _electrodes(form.montage),
        "colours": [colour(a) for a in range(aggregate.n_components)],
    }


def _electrodes(montage: Montage | None) -> str:
    """Return the SVG path of points at the electrodes, on a map of radius one."""
    places = [] if montage is None else (montage.places / montage.extent).tolist()
    return "".join(f"M{x:.3f} {-y:.3f}h0" for x, y in places)


def _explained(aggregate: Aggregate, rows: Sequence[ClientRow]) -> dict[int, list[str]]:
    """Return what each component explains of a client's variance, in per cent, for the clients that sent strengths."""
    shares = aggregate.explained_variance
    if shares is None:
        return {}
    told = [row.number for row in rows if np.isfinite(shares[row.number]).all()]
    return {number: [f"{100 * share:.2g}%" for share in shares[number].tolist()] for number in told}


def _described(row: ClientRow) -> list[str]:
    """Return what the page's script shows of a client."""
    return [show_text(row.trust.client), row.trust.verdict, show_text(row.trust.reason, MAX_SENTENCE)]


def material_of(result: Aggregate | ResultFolder | PathLike, provenance: tuple[Provenance, ...] = ()) -> Material:
    """Return what a page is made from, whatever form the result has."""
    if isinstance(result, Aggregate):
        return Material(result, provenance)
    folder = None
    if not isinstance(result, ResultFolder):
        folder, result = os.fspath(result), read_folder(result)
    return Material(result.aggregate, result.provenance or provenance, result.summary, folder)


def _spectrum_text(aggregate: Aggregate) -> str:
    """Return the text alternative of the spectrum."""
    values, r = aggregate.spectrum, aggregate.n_components
    if values.size <= r:
        return f"Spectrum: {values.size} eigenvalues; {r} components were chosen."
    return (
        f"Spectrum: the {r} chosen eigenvalues go from {values[0]:.3g} down to {values[r - 1]:.3g}, "
        f"the next one is {values[r]:.3g}."
    )


def _likeness_text(trust: Trust) -> str:
    """Return the text alternative of the histogram."""
    likeness = assigned_likeness(trust)
    if likeness.size == 0:
        return "No atom matches a component."
    low, median, high = np.quantile(likeness, (0.1, 0.5, 0.9))
    return f"Likeness of atoms to their components: median {median:.2f}, from {low:.2f} (10%) to {high:.2f} (90%)."


def _default_path(result: object) -> Path:
    if isinstance(result, str | os.PathLike):
        return Path(result) / REPORT
    return Path(REPORT)


def _client_rows(material: Material, trust: Trust) -> list[ClientRow]:
    """Return the rows of the first clients in the order of concern, as many as a browser can show."""
    n_atoms = atoms_per_client(material.aggregate)
    samples = {origin.client: origin.n_samples for origin in material.provenance}
    shown = np.array(worst_first(trust)[: max(1, min(MAX_ROWS, MAX_CELLS // material.aggregate.n_components))])
    rows = trust.rows(shown)
    cells = zip(likeness_of(rows).tolist(), over_chance(rows).tolist(), rows.has.tolist(), strict=True)
    return [
        ClientRow(
            number=k,
            trust=row,
            rank=concern(row.verdict),
            n_atoms=int(n_atoms[k]),
            n_samples=samples.get(row.client),
            cells=tuple(map(_cell, *own)),
        )
        for k, row, own in zip(shown.tolist(), rows, cells, strict=True)
    ]


def _cell(likeness: float, over: float, has: bool) -> tuple[str, str]:
    """Return the style and the text of one cell of the heat map; an atom that is too far to count is in italics."""
    if likeness < 1e-12 and not has:
        return "no", "–"
    heat = f"h{next(place for place, end in enumerate(BINS) if over >= end)}"
    return heat if has else f"{heat} far", f"{likeness:.2f}"


def _degrees(angle: float) -> str:
    """Return an angle as text, with one decimal below ten degrees."""
    return "–" if not np.isfinite(angle) else f"{angle:.1f}" if angle < 9.95 else f"{angle:.0f}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fedica.report"),
        autoescape=True,  # clients choose their own names, and those of their features
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"degrees": _degrees, "short": short}
    return environment


def _shown(value: Any) -> Any:
    """Return what a template shows: every text but our own markup as `show_text` gives it, uncut: pictures are long."""
    return show_text(value, sys.maxsize) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _text(*place: str) -> str:
    return files("fedica.report").joinpath(*place).read_text(encoding="utf-8")


@cache
def _script(name: str) -> Markup:
    """Return one of our own scripts, to be put between script tags."""
    text = _text("vendor" if name.startswith("plotly") else "templates", name)
    if "</script" in text.lower():
        raise ValueError(f"{name}: a script inside a page must not contain its end tag.")
    return Markup(text)  # noqa: S704 - our own file


def _policy(scripts: Iterable[str]) -> str:
    """Content security policy: these scripts by their hashes, embedded pictures, nothing from the network."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {hashes}; {rest}"

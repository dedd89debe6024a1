"""The report: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedica.arrays import IntArray
from fedica.exchange import Provenance, ResultFolder, read_folder
from fedica.exchange.files import PathLike, write_atomic
from fedica.records import Aggregate
from fedica.report.agreement import VERDICTS, Agreement, agreement_of
from fedica.report.atom_map import map_atoms
from fedica.report.components import ImageShape, component_cards
from fedica.report.figures import SYMBOLS, colour, describe_atoms, describe_spectrum
from fedica.report.headline import headline, short
from fedica.report.provenance import command as command_of
from fedica.report.provenance import facts, versions

REPORT = "report.html"
MOST_CELLS, MOST_ROWS = 60_000, 1000
"""What a browser lays out in a moment; of more clients those to worry about first are shown."""
BINS = (2, 5, 10, 20, 35, 60, 90)
"""Upper ends, in degrees, of the colours of the heat map."""


@dataclass(frozen=True, eq=False)
class Material:
    """What a page is made of: the aggregate, and as much of its past as is known."""

    aggregate: Aggregate
    provenance: tuple[Provenance, ...] = ()
    summary: Mapping[str, Any] | None = None
    folder: str | None = None


@dataclass(frozen=True)
class ClientRow:
    """A client as the tables show it."""

    number: int
    name: str
    verdict: str
    rank: int
    reason: str
    angle: float
    influence: float
    n_atoms: int
    n_unmatched: int
    missing: str
    n_missing: int
    n_samples: int | None
    glyph: str
    cells: tuple[tuple[str, str], ...]


def write_report(
    result: Aggregate | ResultFolder | PathLike,
    path: PathLike | None = None,
    *,
    image: ImageShape | str = "auto",
    command: str | None = None,
    provenance: Iterable[Provenance] = (),
) -> Path:
    """Write the report of an aggregate: one HTML file that loads nothing from anywhere.

    Parameters
    ----------
    result : Aggregate, ResultFolder or path-like
        What the server computed, or the result folder that holds it.
    path : path-like, optional
        The file; ``report.html`` in the result folder if ``result`` is its path.
    image : tuple of int, "auto" or "no"
        Height and width when the features are the pixels of an image; by default that is guessed.
    command : str, optional
        The command that made the result; by default it is put together from what the result says.
    provenance : iterable of Provenance
        Where the contributions came from, when ``result`` does not tell.

    Returns
    -------
    Path
        The file. It speaks of single clients, so it is for the coordinator, like details.safetensors.
    """
    target = Path(path) if path is not None else _default_path(result)
    text = render_report(result, image=image, command=command, provenance=provenance)
    write_atomic(target, [text.encode("utf-8", "backslashreplace")])
    return target


def render_report(
    result: Aggregate | ResultFolder | PathLike,
    *,
    image: ImageShape | str = "auto",
    command: str | None = None,
    provenance: Iterable[Provenance] = (),
) -> str:
    """Return the report as a text.

    Parameters
    ----------
    result : Aggregate, ResultFolder or path-like
        As for `write_report`, like all that follow.
    image : tuple of int, "auto" or "no"
        Whether the features are pixels.
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
    aggregate = material.aggregate
    agreement = agreement_of(aggregate)
    shown = agreement.worst_first()[: max(1, min(MOST_ROWS, MOST_CELLS // aggregate.n_components))]
    rows = _client_rows(material, agreement, shown)
    atom_map = map_atoms(aggregate, agreement)
    figures = {"spectrum": describe_spectrum(aggregate), "atoms": describe_atoms(aggregate, atom_map)}
    scripts = {name: _script(name) for name in ("page.js", "plotly-basic.min.js")}
    return (
        _environment()
        .get_template("report.html")
        .render(
            style=Markup(_text("templates", "style.css")),  # noqa: S704 - our own file
            scripts=scripts,
            policy=_policy(scripts.values()),
            study=aggregate.terms.study,
            headline=headline(aggregate),
            aggregate=aggregate,
            rows=rows,
            n_hidden=len(aggregate.clients) - len(rows),
            n_atoms_hidden=aggregate.labels.size - atom_map.shown.size,
            n_unmatched=int((aggregate.labels < 0).sum()),
            bins=BINS,
            spectrum_text=_spectrum_text(aggregate),
            cards=component_cards(aggregate, image=image),
            colours=[colour(a) for a in range(aggregate.n_components)],
            facts=facts(aggregate, material.summary),
            versions=versions(),
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            inputs=material.provenance,
            files=(material.summary or {}).get("files", {}),
            command=command or command_of(aggregate, material.provenance, material.folder),
            data={
                "figures": figures,
                "clients": {row.number: [short(row.name), row.verdict, row.reason] for row in rows},
                "angles": {row.number: agreement.angles[row.number].round(2).tolist() for row in rows},
            },
        )
    )


def material_of(result: Aggregate | ResultFolder | PathLike, provenance: tuple[Provenance, ...] = ()) -> Material:
    """Gather what a page is made of from whatever was given."""
    if isinstance(result, Aggregate):
        return Material(result, provenance)
    folder = None
    if not isinstance(result, ResultFolder):
        folder, result = os.fspath(result), read_folder(result)
    return Material(result.aggregate, result.provenance or provenance, result.summary, folder)


def _spectrum_text(aggregate: Aggregate) -> str:
    """Say what the spectrum shows, for those who do not see it."""
    values, r = aggregate.spectrum, aggregate.n_components
    if values.size <= r:
        return f"Spectrum: {values.size} eigenvalues; {r} components were taken."
    return (
        f"Spectrum: the {r} eigenvalues that were taken go from {values[0]:.3g} down to {values[r - 1]:.3g}, "
        f"the next one is {values[r]:.3g}."
    )


def _default_path(result: object) -> Path:
    if isinstance(result, str | os.PathLike):
        return Path(result) / REPORT
    return Path(REPORT)


def _client_rows(material: Material, agreement: Agreement, shown: IntArray) -> tuple[ClientRow, ...]:
    samples = {origin.client: origin.n_samples for origin in material.provenance}
    clients = material.aggregate.clients
    bins = np.minimum(np.searchsorted(BINS, agreement.angles), len(BINS) - 1)
    rows = []
    for k in shown.tolist():
        missing = np.flatnonzero(~agreement.has[k]).tolist()
        cells = tuple(
            (
                f"h{b}" if has else "no" if angle >= 90 else f"h{b} far",
                "–" if angle >= 90 and not has else _degrees(angle),
            )
            for b, angle, has in zip(
                bins[k].tolist(), agreement.angles[k].tolist(), agreement.has[k].tolist(), strict=True
            )
        )
        rows.append(
            ClientRow(
                number=k,
                name=clients[k],
                verdict=agreement.verdict[k],
                rank=VERDICTS.index(agreement.verdict[k]) if agreement.verdict[k] in VERDICTS else len(VERDICTS),
                reason=agreement.reason[k],
                angle=float(agreement.angle[k]),
                influence=float(agreement.influence[k]),
                n_atoms=int(agreement.n_atoms[k]),
                n_unmatched=int(agreement.n_unmatched[k]),
                missing=", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else ""),
                n_missing=len(missing),
                n_samples=samples.get(clients[k]),
                glyph=SYMBOLS[k % len(SYMBOLS)],
                cells=cells,
            )
        )
    return tuple(rows)


def _degrees(angle: float) -> str:
    """Return an angle as a cell shows it: one decimal where that is more than noise."""
    return "–" if not np.isfinite(angle) else f"{angle:.1f}" if angle < 9.95 else f"{angle:.0f}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fedica.report"),
        autoescape=True,  # clients and features choose their own names
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"degrees": _degrees, "short": short}
    return environment


@cache
def _text(*place: str) -> str:
    return files("fedica.report").joinpath(*place).read_text(encoding="utf-8")


@cache
def _script(name: str) -> Markup:
    """Return one of our own scripts, as it stands between its tags."""
    text = _text("vendor" if name.startswith("plotly") else "templates", name)
    if "</script" in text.lower():
        raise ValueError(f"{name}: a script inside a page may not contain its own end.")
    return Markup(text)  # noqa: S704 - our own file


def _policy(scripts: Iterable[str]) -> str:
    """Content security policy: these scripts by their fingerprints, pictures inside the file, nothing from anywhere."""
    prints = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {prints}; {rest}"

"""An aggregate as tables for people and spreadsheets: mixing, components, clients, rejected."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedica.arrays import Array, BoolArray
from fedica.exchange.aggregates import PublicAggregate
from fedica.exchange.contributions import Provenance
from fedica.records import Aggregate, Rejection
from fedica.text import MAX_SENTENCE, show_text

# A spreadsheet takes a cell that starts with one of these signs for a formula; a hostile client chooses its own name.
# What starts a cell depends on the spreadsheet: in much of Europe it is the semicolon.
_FORMULA = re.compile(r"^(?= *[=+\-@＝＋－＠'])|(?<=[;,|])(?= *[=+\-@＝＋－＠])")
ORIGIN = ("n_samples", "source", "n_bytes", "sha256", "key", "verified")
"""What clients.csv tells of where a contribution came from: fields of `Provenance`."""
Cell = str | int | float | bool | None


def mixing_table(aggregate: Aggregate | PublicAggregate) -> bytes:
    """One row per feature: its name, and its entry in every component."""
    return columns_table(feature_names(aggregate), component_names(aggregate), aggregate.mixing)


def columns_table(features: Sequence[str], columns: Sequence[str], values: Array) -> bytes:
    """One row per feature: its name, and its entry in every column of the values, (d, m)."""
    rows = zip(features, values.tolist(), strict=True)
    return _csv(["feature", *columns], ([name, *row] for name, row in rows))


def feature_names(aggregate: Aggregate | PublicAggregate) -> tuple[str, ...]:
    """Return the names of the rows of the mixing matrix; ``feature_0`` and so on if the contributions name none."""
    return aggregate.terms.features or tuple(f"feature_{i}" for i in range(aggregate.mixing.shape[0]))


def component_names(aggregate: Aggregate | PublicAggregate) -> tuple[str, ...]:
    """Return the names of the columns of the mixing matrix: ``component_0`` and so on."""
    return tuple(f"component_{a}" for a in range(aggregate.n_components))


def components_table(aggregate: Aggregate, published: BoolArray) -> bytes:
    """One row per component: who supports it, how well its atoms agree, whether it is published, what it explains."""
    header = ["component", "support", "spread_degrees", "centre_norm", "degenerate", "median_gap"]
    header += ["weighted_support", "published", "replicates"]
    norms = np.linalg.norm(aggregate.centres, axis=0).tolist()
    degenerate = set(aggregate.degenerate.tolist())
    certificate = aggregate.certificate
    gaps = [None] * aggregate.n_components if certificate is None else certificate.median_gap.tolist()
    support, spread = aggregate.support.tolist(), aggregate.spread.tolist()
    counts = [None] * len(gaps) if aggregate.weighted_support is None else aggregate.weighted_support.tolist()
    replicates = [None] * len(gaps) if aggregate.replicates is None else aggregate.replicates.tolist()
    columns, explained = _explained_variance(aggregate)
    rows = zip(support, spread, norms, gaps, counts, published.tolist(), replicates, explained, strict=True)
    return _csv(
        [*header, *columns],
        ([a, *row[:3], a in degenerate, *row[3:-1], *row[-1]] for a, row in enumerate(rows)),
    )


def _explained_variance(aggregate: Aggregate) -> tuple[list[str], list[list[Cell]]]:
    """Return the names of the columns on explained variance, in all and of each client that told, and their rows."""
    in_all, shares = aggregate.explained_in_all, aggregate.explained_variance
    if in_all is None or shares is None:
        return ["explained_variance"], [[None]] * aggregate.n_components
    told = np.flatnonzero(np.isfinite(shares).all(axis=1)).tolist()
    columns = ["explained_variance", *(cell_text(f"explained_variance of {aggregate.clients[k]}") for k in told)]
    return columns, np.column_stack([in_all, shares[told].T]).tolist()


def clients_table(aggregate: Aggregate, provenance: Mapping[str, Provenance]) -> bytes:
    """One row per admitted client: what it sent, and the verdict on it."""
    header = [
        *("client", "verdict", "reason", "angle_degrees", "influence_degrees", "n_atoms", "n_unmatched", "missing"),
        *(*ORIGIN, "kind"),
    ]
    n_clients, n_components = len(aggregate.clients), aggregate.n_components
    found = aggregate.labels >= 0
    n_atoms = np.bincount(aggregate.client_of_atom, minlength=n_clients).tolist()
    n_found = np.bincount(aggregate.client_of_atom[found], minlength=n_clients).tolist()
    has = np.zeros((n_clients, n_components), dtype=bool)
    has[aggregate.client_of_atom[found], aggregate.labels[found]] = True
    verdicts = [None] * n_clients if aggregate.trust is None else list(aggregate.trust)
    rows = []
    for k, (client, trust) in enumerate(zip(aggregate.clients, verdicts, strict=True)):
        row: dict[str, Cell] = {
            "client": client,
            "n_atoms": n_atoms[k],
            "n_unmatched": n_atoms[k] - n_found[k],
            "missing": " ".join(map(str, np.flatnonzero(~has[k]))),
        }
        if trust is not None:
            row |= {
                "verdict": trust.verdict,
                "kind": trust.why.kind,
                "reason": trust.reason,
                "angle_degrees": trust.angle,
                "influence_degrees": trust.influence,
                "n_unmatched": trust.n_unmatched,
                "missing": " ".join(map(str, trust.missing)),
            }
        if (origin := provenance.get(client)) is not None:
            row |= {name: getattr(origin, name) for name in ORIGIN}
        rows.append([row.get(name) for name in header])
    return _csv(header, rows)


def rejected_table(aggregate: Aggregate) -> bytes:
    """One row per contribution that was left out, and why."""
    return rejections_table(aggregate.rejected)


def rejections_table(rejected: Iterable[Rejection]) -> bytes:
    """One row per rejection, also of a run that gave no aggregate."""
    header = ["client", "reason", "source", "kind"]
    return _csv(header, ([getattr(x, name) for name in header] for x in rejected))


def _csv(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return stream.getvalue().encode()


def cell_text(text: str) -> str:
    """Return text from elsewhere as a cell that no spreadsheet runs, whatever it takes for a separator.

    An apostrophe stands before a sign that starts a formula, at the start and after each separator; what is not
    printable, a tab or a line break among it, is escaped.
    """
    return _FORMULA.sub("'", show_text(text, MAX_SENTENCE))


def _cell(value: Cell) -> str:
    """Numbers as Python writes them (nothing is lost), truth values as true and false, texts never as a formula."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return cell_text(value) if isinstance(value, str) else repr(value)

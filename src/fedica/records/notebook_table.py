"""An aggregate as a notebook shows it: its components, and the clients in doubt, in two small tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from fedica.records.trust import IN_DOUBT
from fedica.text import counted, show_text

if TYPE_CHECKING:
    from fedica.records.aggregate import Aggregate

MAX_ROWS = 20


def aggregate_html(aggregate: Aggregate) -> str:
    """Return tables in HTML; names of clients are texts that others sent, so they are shortened and escaped."""
    d, r = aggregate.mixing.shape
    title = (
        f"Aggregate by {aggregate.method}: {counted(r, 'component')} of {d} features from "
        f"{counted(len(aggregate.clients), 'client')} ({counted(aggregate.labels.size, 'atom')})"
    )
    components = [
        (str(a), str(support), f"{spread:.2f}")
        for a, (support, spread) in enumerate(zip(aggregate.support, aggregate.spread, strict=True))
    ]
    parts = [f"<p><b>{escape(title)}</b></p>", _table(("component", "clients", "spread in degrees"), components)]
    doubted = [(row.client, row.verdict, row.reason) for row in aggregate.trust or () if row.verdict in IN_DOUBT]
    refused = [(rejection.client, "rejected", rejection.reason) for rejection in aggregate.rejected]
    if doubted or refused:
        parts.append(_table(("client", "verdict", "why"), [*doubted, *refused]))
    parts.append("<p>The whole report: <code>fedica.report.show(result)</code></p>")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    more = f"<tr><td colspan={len(head)}>and {len(rows) - MAX_ROWS} more</td></tr>" if len(rows) > MAX_ROWS else ""
    lines = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows[:MAX_ROWS])
    return f"<table><thead><tr>{_cells(head, 'th')}</tr></thead><tbody>{lines}{more}</tbody></table>"


def _cells(texts: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{escape(show_text(text, 200))}</{tag}>" for text in texts)

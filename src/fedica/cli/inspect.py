"""``fedica inspect``: everything that is in a file, before anybody trusts it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from fedica.cli.output import Output, with_output

if TYPE_CHECKING:
    from fedica.workflow import Contributed, Field, Scored


@with_output
def inspect(
    *,
    files: Annotated[list[Path], Argument(metavar="FILE...", help="Messages of clients, aggregates, studies, keys.")],
    out: Output,
) -> None:
    """Check files and list every field in them.

    Each file is read as a whole and checked against the format; the first that does not hold ends the command with
    exit code 1. A signature is shown, not judged: aggregate --trust-keys judges it.
    """
    from fedica.workflow import inspect_file

    found = []
    with out:
        for file in files:
            out.progress(f"reading {file}")
            found.append(inspect_file(file))
    if out.result({"files": [{**vars(item), "fields": fields_json(item.fields)} for item in found]}):
        for item in found:
            out.lines(f"{item.path}: {item.format}, {item.n_bytes} bytes", f"SHA-256 {item.sha256}")
            print_fields(out, item.fields)


def fields_json(fields: Iterable[Field]) -> dict[str, Any]:
    """Return the fields of a file for programs."""
    return {field.name: {"n_bytes": field.n_bytes, "value": field.value} for field in fields}


def print_fields(out: Output, fields: Iterable[Field]) -> None:
    """Print the fields of a file as a table."""
    out.table(["field", "bytes", "<value"], [[field.name, str(field.n_bytes), field.value] for field in fields])


def show_message(out: Output, client: str, sent: Contributed | Scored) -> None:
    """Show what leaves in a message, what it tells, and what does not leave."""
    out.notes(sent.notes)
    fields = {
        "client": client,
        "path": sent.path,
        "n_bytes": len(sent.data),
        "leaves": fields_json(sent.leaves),
        "tells": list(sent.tells),
        "stays": list(sent.stays),
        "notes": list(sent.notes),
    }
    if out.result(fields):
        out.lines("What leaves:" if sent.path else "What would leave (nothing was written):")
        print_fields(out, sent.leaves)
        out.lines(
            *(f"  - {line}" for line in sent.tells), "What does not leave:", *(f"  - {line}" for line in sent.stays)
        )
        if sent.path:
            out.lines("", f"{sent.path}: {len(sent.data)} bytes. Send this file to the coordinator.")

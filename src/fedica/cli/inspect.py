"""``fedica inspect``: everything that is in a file, before anybody trusts it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedica.cli.console import print_table
from fedica.cli.output import Json, Quiet, Verbose, Voice


def inspect(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Contributions, aggregates, studies, keys.")],
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Check files and list every field in them.

    Each file is read as a whole and checked against the format; the first that does not hold ends the command with
    exit code 1. A signature is shown, not judged: aggregate --trust-keys judges it.
    """
    from fedica.workflow import inspect_file

    with Voice(as_json=as_json, verbose=verbose, quiet=quiet) as voice:
        found = []
        for file in files:
            voice.progress(f"reading {file}")
            found.append(inspect_file(file))
    shown = [
        {
            "path": item.path,
            "format": item.format,
            "n_bytes": item.n_bytes,
            "sha256": item.sha256,
            "fields": {field.name: {"n_bytes": field.n_bytes, "value": field.value} for field in item.fields},
        }
        for item in found
    ]
    if voice.result({"files": shown}):
        for item in found:
            voice.out.print(f"{item.path}: {item.format}, {item.n_bytes} bytes\nSHA-256 {item.sha256}", soft_wrap=True)
            rows = [[field.name, str(field.n_bytes), field.value] for field in item.fields]
            print_table(voice.out, ["field", "bytes", "<value"], rows)

"""``fedica keygen``: a key of its own for a client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from fedica.cli.options import option
from fedica.cli.output import Output, with_output


@with_output
def keygen(
    *,
    client: Annotated[str, Argument(metavar="CLIENT", help="The client that the key stands for.")],
    output: Annotated[Path, option("DIR", "Folder for the two files.", "--output", "-o")] = Path(),
    out: Output,
) -> None:
    """Make the key that a client signs its contribution with.

    CLIENT.key is private: keep it, never send it. CLIENT.pub goes to the coordinator, by a channel that both trust.
    Existing keys are never overwritten.
    """
    from fedica.exchange import keygen as make_key
    from fedica.exchange import read_public_key

    out.progress(f"making a key for {client}")
    private, public = make_key(client, output)
    fingerprint = read_public_key(public)[1]
    if out.result({"client": client, "private": str(private), "public": str(public), "ed25519": fingerprint}):
        out.lines(
            f"{private}: private; keep it, never send it",
            f"{public}: send it to the coordinator",
            f"public key {fingerprint}",
        )

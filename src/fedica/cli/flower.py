"""``fedica flower``: certificates, the app folder and the commands of a federation that runs by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from fedica.cli.console import examples
from fedica.cli.options import option
from fedica.cli.output import Output, with_output

app = typer.Typer(no_args_is_help=True, help="A federation over the network, run by Flower.")


@app.command(epilog=examples("fedica flower certs certs --clients a,b,c --host coordinator.example.org"))
@with_output
def certs(
    *,
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder for the files; it must not hold any yet.")],
    clients: Annotated[str, option("NAMES", "The clients, with commas between them.")],
    host: Annotated[str, option("HOST", "Name or address by which they reach the coordinator.")],
    days: Annotated[int, option("N", "How long the certificates hold.", min=1, max=3650)] = 730,
    out: Output,
) -> None:
    """Make a CA, the server's certificates, and a node key for each client.

    Every client gets ca.crt and its own nodes/CLIENT.key, by a channel that both trust; all else stays with the
    coordinator. A client may also make its key itself (ssh-keygen -t ecdsa -b 384) and send only the public half.
    """
    from fedica.flower.certs import make_certificates

    out.progress(f"making certificates for {host}")
    made = make_certificates(folder, [name.strip() for name in clients.split(",")], host=host, days=days)
    shown = {
        "folder": str(made.folder),
        "ca": str(made.ca),
        "keys": [str(path) for path in sorted(made.nodes.glob("*.key"))],
    }
    if out.result(shown):
        out.lines(
            f"{made.ca}: send it to every client",
            f"{made.nodes}: send each CLIENT.key to its client alone, then delete it here; keep each CLIENT.pub",
            f"{made.folder / 'ca.key'}: put it in a safe, the next certificate needs it",
        )


@app.command(
    epilog=examples(
        "fedica flower new federation --certs certs --host coordinator.example.org --study study.json",
    )
)
@with_output
def new(
    *,
    folder: Annotated[Path, Argument(metavar="DIR", help="The folder to write; it must be empty or absent.")],
    certificates: Annotated[Path, option("DIR", "What fedica flower certs made.", "--certs")],
    host: Annotated[str, option("HOST", "Name or address by which clients reach the coordinator.")],
    port: Annotated[int, option("N", "The port that clients connect to.", min=1, max=65535)] = 8443,
    listen: Annotated[str, option("ADDRESS", "Address that the proxy listens on, if not on all.")] = "",
    superlink_port: Annotated[int, option("N", "The SuperLink's port, on loopback.", min=1, max=65535)] = 8000,
    study: Annotated[Path | None, option("FILE", "The study that all agreed on.")] = None,
    out: Output,
) -> None:
    """Write the folder of a federation.

    The app for flwr run with every setting explained, the coordinator's settings, a configuration of nginx that shields
    the SuperLink, and a policy for each client to edit.
    """
    from fedica.flower.scaffold import Federation, write_federation

    out.progress(f"writing {folder}")
    written = write_federation(folder, Federation(host, port, superlink_port, certificates, listen), study=study)
    if out.result({"folder": str(folder), "files": [str(path) for path in written]}):
        out.lines(*written, f"The commands that run it: fedica flower up {folder}")


@app.command(epilog=examples("fedica flower up federation"))
@with_output
def up(
    *,
    folder: Annotated[Path, Argument(metavar="DIR", help="What fedica flower new wrote.")],
    out: Output,
) -> None:
    """Show the exact commands that run a federation, for each machine."""
    from fedica.flower.commands import commands

    out.progress(f"reading {folder}")
    plan = commands(folder)
    if out.result({"commands": [{"where": title, "lines": lines} for title, lines in plan]}):
        for title, lines in plan:
            out.lines(f"# {title}", *lines, "")

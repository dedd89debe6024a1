"""``fedica flower`` at a client: its node, a check before it takes part, and what waits to leave."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Annotated

from typer import Argument, Option

from fedica.cli.console import examples
from fedica.cli.flower import app
from fedica.cli.options import option
from fedica.cli.output import Output, with_output
from fedica.errors import OptionError

__all__ = ["app"]  # of `fedica flower`, with the commands of this file added

_CLIENT = Annotated[str, Argument(metavar="CLIENT", help="This client, as its node key is named.")]
_SERVER = Annotated[str, option("HOST:PORT", "The coordinator, as clients reach it.")]
_CA = Annotated[Path, option("FILE", "The coordinator's ca.crt.")]
_NODE_KEY = Annotated[Path, option("FILE", "This client's node key.")]
_POLICY = Annotated[Path, option("FILE", "What this client allows.")]
_DATA = Annotated[Path, option("PATH", "The data: a file, or a folder whose newest finished file is used.")]
_RESULTS = Annotated[Path, option("DIR", "Folder for what comes back.", "--output", "-o")]
_AS_A = (
    "--server coordinator.example.org:8443 --ca ca.crt --key a.key \\\n"
    "    --policy a.toml --data data.csv --output results"
)


@app.command(epilog=examples(f"fedica flower client a {_AS_A}"))
@with_output
def client(
    *,
    name: _CLIENT,
    server: _SERVER,
    ca: _CA,
    key: _NODE_KEY,
    policy: _POLICY,
    data: _DATA,
    output: _RESULTS,
    port: Annotated[int, option("N", "A free port on loopback, one for each client.", min=1, max=65535)] = 9094,
    out: Output,
) -> None:
    """Run a client's node until it is stopped: it runs the apps that the policy names, and no other."""
    from fedica.flower.launch import Client, run_client

    out.progress(f"starting the node of {name}")
    run_client(Client(name, server, ca, key, data, policy, output, port), out.progress)


@app.command(epilog=examples(f"fedica flower check a {_AS_A}"))
@with_output
def check(
    *,
    name: _CLIENT,
    server: _SERVER,
    ca: _CA,
    key: _NODE_KEY,
    policy: _POLICY,
    data: _DATA,
    output: _RESULTS,
    out: Output,
) -> None:
    """Check a client before it takes part: the way to the coordinator, clock, key, policy, and what would leave."""
    from fedica.flower.check import check_connection, dry_run
    from fedica.flower.launch import Client

    client = Client(name, server, ca, key, data, policy, output)
    out.progress(f"checking {name}")
    lines: list[str] = []
    for line in chain(check_connection(client), dry_run(client)):
        lines.append(line)
        if not (out.as_json or out.quiet):  # what succeeded is said also if a later step fails
            out.lines(line)
    out.result({"client": name, "checks": lines})


@app.command(epilog=examples("fedica flower approve results", "fedica flower approve results run-7-contribution --yes"))
@with_output
def approve(
    *,
    output: Annotated[Path, Argument(metavar="DIR", help="The client's output folder.")],
    name: Annotated[str, Argument(metavar="MESSAGE", help="The message; without it, all that wait are shown.")] = "",
    yes: Annotated[bool | None, Option("--yes/--no", help="Let it leave, or refuse it.")] = None,
    out: Output,
) -> None:
    """Show what waits to leave a client with approve = "ask", or say yes or no to it."""
    from fedica.flower.approval import answer_waiting, list_waiting

    if yes is not None and not name:
        raise OptionError("--yes and --no answer one message: give its name too.")
    if yes is not None:
        answer_waiting(output, name, yes=yes)
        if out.result({"message": name, "yes": yes}):
            out.lines(f"{name}: {'it leaves' if yes else 'it does not leave'}")
        return
    shown = list_waiting(output, name)
    if not out.result({"waiting": shown}):
        return
    for title, page in shown.items():
        out.lines(f"{title} would leave:", *(f"  {line}" for line in page.splitlines()))
        out.lines(f"fedica flower approve {quote(str(output))} {title} --yes  # or --no", "")
    if not shown:
        out.lines("Nothing waits.")

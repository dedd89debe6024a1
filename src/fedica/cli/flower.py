"""``fedica flower``, at the coordinator: certificates, the federation's folder, its members and its runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from fedica.cli.console import examples
from fedica.cli.options import option
from fedica.cli.output import Output, with_output
from fedica.errors import InputError
from fedica.text import list_names

if TYPE_CHECKING:
    from fedica.flower.control import Member

app = typer.Typer(no_args_is_help=True, help="A federation over the network, run by Flower.")


@app.callback(help="A federation over the network, run by Flower.")
def prepare() -> None:
    """Let no web proxy of this machine's network come between the processes of a federation on loopback."""
    kept = {*os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")).split(","), "127.0.0.1", "localhost"}
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(sorted(kept - {""}))


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
    """Make a CA, the server's certificates, and a node key and a signing key for each client.

    Every client gets ca.crt and its own nodes/CLIENT.key and signing/CLIENT.key, by a channel that both trust; all else
    stays with the coordinator. A client may also make its keys itself (ssh-keygen -t ecdsa -b 384, fedica keygen) and
    send only the public halves.
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
            f"{made.signing}: the same; a client keeps it as signing/CLIENT.key",
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


@app.command(epilog=examples("fedica flower superlink federation"))
@with_output
def superlink(
    *,
    folder: Annotated[Path, Argument(metavar="DIR", help="What fedica flower new wrote.")],
    simulation: Annotated[bool, Option("--simulation", help="For Flower's simulation on this machine.")] = False,
    out: Output,
) -> None:
    """Run the coordinator's SuperLink, closed to other users of the machine, until it is stopped."""
    from fedica.flower.launch import run_superlink

    out.progress(f"starting the SuperLink of {folder}")
    run_superlink(folder, simulation=simulation)


@app.command(epilog=examples("fedica flower resume federation/coordinator/results/run-7"))
@with_output
def resume(
    *,
    run: Annotated[Path, Argument(metavar="RUN", help="Folder of the run, in the coordinator's results.")],
    without_clients: Annotated[
        bool, Option("--without-clients", help="Aggregate what had arrived; ask nobody, and send nothing back.")
    ] = False,
    settings: Annotated[
        Path | None, option("FILE", "The coordinator's settings, if not coordinator.toml beside the results.")
    ] = None,
    out: Output,
) -> None:
    """Finish a run whose processes were killed.

    Contributions that had arrived are taken as they are; the other clients are asked again. Then the run goes on: its
    rounds, and the aggregate back to the clients. The result is what the run would have written.
    """
    from fedica.flower.control import Control
    from fedica.flower.coordinator import Coordinator
    from fedica.flower.finish import finish_without_clients
    from fedica.flower.settings import read_settings

    out.progress(f"finishing {run}")
    home = run.resolve().parents[1]
    if without_clients:
        finish_without_clients(run, read_settings(settings or home / "coordinator.toml", Coordinator))
    else:
        control = Control(home.parent)
        control.follow(control.resume(run.resolve()), out.progress, run.resolve())
    _show_run(out, run)


def _show_run(out: Output, folder: Path, **more: int) -> None:
    """Print what a run came to."""
    from fedica.flower.summary import summarise

    found = summarise(folder)
    if out.result({**more, "folder": str(folder), **vars(found), "result": str(found.result)}):
        for line in found.lines():
            out.text(line)
        out.lines(found.result)


FEDERATION = Annotated[Path, Argument(metavar="DIR", help="What fedica flower new wrote.")]


@app.command(epilog=examples("fedica flower status federation"))
@with_output
def status(*, folder: FEDERATION, out: Output) -> None:
    """Show every client of a federation: whether it is connected, last seen, and its last contribution."""
    from fedica.flower.control import Control

    out.progress(f"asking the SuperLink of {folder}")
    members = Control(folder).members()
    if out.result({"clients": [vars(member) for member in members]}):
        columns = ("client", "<node", "<state", "<last seen (UTC)", "<last contribution (UTC)")
        out.table(columns, [_row(member) for member in members])


def _row(member: Member) -> tuple[str, ...]:
    state = "online" if member.online else "offline" if member.node else "not registered"
    seen, sent = (text or "never" for text in (member.last_seen, member.last_contribution))
    return member.client, member.node and f"...{member.node}", state, seen, sent


@app.command(epilog=examples("fedica flower run federation", "fedica flower run federation --set 'components=10'"))
@with_output
def run(
    *,
    folder: FEDERATION,
    settings: Annotated[str, option("NAME=VALUE", "Settings of this run, as for flwr run --run-config.", "--set")] = "",
    out: Output,
) -> None:
    """Start a run, and wait until it is over; exit code 1 and the reason if it failed."""
    from fedica.flower.control import Control

    control = Control(folder)
    run_id = control.start_run(settings)
    out.progress(f"run {run_id} has started")
    results = control.follow(run_id, out.progress)
    _show_run(out, results, run=run_id)


@app.command(epilog=examples("fedica flower add federation d", "fedica flower add federation a b c"))
@with_output
def add(
    *,
    folder: FEDERATION,
    names: Annotated[list[str], Argument(metavar="CLIENT...", help="The clients.")],
    out: Output,
) -> None:
    """Register clients with a running federation; keys and policies are made for those that have none.

    A client that makes its own keys sends the public halves, which belong into the folders nodes and signing of the
    certificates before.
    """
    from fedica.flower.control import Control
    from fedica.flower.members import add_client, reload_commands

    control = Control(folder)
    files: dict[str, list[str]] = {}
    stale = False
    for name in names:
        out.progress(f"adding {name}")
        added = add_client(control, name)
        if added is not None:
            files[name], stale = [str(path) for path in added[0]], stale or added[1]
    if not files:
        raise InputError(f"{list_names(names)}: in this federation already.")
    reload = reload_commands(control) if stale else []
    if out.result({"files": files, "reload": reload}):
        for name, paths_of_client in files.items():
            out.lines(f"{name} is registered. Its files, over a channel that both trust:", *paths_of_client, "")
        if reload:
            out.lines("Then let the proxy know, as the user who runs it:", *reload)


@app.command(epilog=examples("fedica flower revoke federation d"))
@with_output
def revoke(
    *,
    folder: FEDERATION,
    name: Annotated[str, Argument(metavar="CLIENT", help="The client.")],
    out: Output,
) -> None:
    """Take a client out of a running federation: it is cut off, and its keys are no longer known."""
    from fedica.flower.control import Control
    from fedica.flower.members import reload_commands, revoke_client

    out.progress(f"revoking {name}")
    control = Control(folder)
    revoke_client(control, name)
    reload = reload_commands(control)
    if out.result({"client": name, "reload": reload}):
        out.lines(f"{name} is cut off. Let the proxy know, as the user who runs it:", *reload)


@app.command(epilog=examples("fedica flower renew federation --days 365"))
@with_output
def renew(
    *,
    folder: FEDERATION,
    days: Annotated[int, option("N", "How long the new certificates hold.", min=1, max=3650)] = 730,
    out: Output,
) -> None:
    """Make new certificates of proxy and SuperLink. Clients keep their ca.crt, and need do nothing."""
    from fedica.flower.control import Control
    from fedica.flower.members import reload_commands
    from fedica.flower.members import renew as renew_all

    out.progress(f"renewing the certificates of {folder}")
    control = Control(folder)
    renew_all(control, days=days)
    reload = reload_commands(control)
    if out.result({"days": days, "reload": reload}):
        out.lines(
            "New certificates are written. Stop and start the SuperLink:",
            f"fedica flower superlink {folder}",
            "systemctl restart fedica-superlink  # instead, if it is a service",
            "and let the proxy know, as the user who runs it:",
            *reload,
        )

"""``fedica aggregate``: the clients' files in, the result folder out."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedica.cli.console import print_table
from fedica.cli.output import Json, Quiet, Verbose, Voice

if TYPE_CHECKING:
    from fedica.workflow import Combined


class FailOn(StrEnum):
    """A verdict that stops everything."""

    outlying = "outlying"
    weak = "weak"


def aggregate(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR...", help="Contributions, or folders of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The result folder to write.")],
    components: Annotated[
        int | None,
        typer.Option(min=1, metavar="R", help="Components; by default the study's, or what clients agree on."),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="consensus, srf-ica, sf-ica, naive-mean, naive-median, ...")
    ] = "consensus",
    affinity: Annotated[str, typer.Option(metavar="NAME", help="auto, absolute or squared.")] = "auto",
    weights: Annotated[
        str | None, typer.Option(metavar="NAME", help="samples: weigh clients by declared samples, capped.")
    ] = None,
    random_state: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random starts.")] = 0,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="CLIENT", help="Withdraw a client, and say what changes; may be repeated."),
    ] = None,
    min_clients: Annotated[
        int, typer.Option(min=1, metavar="N", help="Refuse a result of fewer clients; one alone would be exposed.")
    ] = 2,
    fail_on: Annotated[FailOn | None, typer.Option(help="Refuse a result with clients of this verdict.")] = None,
    trust_keys: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of public keys; only what they signed is taken.")
    ] = None,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The study; contributions to another one are refused.")
    ] = None,
    require_all: Annotated[
        bool, typer.Option("--require-all", help="Refuse the whole result if one contribution is refused or absent.")
    ] = False,
    like: Annotated[
        Path | None, typer.Option(metavar="OLD", help="Keep the order and signs of an earlier result.")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Write report.html into the result folder: one page for people.")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Put all contributions together into one mixing matrix.

    A file that cannot be used is left out and named. Writes a folder: aggregate.safetensors goes back to the clients,
    everything else is the coordinator's. Ends with the clients that are not to be trusted, and why.
    """
    from fedica.workflow import combine

    with Voice(as_json=as_json, verbose=verbose, quiet=quiet) as voice:
        combined = combine(
            paths,
            output,
            n_components=components,
            method=method,
            affinity=affinity,
            weights=weights,
            random_state=random_state,
            exclude=exclude or (),
            min_clients=min_clients,
            fail_on=None if fail_on is None else fail_on.value,
            trust_keys=trust_keys,
            study=study,
            require_all=require_all,
            like=like,
            progress=voice.progress,
        )
        if report:
            from fedica.report import write_report

            write_report(output, command=shlex.join(["fedica", *sys.argv[1:]]))
    voice.notes(combined.notes)
    if voice.result(_fields(combined)):
        _print(voice, combined)


def _fields(combined: Combined) -> dict[str, Any]:
    from fedica.exchange import summarise

    result, change = combined.aggregate, combined.change
    trust = () if result.trust is None else tuple(result.trust)
    return {
        **summarise(result, combined.provenance),
        "path": combined.path,
        "clients": [{"client": row.client, "verdict": row.verdict, "reason": row.reason} for row in trust],
        "rejected": [{"client": x.client, "reason": x.reason, "source": x.source} for x in result.rejected],
        "change": None
        if change is None
        else {
            "against": combined.against,
            "places": [None if place < 0 else int(place) for place in change.places],
            "angles": [None if place < 0 else float(a) for place, a in zip(change.places, change.angles, strict=True)],
            "gone": list(change.gone),
            "joined": list(combined.joined),
            "left": list(combined.left),
        },
        "notes": list(combined.notes),
    }


def _print(voice: Voice, combined: Combined) -> None:
    result, out = combined.aggregate, voice.out
    d, r = result.mixing.shape
    out.print(f"{r} components of {d} features from {len(result.clients)} clients, by {result.method}.")
    degenerate = set(result.degenerate.tolist())
    rows = [
        [str(a), str(result.support[a]), f"{result.spread[a]:.2f}", "its atoms cancel" if a in degenerate else ""]
        for a in range(r)
    ]
    print_table(out, ["component", "clients", "spread in degrees", "<"], rows)
    if combined.change is not None:
        _print_change(voice, combined)
    if result.rejected:
        print_table(out, ["left out", "<why"], [[x.client, x.reason] for x in result.rejected])
    doubted = [row for row in result.trust or () if row.verdict != "trusted"]
    if doubted:
        doubted.sort(key=lambda row: (row.verdict, -row.angle))
        print_table(out, ["client", "<verdict", "<why"], [[row.client, row.verdict, row.reason] for row in doubted])
        n_out = sum(row.verdict == "outlying" for row in doubted)
        out.print(
            f"Not to be trusted: {n_out} outlying of {len(result.clients)} clients; weak: {len(doubted) - n_out}."
        )
    else:
        out.print("All clients agree: none is outlying or weak.")
    out.print(f"{combined.path}: send aggregate.safetensors back to the clients, keep the rest.", soft_wrap=True)


def _print_change(voice: Voice, combined: Combined) -> None:
    change = combined.change
    assert change is not None
    same = [k for k, place in enumerate(change.places) if place >= 0]
    most = max((float(change.angles[k]) for k in same), default=0.0)
    moved = [f"{change.places[k]} is now {k}" for k in same if change.places[k] != k]
    lines = [f"Against {combined.against}:"]
    lines.append(f"  {len(same)} components are the same, turned by {most:.2f} degrees at most")
    lines += [f"  component {', '.join(moved)}"] if moved else []
    lines += [f"  new: component {', '.join(map(str, change.new))}"] if change.new else []
    lines += [f"  gone: component {', '.join(map(str, change.gone))} of then"] if change.gone else []
    lines += [f"  clients that joined: {', '.join(combined.joined)}"] if combined.joined else []
    lines += [f"  clients that left: {', '.join(combined.left)}"] if combined.left else []
    voice.out.print("\n".join(lines), soft_wrap=True)

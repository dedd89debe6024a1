"""``fedica aggregate``: the clients' files in, the result folder out."""

from __future__ import annotations

import shlex
import sys
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, echo

from fedica.cli.options import Choice, option
from fedica.cli.output import Output, with_output
from fedica.text import MAX_SENTENCE, counted, list_names, show_text

if TYPE_CHECKING:
    from fedica.records import Aggregate
    from fedica.report import Headline
    from fedica.workflow import Combined

UNRELIABLE = 3
"""Exit code of a result that is written and not to be relied on."""


class FailOn(Choice):
    """A verdict on clients after which the result is not to be relied on."""

    outlying = "outlying"
    weak = "weak"


@with_output
def aggregate(
    *,
    paths: Annotated[list[Path], Argument(metavar="FILE|DIR...", help="Contributions, or folders of them.")],
    output: Annotated[Path, option("DIR", "The result folder to write.", "--output", "-o")],
    components: Annotated[
        int | None, option("R", "Components; by default the study's, or what clients agree on.", min=1)
    ] = None,
    method: Annotated[str, option("NAME", "{fedica.server.METHOD_NAMES}.")] = "auto",
    affinity: Annotated[str, option("NAME", "{fedica.server.AFFINITIES}.")] = "auto",
    weights: Annotated[str | None, option("NAME", "samples: weigh clients by declared samples, capped.")] = None,
    replication: Annotated[
        bool, Option("--replication", help="Test which components replicate in clients that did not make them.")
    ] = False,
    random_state: Annotated[int, option("N", "Seed of the random starts.", min=0)] = 0,
    exclude: Annotated[
        list[str] | None, option("CLIENT", "Withdraw a client, and say what changes; may be repeated.")
    ] = None,
    min_clients: Annotated[
        int, option("N", "Refuse a result of fewer clients; one alone would be exposed.", min=1)
    ] = 2,
    fail_on: Annotated[FailOn | None, Option(help="Exit with code 3 if a client has this verdict.")] = None,
    trust_keys: Annotated[Path | None, option("DIR", "Folder of public keys; only what they signed is taken.")] = None,
    study: Annotated[Path | None, option("FILE", "The study; contributions to another one are refused.")] = None,
    require_all: Annotated[
        bool, Option("--require-all", help="Refuse the whole result if one contribution is refused or absent.")
    ] = False,
    like: Annotated[Path | None, option("OLD", "Keep the order and signs of an earlier result.")] = None,
    min_support: Annotated[
        int,
        option("N", "Withhold components in which fewer clients count; 1 publishes single clients' own atoms.", min=1),
    ] = 3,
    refine: Annotated[
        Path | None, option("RESULT", "Refine this result folder: FILE|DIR... are second messages, of fedica refine.")
    ] = None,
    report: Annotated[
        bool, Option("--report", help="Write report.html into the result folder: one page for people.")
    ] = False,
    out: Output,
) -> None:
    """Put all contributions together into one mixing matrix.

    A file that cannot be used is left out and named. Writes a folder: aggregate.safetensors goes back to the clients,
    everything else is the coordinator's. Ends with the clients that are not to be trusted, why, and a judgement in
    words. With --fail-on, the exit code is 3 if the result is written but not to be relied on: a client has that
    verdict, or the judgement warns.
    """
    from fedica.report import headline
    from fedica.workflow import combine, refine_result

    both: dict[str, Any] = {
        "trust_keys": trust_keys,
        "study": study,
        "require_all": require_all,
        "min_clients": min_clients,
    }
    first: dict[str, Any] = {
        "n_components": components,
        "method": method,
        "affinity": affinity,
        "weights": weights,
        "replication": replication,
        "random_state": random_state,
        "exclude": exclude or (),
        "like": like,
        "min_support": min_support,
    }
    with out:
        if refine is None:
            combined = combine(paths, output, **first, **both, progress=out.progress)
        else:
            _check_unused(first)
            combined = refine_result(refine, paths, output, **both, progress=out.progress)
            min_support = combined.aggregate.options.get("min_support", min_support)
        if report:
            from fedica.report import write_report

            write_report(output, command=shlex.join(["fedica", *sys.argv[1:]]))
        told = headline(combined.aggregate)
    out.notes(combined.notes)
    if out.result(_fields(combined, min_support, told)):
        _print(out, combined, min_support, told)
    if fail_on is not None:
        _fail(combined.aggregate, fail_on, told)


def _fail(result: Aggregate, fail_on: FailOn, told: Headline) -> None:
    """End with the exit code of a result that is written and not to be relied on, if it is one."""
    from fedica.workflow.combine import FAIL_ON
    from fedica.workflow.gates import doubted_clients

    why = doubted_clients(result, FAIL_ON[fail_on]) or told.warning
    if why:
        echo(f"Not to be relied on: {show_text(why, MAX_SENTENCE)}", err=True)
        raise Exit(UNRELIABLE)


def _check_unused(first: dict[str, Any]) -> None:
    """Refuse options that decide on a first answer, and would do nothing to a second one."""
    from fedica.errors import OptionError
    from fedica.workflow import combine

    defaults = signature(combine).parameters
    given = [name for name, value in first.items() if value != defaults[name].default]
    if given:
        raise OptionError(
            f"--{given[0].removeprefix('n_').replace('_', '-')} decides on the first answer; with --refine it would do "
            "nothing. Leave it out."
        )


def _fields(combined: Combined, min_support: int, told: Headline) -> dict[str, Any]:
    from fedica.exchange import published, summarise

    result = combined.aggregate
    return {
        **summarise(result, combined.provenance),
        "n_withheld": int((~published(result, min_support)).sum()),
        "path": combined.path,
        "change": _change_fields(combined),
        "headline": str(told),
        "warning": told.warning,
        "notes": list(combined.notes),
    }


def _change_fields(combined: Combined) -> dict[str, Any] | None:
    change = combined.change
    if change is None:
        return None
    return {
        "against": combined.against,
        "places": [None if place < 0 else int(place) for place in change.places],
        "angles": [None if place < 0 else float(a) for place, a in zip(change.places, change.angles, strict=True)],
        "gone": list(change.gone),
        "joined": list(combined.joined),
        "left": list(combined.left),
    }


def _print(out: Output, combined: Combined, min_support: int, told: Headline) -> None:
    from fedica.exchange import published

    result = combined.aggregate
    d, r = result.mixing.shape
    what = f"{counted(r, 'component')} of {counted(d, 'feature')}"
    out.text(f"{what} from {counted(len(result.clients), 'client')}, by {result.method}.")
    degenerate, goes = set(result.degenerate.tolist()), published(result, min_support)
    remarks = [("its atoms cancel" if a in degenerate else "") if goes[a] else "withheld" for a in range(r)]
    rows = [[str(a), str(result.support[a]), f"{result.spread[a]:.2f}", remarks[a]] for a in range(r)]
    out.table(["component", "clients", "spread in degrees", "<"], rows)
    out.lines(*_change_lines(combined), *_refinement_lines(result))
    if result.rejected:
        out.table(["left out", "<why"], [[x.client, x.reason] for x in result.rejected])
    _print_doubted(out, result, told)
    if goes.any():
        out.lines(f"{combined.path}: send aggregate.safetensors back to the clients, keep the rest.")
    else:
        out.lines(f"{combined.path}: nothing in it may go to the clients; keep it.")


def _refinement_lines(result: Aggregate) -> list[str]:
    """Return what became of second messages; nothing if there are none."""
    refinement = result.refinement
    if refinement is None:
        return []
    left_out = [f"  left out: {list_names(refinement.left_out)}"] if refinement.left_out else []
    taken = "the components were turned" if refinement.taken else "the answer before stands"
    return [f"Message {refinement.round} of each client: {taken}. {refinement.reason}", *left_out]


def _print_doubted(out: Output, result: Aggregate, told: Headline) -> None:
    """Print the clients in doubt, outlying ones first, and why; then the headline of the report."""
    from fedica.records import IN_DOUBT

    doubted = sorted(
        (row for row in result.trust or () if row.verdict in IN_DOUBT), key=lambda row: (row.verdict, -row.angle)
    )
    if doubted:
        out.table(["client", "<verdict", "<why"], [[row.client, row.verdict, row.reason] for row in doubted])
    out.text(f"{told} {told.warning}".rstrip())


def _change_lines(combined: Combined) -> list[str]:
    """Return what changed against an earlier aggregate; nothing if there is none."""
    change = combined.change
    if change is None:
        return []
    same = [k for k, place in enumerate(change.places) if place >= 0]
    most = max((float(change.angles[k]) for k in same), default=0.0)
    details = {
        "component": [f"{change.places[k]} is now {k}" for k in same if change.places[k] != k],
        "new: component": change.new,
        "gone, by the earlier numbers: component": change.gone,
        "clients that joined:": combined.joined,
        "clients that left:": combined.left,
    }
    return [
        f"Against {combined.against}:",
        f"  {len(same)} components are the same, turned by {most:.2f} degrees at most",
        *(f"  {what} {', '.join(map(str, which))}" for what, which in details.items() if which),
    ]

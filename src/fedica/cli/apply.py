"""``fedica apply``: back at the client, better sources with the global matrix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedica.cli.options import DATA, with_read_options
from fedica.cli.output import Output, with_output
from fedica.read_options import ReadOptions

if TYPE_CHECKING:
    from fedica.workflow import Applied


@with_output
@with_read_options
def apply(
    *,
    aggregate: Annotated[
        Path, typer.Argument(metavar="AGGREGATE", help="aggregate.safetensors from the coordinator, or its folder.")
    ],
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA)],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the sources: .npy or .csv.")
    ],
    study: Annotated[Path | None, typer.Option(metavar="FILE", help="The study, if the aggregate is of one.")] = None,
    components: Annotated[
        int | None, typer.Option(min=1, metavar="R_K", help="Components that this client has, if fewer than all.")
    ] = None,
    solver: Annotated[str, typer.Option(metavar="NAME", help="Solver of its own fit, to compare with.")] = "auto",
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Drop rows with missing values.")] = False,
    options: ReadOptions,
    random_state: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of its own fit and of the split.")] = 0,
    out: Output,
) -> None:
    """Recover this client's sources with the global mixing matrix.

    Says whether they are more independent than those of the client's own fit, by the mean squared fourth-order
    cross-cumulant on samples that its own fit did not see. Nothing leaves the client.
    """
    from fedica.workflow import apply_global

    with out:
        applied = apply_global(
            aggregate,
            data,
            output,
            study=study,
            n_components=components,
            solver=solver,
            drop_missing=drop_missing,
            random_state=random_state,
            options=options,
            progress=out.progress,
        )
    _show(out, applied)


def _show(out: Output, applied: Applied) -> None:
    out.notes(applied.notes)
    n_samples, n_sources = applied.recovered.sources.shape
    labels = applied.recovered.labels.tolist()
    fields = {
        "path": applied.path,
        "n_samples": n_samples,
        "components": labels,
        "own_dependence": applied.own_dependence,
        "global_dependence": applied.global_dependence,
        "more_independent": applied.more_independent,
        "notes": list(applied.notes),
    }
    if out.result(fields):
        out.text(f"{n_sources} sources of {n_samples} samples, components {', '.join(map(str, labels))}.")
        if applied.more_independent is not None:
            out.text(
                "On samples that its own fit did not see they are "
                f"{'more' if applied.more_independent else 'not more'} independent than those of its own fit: "
                f"mean squared cross-cumulant {applied.global_dependence:.4g} against {applied.own_dependence:.4g}."
            )
        out.lines(applied.path)

"""``fedica apply``: back at the client, better sources with the global matrix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from fedica.cli.options import DATA, option, with_read_options
from fedica.cli.output import Output, with_output
from fedica.formats import ReadOptions
from fedica.text import counted

if TYPE_CHECKING:
    from fedica.workflow import Applied


@with_output
@with_read_options
def apply(
    *,
    aggregate: Annotated[
        Path, Argument(metavar="AGGREGATE", help="aggregate.safetensors from the coordinator, or its folder.")
    ],
    data: Annotated[Path, Argument(metavar="DATA", help=DATA)],
    output: Annotated[Path, option("FILE", "Where to write the sources: .npy or .csv.", "--output", "-o")],
    maps: Annotated[
        Path | None,
        option(
            "FILE",
            "Where to write this client's own maps of spatial components, by dual regression: .nii.gz, .nii (with "
            "--mask) or .csv; their z-values go to FILE_Z beside it.",
        ),
    ] = None,
    study: Annotated[Path | None, option("FILE", "The study, if the aggregate is of one.")] = None,
    components: Annotated[
        int | None, option("R_K", "Components that this client has, if fewer than all.", min=1)
    ] = None,
    solver: Annotated[str, option("NAME", "Solver of its own fit, to compare with.")] = "auto",
    drop_missing: Annotated[bool, Option("--drop-missing", help="Drop rows with missing values.")] = False,
    options: ReadOptions,
    random_state: Annotated[int, option("N", "Seed of its own fit and of the split.", min=0)] = 0,
    out: Output,
) -> None:
    """Recover this client's sources with the global mixing matrix.

    Says whether they are more independent than those of the client's own fit, by the mean squared fourth-order
    cross-cumulant on samples that its own fit did not see. Of spatial components (maps over features) the sources are
    the client's own time courses, and --maps writes its own maps. Nothing leaves the client.
    """
    from fedica.workflow import apply_global

    with out:
        applied = apply_global(
            aggregate,
            data,
            output,
            maps=maps,
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
        "maps": list(applied.map_paths),
        "notes": list(applied.notes),
    }
    if out.result(fields):
        numbers = f"component{'' if n_sources == 1 else 's'} {', '.join(map(str, labels))}"
        out.text(f"{counted(n_sources, 'source')} of {n_samples} samples, {numbers}.")
        if applied.more_independent is not None:
            out.text(
                "On samples that its own fit did not see they are "
                f"{'more' if applied.more_independent else 'not more'} independent than those of its own fit: "
                f"mean squared cross-cumulant {applied.global_dependence:.4g} against {applied.own_dependence:.4g}."
            )
        out.lines(applied.path, *applied.map_paths)

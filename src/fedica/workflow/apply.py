"""Back at the client: its sources by the global matrix, and whether they are better than those of its own fit."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedica.arrays import Array, PathLike, RandomState, check_choice, generator
from fedica.errors import DataError, FedicaError, InputError, OptionError
from fedica.exchange import PublicAggregate, as_public, as_study
from fedica.exchange.files import PRIVATE, check_output, write_atomic
from fedica.exchange.inputs import files_of
from fedica.exchange.tables import cell_text
from fedica.local import DualRegression, Recovered, cross_cumulants, dual_regression, recover
from fedica.progress import counting
from fedica.readers import ReadOptions, Table, read_data
from fedica.readers.grids import check_grid
from fedica.readers.reference import restrict_to_channels
from fedica.records import Study
from fedica.workflow.agreed import scaled, units_of
from fedica.workflow.contribute import Progress
from fedica.workflow.fit import fit_client
from fedica.workflow.own_maps import check_maps, write_own_maps
from fedica.workflow.preparation import study_options

_ROWS_AT_ONCE = 10_000
_ENOUGH_PER_R2 = 10
"""With fewer than 10 r^2 unseen samples the errors of fourth-order moments can hide the difference."""

_NOT_COMPARED = "sources that are maps over features have no unseen samples to be judged on."


@dataclass(frozen=True, eq=False)
class Applied:
    """Sources recovered with the global matrix.

    Parameters
    ----------
    recovered : Recovered
        The sources, and which global components they are.
    own_dependence, global_dependence : float, optional
        Mean squared fourth-order cross-cumulant of the sources by the client's own fit and by the global matrix, on
        samples that the own fit did not see: the smaller, the more independent. ``None`` if they cannot be compared.
    notes : tuple of str
        What was noticed.
    path : str, optional
        Where the sources were written.
    own : DualRegression, optional
        The client's own maps and their z-values, if they were asked for.
    map_paths : tuple of str
        Where its own maps and their z-values were written.
    """

    recovered: Recovered
    own_dependence: float | None
    global_dependence: float | None
    notes: tuple[str, ...]
    path: str | None
    own: DualRegression | None = None
    map_paths: tuple[str, ...] = ()

    @property
    def more_independent(self) -> bool | None:
        """Whether the global matrix gives more independent sources than the client's own fit."""
        if self.own_dependence is None or self.global_dependence is None:
            return None
        return self.global_dependence < self.own_dependence


def apply_global(
    aggregate: PublicAggregate | PathLike,
    data: PathLike,
    output: PathLike | None = None,
    *,
    maps: PathLike | None = None,
    study: Study | PathLike | None = None,
    n_components: int | None = None,
    solver: str = "auto",
    drop_missing: bool = False,
    random_state: RandomState = 0,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    progress: Progress | None = None,
) -> Applied:
    """Recover a client's sources with the global mixing matrix, and compare with its own fit.

    Of maps over features (spatial ICA) the sources are the client's own time courses: the first step of a dual
    regression, whose second gives its own maps.

    Parameters
    ----------
    aggregate : PublicAggregate or path-like
        What came back from the coordinator: aggregate.safetensors, or the folder it is in.
    data : path-like
        The client's data.
    output : path-like, optional
        Where to write the sources, one column per component: .npy, or .csv with the labels of the rows, if the data
        has them.
    maps : path-like, optional
        Where to write the client's own maps of the group's components, for spatial ICA: .nii or .nii.gz (with the mask
        of ``options``), or .csv. Their z-values are written beside them: ``own_Z.nii.gz`` for ``own.nii.gz``.
    study : Study or path-like, optional
        The study, if there is one: the data is scaled as it says.
    n_components : int, optional
        How many components this client has, if fewer than there are: only those that its own fit matches are used.
    solver : str
        Solver of its own fit, as in `LocalICA`.
    drop_missing : bool
        Whether rows with missing values are dropped, rather than refused.
    random_state : int, RandomState, Generator or None
        Seed of its own fit, and of the split of the samples.
    options : ReadOptions
        What only some formats need to be told; the same as when the client contributed.
    progress : callable, optional
        Called with a short text at each step.

    Returns
    -------
    Applied
        The sources, and how independent they are.
    """
    tell = progress or (lambda text: None)
    public, agreed = as_public(aggregate), as_study(study)
    map_paths = () if maps is None else check_maps(maps, public.terms.independence, options)
    if output is not None:
        check_choice(Path(output).suffix, "the suffix of the output", WRITERS)
    for path in (*map_paths, *([] if output is None else [output])):
        check_output(path, [*files_of(aggregate), data, study, options.mask])
    check_study(public, agreed)
    if n_components is not None and not 1 <= n_components <= public.n_components:
        raise OptionError(f"the aggregate has {public.n_components} components; {n_components} were asked for.")

    tell(f"reading {os.fspath(data)}")
    table, X, mixing = read_for(public, data, agreed, drop_missing=drop_missing, options=options)
    settings: dict[str, Any] = {
        "solver": solver,
        "independence": public.terms.independence or "samples",
        "mixing": public.terms.mixing or "general",
        "random_state": generator(random_state),
    }
    applied = _apply(X, mixing, n_components, settings, table, tell)
    if map_paths:
        tell("regressing on its own time courses")
        own = replace(dual_regression(X, applied.recovered.mixing), labels=applied.recovered.labels)
        write_own_maps(own, table, map_paths, options)
        applied = replace(applied, own=own)
    if output is not None:
        tell(f"writing {os.fspath(output)}")
        write_atomic(output, WRITERS[Path(output).suffix](applied.recovered, table.labels), mode=PRIVATE)
    return replace(
        applied,
        notes=(*public.withheld, *table.notes, *applied.notes),
        path=None if output is None else os.fspath(output),
        map_paths=tuple(map(str, map_paths)),
    )


def _apply(
    X: Array, mixing: Array, n_components: int | None, settings: dict[str, Any], table: Table, tell: Progress
) -> Applied:
    """Recover the sources; compare them with those of its own fit, where they can be compared."""
    if settings["independence"] == "features" and n_components is None:  # nothing to compare or choose by a fit
        return Applied(recover(X, mixing), None, None, (_NOT_COMPARED,), None)
    tell("fitting ICA to its own samples, to compare")
    r_own = min(n_components or mixing.shape[1], X.shape[1])
    local, fit_notes = fit_client(X, r_own, at_most=n_components is None, features=table.features, **settings)
    recovered = recover(X, mixing, atoms=local.atoms_)  # where it has fewer atoms: the components that they match
    own, together, compare_notes = _compare(X, recovered, local.atoms_.shape[1], settings, settings["random_state"])
    return Applied(recovered, own, together, (*fit_notes, *compare_notes), None)


def read_for(
    public: PublicAggregate, data: PathLike, study: Study | None, *, drop_missing: bool, options: ReadOptions
) -> tuple[Table, Array, Array]:
    """Read a client's data for a global matrix: the table, its values as the study scales them, the matrix on them."""
    features = public.terms.features or (study.features if study else None)
    table = read_data(
        data,
        columns=features,
        lacking_ok=True,
        drop_missing=drop_missing,
        units=units_of(study),
        options=study_options(options, study, [data]),
    )
    grid = public.terms.grid or (study.grid if study else None)
    check_grid(table.extra.get("grid"), grid, table.source, "the aggregate")
    return table, np.asarray(scaled(table, study), dtype=np.float64), _mixing_for(table, public, features)


def _mixing_for(table: Table, public: PublicAggregate, features: Sequence[str] | None) -> Array:
    """Return the global matrix on the features that this client has; degenerate components are zero."""
    mixing = np.where(public.degenerate, 0.0, public.mixing)
    if features is None or table.features is None or len(table.features) == len(features):
        return mixing
    rows = {name: k for k, name in enumerate(features)}
    average = table.extra.get("reference") == "average"
    mixing = restrict_to_channels(mixing, [rows[name] for name in table.features], average=average)
    if mixing.shape[0] < mixing.shape[1]:
        raise DataError(f"{table.source}: {mixing.shape[0]} features cannot tell {mixing.shape[1]} components apart.")
    return mixing


def _compare(
    X: Array, recovered: Recovered, r: int, settings: dict[str, Any], rng: np.random.Generator
) -> tuple[float | None, float | None, list[str]]:
    """Fit one half of the samples, judge on the other, and the other way round; means for fit and global matrix."""
    if settings["independence"] == "features":
        return None, None, [_NOT_COMPARED]
    if recovered.labels.size < 2 or r < 2:
        return None, None, ["one source alone cannot be dependent on others."]
    order = rng.permutation(X.shape[0])
    halves = np.array_split(order, 2)
    try:
        pairs = []
        for seen, unseen in (halves, halves[::-1]):
            own = fit_client(X[np.sort(seen)], r, at_most=False, **settings)[0].components_
            pairs.append((cross_cumulants(X[unseen] @ own.T), cross_cumulants(X[unseen] @ recovered.components.T)))
    except FedicaError as error:
        return None, None, [f"its own fit to half of the samples failed, so nothing can be compared: {error}"]
    own_mean, global_mean = np.mean(pairs, axis=0)
    few = [f"{halves[1].size} unseen samples are few to judge the independence of {r} sources by: take it as a hint."]
    return float(own_mean), float(global_mean), few if halves[1].size < _ENOUGH_PER_R2 * r**2 else []


def check_study(public: PublicAggregate, study: Study | None) -> None:
    """Refuse an aggregate of another study, or one whose study is not given."""
    if public.terms.study is not None and study is None:
        raise InputError(
            f"the aggregate belongs to study {public.terms.study!r}, which says how data is prepared and scaled. Give "
            "the study's file with --study."
        )
    if study is not None and public.terms.study not in (None, study.id):
        raise InputError(f"the aggregate belongs to study {public.terms.study!r}; {study.id!r} was given.")


def _npy(recovered: Recovered, labels: Sequence[str] | None) -> Iterator[bytes | memoryview]:
    head = io.BytesIO()
    sources = np.ascontiguousarray(recovered.sources)
    header: dict[str, Any] = np.lib.format.header_data_from_array_1_0(sources)
    np.lib.format.write_array_header_1_0(head, header)
    yield head.getvalue()
    yield sources.reshape(-1).view(np.uint8).data


def _csv(recovered: Recovered, labels: Sequence[str] | None) -> Iterator[bytes | memoryview]:
    """Write one row per sample, with its label where the data has labels."""
    columns = [f"component_{a}" for a in recovered.labels]
    yield (",".join(columns if labels is None else ["row", *columns]) + "\n").encode()
    sources = recovered.sources
    starts = range(0, sources.shape[0], _ROWS_AT_ONCE)
    for start in counting(starts, len(starts)):
        rows = [",".join(map(repr, row)) for row in sources[start : start + _ROWS_AT_ONCE].tolist()]
        if labels is not None:
            rows = [f"{_quoted(label)},{row}" for label, row in zip(labels[start:], rows, strict=False)]
        yield "".join(row + "\n" for row in rows).encode()


def _quoted(label: str) -> str:
    return '"' + cell_text(label).replace('"', '""') + '"'


WRITERS = {".npy": _npy, ".csv": _csv}

"""A client's side: from a file of data to the one small file that leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedica.arrays import Array, PathLike, RandomState
from fedica.errors import DataError, OptionError
from fedica.exchange import SigningKey, as_signing_key, as_study, contribution_to_bytes
from fedica.exchange.contributions import CONTRIBUTION, next_serial
from fedica.exchange.files import check_output, write_atomic
from fedica.exchange.signatures import exposed_key_note
from fedica.formats import READERS
from fedica.local.strengths import n_maps_to_send
from fedica.readers import ReadOptions, Table, bids_recordings, read_files, suffix_of
from fedica.readers.grids import check_grid
from fedica.readers.select import Keep
from fedica.readers.sheet import Passband
from fedica.readers.voxels import SUFFIXES as IMAGES
from fedica.records import Contribution, Study
from fedica.server.trust import SAMPLES_NEEDED
from fedica.text import counted, list_names
from fedica.workflow.agreed import (
    Wanted,
    check_enough_samples,
    count_persons,
    declared_persons,
    declared_samples,
    scaled,
    units_of,
    wanted_of,
)
from fedica.workflow.fit import doubt_note, fit_client
from fedica.workflow.fitted import is_fitted, read_fitted
from fedica.workflow.inspect import Field, fields_of
from fedica.workflow.preparation import declared_preparation, found_preparation, narrower_notes, study_options
from fedica.workflow.scales import dominant_note
from fedica.workflow.study import identifier_notes

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Contributed:
    """What a client sends, and what was noticed on the way.

    Parameters
    ----------
    contribution : Contribution
        The record.
    data : bytes
        The bytes that leave.
    path : str, optional
        Where they were written; ``None`` if they were not.
    leaves : tuple of Field
        Every field that leaves.
    tells : tuple of str
        What can be computed from fields that leave, beyond directions; one line each.
    stays : tuple of str
        What does not leave, one line each.
    notes : tuple of str
        What was noticed.
    """

    contribution: Contribution
    data: bytes
    path: str | None
    leaves: tuple[Field, ...]
    tells: tuple[str, ...]
    stays: tuple[str, ...]
    notes: tuple[str, ...]


def contribute(
    data: PathLike | Sequence[PathLike],
    output: PathLike | None = None,
    *,
    client: str | None = None,
    study: Study | PathLike | None = None,
    n_components: int | None = None,
    solver: str = "auto",
    independence: str | None = None,
    mixing: str | None = None,
    features: Sequence[str] | None = None,
    bids: bool = False,
    drop_missing: bool = False,
    min_samples: int | None = None,
    strengths: bool | None = None,
    float32: bool = False,
    key: SigningKey | PathLike | None = None,
    serial: int | None = None,
    random_state: RandomState = 0,
    keep: Keep | None = None,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    write: bool = True,
    progress: Progress | None = None,
    show_names: Callable[[Sequence[str]], None] | None = None,
) -> Contributed:
    """Fit a client's data and write its contribution.

    Parameters
    ----------
    data : path-like, or sequence of path-like
        The data, in any format of `fedica.readers`; of several files with the same features, the rows are joined. Or
        one decomposition of MNE, ``-ica.fif``, which is sent as it was fitted.
    output : path-like, optional
        The file to write; ``None``: nothing is written.
    client : str, optional
        Name of the client; by default whose key it is, or the name of the output file.
    study : Study or path-like, optional
        What the clients agreed on. What does not fit it is refused.
    n_components : int, optional
        Components to fit: by default the study's, or else the rank of the data; half of it, rounded up, for maps whose
        spans are pooled: independent over features, with strengths. Fewer than the study's are allowed.
    solver : str
        As in `LocalICA`.
    independence, mixing : str, optional
        As in `LocalICA`; by default the study's.
    features : sequence of str, optional
        Which columns, in which order; by default the study's features. With a study: those of its features that this
        client has.
    bids : bool
        Whether ``data`` are folders of BIDS, whose recordings are joined and whose subjects are counted.
    drop_missing : bool
        Whether rows with missing values are dropped, rather than refused.
    min_samples : int, optional
        Refuse fewer samples; the study's number holds too.
    strengths : bool, optional
        Whether the strengths of the atoms go along, for ``method="group"``; by default as the study says, or not.
    float32 : bool
        Whether the atoms are sent in single precision: half the size.
    key : SigningKey or path-like, optional
        The client's private key, to sign with.
    serial : int, optional
        Number of this message among those of the same client, the highest of which counts. By default none for the
        first; one more than the file that is replaced has, unless the message is the same.
    random_state : int, RandomState, Generator or None
        Seed of the fit.
    keep : callable, optional
        Asked about columns that look like identifiers or dates; see `read_data`.
    options : ReadOptions
        What only some formats need to be told: filters, channel types, a mask.
    write : bool
        Whether to write the file; ``False`` shows what would be written.
    progress : callable, optional
        Called with a short text at each step.
    show_names : callable, optional
        Called with the names of the features that leave, before anything is written, unless a study fixed them.

    Returns
    -------
    Contributed
        What leaves, what stays, and what was noticed.
    """
    tell = progress or (lambda text: None)
    files, subjects = _files(data, bids=bids)
    agreed, signing = as_study(study), as_signing_key(key)
    name = client_name(client, signing, output)
    wanted = wanted_of(features, agreed, n_components, independence, mixing, strengths)
    options = study_options(options, agreed, files)
    prepared, prepared_notes = declared_preparation(files, options, agreed)
    if output is not None:
        check_output(output, [*files, study, key, options.mask, options.rename])
    if is_fitted(files):
        made = _from_decomposition(files[0], name, agreed, wanted, options)
    else:
        tell(f"reading {', '.join(map(str, files))}")
        table = read_files(
            files,
            columns=wanted.columns,
            drop_missing=drop_missing,
            keep=keep,
            units=units_of(agreed),
            options=options,
        )
        table = count_persons(table, subjects)
        check_enough_samples(table, min_samples, agreed)
        check_grid(table.extra.get("grid"), agreed.grid if agreed else None, table.source, "the study")
        tell(f"fitting ICA to {table.values.shape[0]} samples of {table.values.shape[1]} features")
        made = _from_table(
            table, name, agreed, wanted, at_most=n_components is None, solver=solver, random_state=random_state
        )
    if agreed is None or agreed.preprocessing is None:
        prepared = found_preparation(files, options, made.passband)
    contribution = replace(made.contribution, serial=serial, preprocessing=prepared)
    if serial is None and output is not None:
        contribution = replace(contribution, serial=next_serial(contribution, output, float32=float32))
    key_notes = exposed_key_note(key) if isinstance(key, str | os.PathLike) else ()
    prepared_notes += narrower_notes(made.passband, options, agreed)
    notes = (*key_notes, *_study_notes(agreed), *prepared_notes, *made.notes)
    sent = contribution_to_bytes(contribution, key=signing, float32=float32)
    if show_names is not None and agreed is None and contribution.features is not None:
        show_names(contribution.features)
    path = _write(sent, output, tell) if write else None
    leaves = fields_of(sent, CONTRIBUTION, name)
    return Contributed(contribution, sent, path, leaves, _tells(contribution), made.stays, notes)


@dataclass(frozen=True, eq=False)
class _Made:
    """A contribution before it is numbered, what was noticed, what stays, and of a recording its passband."""

    contribution: Contribution
    notes: tuple[str, ...]
    stays: tuple[str, ...]
    passband: Passband | None = None


def _files(data: PathLike | Sequence[PathLike], *, bids: bool) -> tuple[list[PathLike], frozenset[str] | None]:
    """Return the files of a client, and whose they are if that is known: BIDS tells."""
    given: list[PathLike] = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not bids:
        return given, None
    found, subjects = bids_recordings(given)
    return list(found), subjects


def _from_table(
    table: Table,
    name: str,
    study: Study | None,
    wanted: Wanted,
    *,
    at_most: bool,
    solver: str,
    random_state: RandomState,
) -> _Made:
    """Fit ICA to data; ``at_most``: the number of components is the study's, and the data may support fewer."""
    X = scaled(table, study)
    pooled = wanted.n_components is None and wanted.strengths and wanted.independence == "features"
    local, fit_notes = fit_client(
        X,
        n_maps_to_send(X) if pooled else wanted.n_components,
        at_most=at_most,
        features=table.features,
        solver=solver,
        independence=wanted.independence,
        mixing=wanted.mixing,
        random_state=random_state,
    )
    fields = {"study": study.id if study else None, **_reader_fields(table, study)}
    fields["persons"] = declared_persons(table, study)
    contribution = local.contribution(name, features=table.features, strengths=wanted.strengths, **fields)
    contribution = replace(contribution, n_samples=declared_samples(table.values.shape[0], study))
    notes = (*table.notes, *fit_notes, *doubt_note(local, table.features), *_model_notes(table, X, contribution))
    return _Made(contribution, notes, _stays(table, contribution), table.passband)


def _from_decomposition(path: PathLike, name: str, study: Study | None, wanted: Wanted, options: ReadOptions) -> _Made:
    """Take the maps of a decomposition that was fitted before."""
    if wanted.independence != "samples" or wanted.mixing != "general" or wanted.strengths:
        raise OptionError(f"{path}: a decomposition of MNE is over samples, of a general mixing, without strengths.")
    if study is not None and study.min_persons is not None and study.min_persons > 1:
        raise DataError(f"{path}: study {study.id!r} asks for {study.min_persons} persons; a decomposition is of one.")
    contribution = read_fitted(path, name, study, wanted.n_components, options)
    n_samples = contribution.n_samples
    declared = None if n_samples is None else declared_samples(n_samples, study)
    stays = ("the recording that it was fitted to", f"the name and place of the file {Path(path).name!r}")
    note = f"{counted(contribution.n_atoms, 'component of a decomposition', 'were')} taken as they are."
    return _Made(replace(contribution, n_samples=declared, persons=declared_samples(1, study)), (note,), stays)


def _write(sent: bytes, output: PathLike | None, tell: Progress) -> str | None:
    """Write what leaves, if there is a file to write; return its path."""
    if output is None:
        return None
    path = os.fspath(output)
    tell(f"writing {path}")
    write_atomic(path, [sent])
    return path


def _model_notes(table: Table, X: Array, contribution: Contribution) -> list[str]:
    """Return notes on data that is small, or unusual, for what the components are independent over."""
    over = contribution.independence or "samples"
    n_seen = table.values.shape[over == "features"]
    n_enough = int(SAMPLES_NEEDED) * contribution.n_atoms**2  # of maps over features, features are counted
    notes = [*dominant_note(X, table.features)]
    if n_seen < n_enough:
        notes.append(
            f"{n_seen} {over} are few for {counted(contribution.n_atoms, 'component')}: the atoms may be far off, "
            f"which the server will notice; {n_enough} are enough."
        )
    n_rows, n_columns = table.values.shape
    suffix = suffix_of(table.source)
    if over == "samples" and table.features is None and n_rows < n_columns and "transpose" in READERS[suffix].uses:
        notes.append(
            f"the {n_rows} rows were read as samples, the {n_columns} columns as features. If it is the other way "
            "round, as in arrays of channels by times, give --transpose."
        )
    if over == "samples" and suffix in IMAGES:
        notes.append(
            "the components are independent over volumes (temporal ICA). For independent maps, as is usual for images "
            "of the brain, give --independence features."
        )
    return notes


def _study_notes(study: Study | None) -> tuple[str, ...]:
    return () if study is None else identifier_notes(study)


def _reader_fields(table: Table, study: Study | None) -> dict[str, Any]:
    """Return the fields of a contribution that the reader knows; no reference where features are scaled differently."""
    uneven = study is not None and any(len(set(values or ())) > 1 for values in (study.scales, study.units))
    return {name: value for name, value in table.extra.items() if not (uneven and name == "reference")}


def client_name(client: str | None, key: SigningKey | None, output: PathLike | None) -> str:
    """Return the name that was given, or whose key it is, or what the file is called: never the name of the data."""
    if client is not None:
        return client
    if key is not None and key.client is not None:
        return key.client
    if output is None:
        raise OptionError("a client needs a name: give --client NAME.")
    return Path(output).stem


def _tells(contribution: Contribution) -> tuple[str, ...]:
    """Return what can be computed from the fields that leave, one line each."""
    if contribution.gram is None:
        return ()
    return (
        "gram and noise_floor are second-order information: whoever has the file can compute the variances and "
        f"covariances of all features, at {contribution.n_atoms} dimensions, and how strong each atom is",
    )


def _stays(table: Table, contribution: Contribution) -> tuple[str, ...]:
    """Return what does not leave, one line each."""
    n_samples, n_features = table.values.shape
    stays = [
        f"the data: {n_samples} samples of {n_features} features, not one value of it",
        "the recovered sources, and every mean"
        + (", variance and covariance" if contribution.gram is None else "")
        + " of the data",
        f"the names and places of the {table.n_files} files"
        if table.n_files > 1
        else f"the name and place of the file {Path(table.source).name!r}",
    ]
    if contribution.n_samples != n_samples:
        stays.append(f"the exact number of samples, {n_samples}")
    if table.left_out:
        stays.append(f"what was left out of the data: {list_names(list(table.left_out), 8)}")
    return tuple(stays)

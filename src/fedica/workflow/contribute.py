"""A client's side: from a file of data to the one small file that leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedica.arrays import Array, PathLike, RandomState, check_int
from fedica.errors import DataError, InputError, OptionError
from fedica.exchange import SigningKey, as_signing_key, as_study, contribution_to_bytes
from fedica.exchange.contributions import CONTRIBUTION, next_serial
from fedica.exchange.files import check_output, write_atomic
from fedica.exchange.signatures import exposed_key_note
from fedica.readers import ReadOptions, Table, read_files, suffix_of
from fedica.readers.grids import check_grid
from fedica.readers.select import Keep
from fedica.readers.voxels import SUFFIXES as IMAGES
from fedica.records import Contribution, Study
from fedica.server.trust import SAMPLES_NEEDED
from fedica.text import list_names
from fedica.workflow.fit import fit_client
from fedica.workflow.inspect import Field, fields_of
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
    drop_missing: bool = False,
    min_samples: int | None = None,
    strengths: bool | None = None,
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
        The data, in any format of `fedica.readers`; of several files with the same features, the rows are joined.
    output : path-like, optional
        The file to write; ``None``: nothing is written.
    client : str, optional
        Name of the client; by default whose key it is, or the name of the output file.
    study : Study or path-like, optional
        What the clients agreed on. What does not fit it is refused.
    n_components : int, optional
        Components to fit: by default the study's, or else the rank of the data. Fewer than the study's are allowed.
    solver : str
        As in `LocalICA`.
    independence, mixing : str, optional
        As in `LocalICA`; by default the study's.
    features : sequence of str, optional
        Which columns, in which order; by default the study's features. With a study: those of its features that this
        client has.
    drop_missing : bool
        Whether rows with missing values are dropped, rather than refused.
    min_samples : int, optional
        Refuse fewer samples; the study's number holds too.
    strengths : bool, optional
        Whether the strengths of the atoms go along, for ``method="group"``; by default as the study says, or not.
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
    files = [data] if isinstance(data, str | os.PathLike) else list(data)
    agreed, signing = as_study(study), as_signing_key(key)
    name = client_name(client, signing, output)
    columns = _columns(features, agreed)
    n_wanted = _n_components(n_components, agreed, columns)
    independence = _term("independence", independence, agreed, default="samples")
    mixing = _term("mixing", mixing, agreed, default="general")
    with_strengths = _with_strengths(strengths, agreed)
    if output is not None:
        check_output(output, [*files, study, key, options.mask])

    tell(f"reading {', '.join(map(str, files))}")
    table = read_files(
        files, columns=columns, drop_missing=drop_missing, keep=keep, units=units_of(agreed), options=options
    )
    n_samples, n_features = table.values.shape
    check_enough_samples(table, min_samples, agreed)
    check_grid(table.extra.get("grid"), agreed.grid if agreed else None, table.source, "the study")

    tell(f"fitting ICA to {n_samples} samples of {n_features} features")
    X = scaled(table, agreed)
    local, fit_notes = fit_client(
        X,
        n_wanted,
        at_most=n_components is None,  # the study's number; a number that was asked for is kept to
        features=table.features,
        solver=solver,
        independence=independence,
        mixing=mixing,
        random_state=random_state,
    )
    fields = {"study": agreed.id if agreed else None, **_reader_fields(table, agreed)}
    contribution = local.contribution(name, features=table.features, strengths=with_strengths, **fields)
    contribution = replace(contribution, n_samples=declared_samples(n_samples, agreed), serial=serial)
    if serial is None and output is not None:
        contribution = replace(contribution, serial=next_serial(contribution, output))
    key_notes = exposed_key_note(key) if isinstance(key, str | os.PathLike) else ()
    notes = (*key_notes, *_study_notes(agreed), *table.notes, *fit_notes, *_model_notes(table, X, contribution))
    sent = contribution_to_bytes(contribution, key=signing)
    if show_names is not None and agreed is None and table.features is not None:
        show_names(table.features)
    path = _write(sent, output, tell) if write else None
    leaves, stays = fields_of(sent, CONTRIBUTION, name), _stays(table, contribution)
    return Contributed(contribution, sent, path, leaves, _tells(contribution), stays, notes)


def _write(sent: bytes, output: PathLike | None, tell: Progress) -> str | None:
    """Write what leaves, if there is a file to write; return its path."""
    if output is None:
        return None
    path = os.fspath(output)
    tell(f"writing {path}")
    write_atomic(path, [sent])
    return path


def scaled(table: Table, study: Study | None) -> Array:
    """Return the values times the study's common factors, one per feature; (n_samples, n_features)."""
    if study is None or study.scales is None or table.features is None:
        return table.values
    factor = dict(zip(study.features, study.scales, strict=True))
    return np.asarray(table.values * np.array([factor[name] for name in table.features]), dtype=np.float64)


def check_enough_samples(table: Table, min_samples: int | None, study: Study | None) -> None:
    """Refuse data with fewer samples than the client or the study wants."""
    n_samples = table.values.shape[0]
    least = max(2, study.min_samples if study else 2, check_int(min_samples or 2, "min_samples", minimum=2))
    if n_samples < least:
        raise DataError(
            f"{table.source}: expected at least {least} samples, got {n_samples}. A client with fewer does not send."
        )


def _model_notes(table: Table, X: Array, contribution: Contribution) -> list[str]:
    """Return notes on data that is small, or unusual, for what the components are independent over."""
    over = contribution.independence or "samples"
    n_seen = table.values.shape[over == "features"]
    n_enough = int(SAMPLES_NEEDED) * contribution.n_atoms**2  # of maps over features, features are counted
    notes = [*dominant_note(X, table.features)]
    if n_seen < n_enough:
        notes.append(
            f"{n_seen} {over} are few for {contribution.n_atoms} components: the atoms may be far off, which the "
            f"server will notice; {n_enough} are enough."
        )
    if over == "samples" and suffix_of(table.source) in IMAGES:
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


def units_of(study: Study | None) -> dict[str, str] | None:
    """Return the unit of each feature of a study that gives them."""
    return None if study is None or study.units is None else dict(zip(study.features, study.units, strict=True))


def declared_samples(n_samples: int, study: Study | None) -> int | None:
    """Return what a client tells of its number of samples: exactly, to one digit, or nothing."""
    how = "exactly" if study is None else study.declare_samples
    if how == "no":
        return None
    if how == "exactly":
        return n_samples
    digits = len(str(n_samples)) - 1
    return max(1, int(round(n_samples, -digits)))


def client_name(client: str | None, key: SigningKey | None, output: PathLike | None) -> str:
    """Return the name that was given, or whose key it is, or what the file is called: never the name of the data."""
    if client is not None:
        return client
    if key is not None and key.client is not None:
        return key.client
    if output is None:
        raise OptionError("a client needs a name: give --client NAME.")
    return Path(output).stem


def _columns(features: Sequence[str] | None, study: Study | None) -> Sequence[str] | None:
    if features is None or study is None:
        return features if study is None else study.features
    known, had = set(study.features), set(features)
    strange = [name for name in features if name not in known]
    if strange:
        raise InputError(f"study {study.id!r} has no feature {strange[0]!r}; only features of the study can be used.")
    return [name for name in study.features if name in had]  # the study's order holds


def _n_components(n_components: int | None, study: Study | None, columns: Sequence[str] | None) -> int | None:
    if study is None or study.n_components is None:
        return n_components
    if n_components is None:
        return min(study.n_components, len(columns or ()) or study.n_components)
    if n_components > study.n_components:
        raise OptionError(f"study {study.id!r} has {study.n_components} components; {n_components} were asked for.")
    return n_components


def _term(name: str, value: str | None, study: Study | None, *, default: str) -> str:
    """Return a setting that the study decides if there is one, and that must not contradict it."""
    if study is None:
        return value or default
    agreed: str = getattr(study, name)
    if value not in (None, agreed):
        raise OptionError(f"study {study.id!r} has {name} {agreed!r}; {value!r} was asked for.")
    return agreed


def _with_strengths(strengths: bool | None, study: Study | None) -> bool:
    """Return whether strengths are sent: with a study, exactly where it asks for them."""
    if study is None:
        return bool(strengths)
    agreed = study.strengths == "yes"
    if strengths not in (None, agreed):
        raise OptionError(f"study {study.id!r} has strengths {study.strengths or 'no'!r}; the other was asked for.")
    return agreed


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

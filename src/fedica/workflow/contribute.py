"""A client's side: from a file of data to the one small file that leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedica.arrays import RandomState, check_int
from fedica.errors import DataError, InputError, OptionError
from fedica.exchange import SigningKey, contribution_to_bytes, read_signing_key, read_study
from fedica.exchange.contributions import CONTRIBUTION
from fedica.exchange.files import PathLike, write_atomic
from fedica.readers import ReadOptions, Table, read_data, suffix_of
from fedica.readers.select import Keep
from fedica.readers.voxels import SUFFIXES as IMAGES
from fedica.records import Contribution, Study
from fedica.workflow.fit import fit_client
from fedica.workflow.inspect import Field, fields_of, parent_exists

Progress = Callable[[str], None]
FEW_SAMPLES = 20
"""With fewer than so many times r^2 samples the atoms of any local ICA may be far off; the server will say so.

Of maps over features, the features take the place of the samples.
"""


@dataclass(frozen=True, eq=False)
class Contributed:
    """What a client sends, and what was noticed on the way.

    Parameters
    ----------
    contribution : Contribution
        The record.
    data : bytes
        The very bytes that leave.
    path : str, optional
        Where they were written; ``None`` if they were not.
    leaves : tuple of Field
        Every field that leaves.
    stays : tuple of str
        What does not leave, one line each.
    notes : tuple of str
        What was noticed.
    """

    contribution: Contribution
    data: bytes
    path: str | None
    leaves: tuple[Field, ...]
    stays: tuple[str, ...]
    notes: tuple[str, ...]


def contribute(
    data: PathLike,
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
    key: SigningKey | PathLike | None = None,
    random_state: RandomState = 0,
    keep: Keep | None = None,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    write: bool = True,
    progress: Progress | None = None,
) -> Contributed:
    """Fit a client's data and write its contribution.

    Parameters
    ----------
    data : path-like
        The data, in any format of `fedica.readers`.
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
        Fewest samples; the study's number holds too.
    key : SigningKey or path-like, optional
        The client's private key, to sign with.
    random_state : int, RandomState, Generator or None
        Seed of the fit.
    keep : callable, optional
        Asked about columns that look like identifiers or dates; see `read_data`.
    options : ReadOptions
        What only some formats need to be told: filters, channel types, a mask.
    write : bool
        Whether to write the file; ``False`` shows what would be written.
    progress : callable, optional
        Told what is being done.

    Returns
    -------
    Contributed
        What leaves, what stays, and what was noticed.
    """
    tell = progress or (lambda text: None)
    agreed = study if study is None or isinstance(study, Study) else read_study(study)
    signing = key if key is None or isinstance(key, SigningKey) else read_signing_key(key)
    name = _client_name(client, signing, output)
    columns = _columns(features, agreed)
    n_wanted = _components(n_components, agreed, columns)
    over, of_what = _agreed(independence, agreed, "independence"), _agreed(mixing, agreed, "mixing")
    if output is not None:
        parent_exists(output)

    tell(f"reading {os.fspath(data)}")
    table = read_data(
        data, columns=columns, drop_missing=drop_missing, keep=keep, units=units_of(agreed), options=options
    )
    n_samples, n_features = table.values.shape
    least = max(2, agreed.min_samples if agreed else 2, check_int(min_samples or 2, "min_samples", minimum=2))
    if n_samples < least:
        raise DataError(
            f"{table.source}: at least {least} samples are wanted; {n_samples} came. A client with fewer does not send."
        )

    tell(f"fitting ICA to {n_samples} samples of {n_features} features")
    local, noticed = fit_client(
        scaled(table, agreed),
        n_wanted,
        at_most=n_components is None,  # the study's number; a number that was asked for is kept to
        features=table.features,
        solver=solver,
        independence=over,
        mixing=of_what,
        random_state=random_state,
    )
    contribution = local.contribution(
        name, features=table.features, study=agreed.id if agreed else None, **_said_along(table, agreed)
    )
    contribution = replace(contribution, n_samples=declared_samples(n_samples, agreed))
    notes = [*table.notes, *noticed]
    seen, of_these = (n_features, "features") if over == "features" else (n_samples, "samples")
    if seen < FEW_SAMPLES * contribution.n_atoms**2:
        notes.append(
            f"{seen} {of_these} are few for {contribution.n_atoms} components: the atoms may be far off, which the "
            f"server will notice; {FEW_SAMPLES * contribution.n_atoms**2} are enough."
        )

    if over == "samples" and suffix_of(data) in IMAGES:
        notes.append(
            "the components are independent over volumes (temporal ICA). For independent maps, as is usual for images "
            "of the brain, give --independence features."
        )

    sent = contribution_to_bytes(contribution, key=signing)
    path = None
    if output is not None and write:
        tell(f"writing {os.fspath(output)}")
        write_atomic(output, [sent])
        path = os.fspath(output)
    leaves = fields_of(sent, CONTRIBUTION, name)
    return Contributed(contribution, sent, path, leaves, _stays(table, contribution, n_samples), tuple(notes))


def scaled(table: Table, study: Study | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the values times the study's common factors, one a feature; (n_samples, n_features)."""
    if study is None or study.scales is None or table.features is None:
        return table.values
    factor = dict(zip(study.features, study.scales, strict=True))
    return np.asarray(table.values * np.array([factor[name] for name in table.features]), dtype=np.float64)


def _said_along(table: Table, study: Study | None) -> dict[str, Any]:
    """Return the fields of a contribution that the reader knows; scales that differ make a reference untrue."""
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


def _client_name(client: str | None, key: SigningKey | None, output: PathLike | None) -> str:
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


def _components(n_components: int | None, study: Study | None, columns: Sequence[str] | None) -> int | None:
    wanted = study.n_components if study is not None else None
    if n_components is None:
        return None if wanted is None else min(wanted, len(columns or ()) or wanted)
    if wanted is not None and n_components > wanted:
        raise OptionError(
            f"study {study.id if study else ''!r} has {wanted} components; {n_components} were asked for."
        )
    return n_components


def _agreed(value: str | None, study: Study | None, what: str) -> str:
    of_study: str | None = getattr(study, what, None)
    if value is not None and of_study is not None and value != of_study:
        raise OptionError(f"study {study.id if study else ''!r} has {what} {of_study!r}; {value!r} was asked for.")
    return value or of_study or {"independence": "samples", "mixing": "general"}[what]


def _stays(table: Table, contribution: Contribution, n_samples: int) -> tuple[str, ...]:
    """Say what does not leave, one line each."""
    n_features = table.values.shape[1]
    stays = [
        f"the data: {n_samples} samples of {n_features} features, not one value of it",
        "the recovered sources, and every mean, variance and covariance of the data",
        f"the name and place of the file {Path(table.source).name!r}",
    ]
    if contribution.n_samples != n_samples:
        stays.append(f"the exact number of samples, {n_samples}")
    if table.left_out:
        names = list(table.left_out)
        shown = ", ".join(repr(name) for name in names[:8]) + (" ..." if len(names) > 8 else "")
        stays.append(f"what was left out of the data: {shown}")
    return tuple(stays)

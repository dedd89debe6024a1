"""Second messages: a client scores its data at the global matrix; the coordinator refines the result with them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedica.arrays import PathLike
from fedica.errors import InputError, PolicyError
from fedica.exchange import (
    MIN_SUPPORT,
    PublicAggregate,
    SigningKey,
    TrustedKeys,
    as_public,
    as_signing_key,
    as_study,
    as_trusted_keys,
    read_folder,
    read_second_messages,
    scores_to_bytes,
    write_folder,
)
from fedica.exchange.files import check_output, write_atomic
from fedica.exchange.inputs import files_of
from fedica.exchange.scores import SCORES, next_scores_serial
from fedica.exchange.signatures import exposed_key_note
from fedica.local import score_at
from fedica.readers import ReadOptions, Table
from fedica.records import Rejection, Scores, Study
from fedica.server import refine
from fedica.workflow.agreed import check_enough_samples, declared_samples
from fedica.workflow.apply import check_study, read_for
from fedica.workflow.combine import Combined
from fedica.workflow.contribute import Progress, client_name
from fedica.workflow.gates import check_absent, check_complete, check_enough, keep_newest_scores
from fedica.workflow.inspect import Field, fields_of
from fedica.workflow.renumber import Change


@dataclass(frozen=True, eq=False)
class Scored:
    """A client's second message, and what was noticed on the way.

    Parameters
    ----------
    scores : Scores
        The record.
    leaves : tuple of Field
        Every field that leaves.
    tells : tuple of str
        What can be computed from fields that leave; one line each.
    stays : tuple of str
        What does not leave, one line each.
    data : bytes
        The bytes that leave.
    path : str, optional
        Where they were written; ``None`` if they were not.
    notes : tuple of str
        What was noticed.
    """

    scores: Scores
    leaves: tuple[Field, ...]
    tells: tuple[str, ...]
    stays: tuple[str, ...]
    data: bytes
    path: str | None
    notes: tuple[str, ...]


def send_scores(
    aggregate: PublicAggregate | PathLike,
    data: PathLike,
    output: PathLike | None = None,
    *,
    client: str | None = None,
    study: Study | PathLike | None = None,
    components: Sequence[int] | None = None,
    drop_missing: bool = False,
    min_samples: int | None = None,
    key: SigningKey | PathLike | None = None,
    serial: int | None = None,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    write: bool = True,
    progress: Progress | None = None,
) -> Scored:
    """Score a client's data at the global matrix and write its second message.

    Parameters
    ----------
    aggregate : PublicAggregate or path-like
        What came back from the coordinator: aggregate.safetensors, or the folder it is in.
    data : path-like
        The client's data.
    output : path-like, optional
        The file to write; ``None``: nothing is written.
    client : str, optional
        Name of the client, as in its first message; by default whose key it is, or the name of the output file.
    study : Study or path-like, optional
        The study, if there is one: the data is scaled as it says.
    components : sequence of int, optional
        Which components the client has; by default all that vary in its data.
    drop_missing : bool
        Whether rows with missing values are dropped, rather than refused.
    min_samples : int, optional
        Refuse data with fewer samples; the study may ask for more.
    key : SigningKey or path-like, optional
        The client's private key, to sign with.
    serial : int, optional
        Number of this message among those of the client for this aggregate, the highest of which counts. By default
        none for the first; one more than the file that is replaced has, unless the message is the same.
    options : ReadOptions
        What only some formats need to be told; the same as when the client contributed.
    write : bool
        Whether to write the file; ``False`` shows what would be written.
    progress : callable, optional
        Called with a short text at each step.

    Returns
    -------
    Scored
        What leaves, what stays, and what was noticed.
    """
    tell = progress or (lambda text: None)
    agreed, signing = as_study(study), as_signing_key(key)
    name = client_name(client, signing, output)
    if output is not None:
        check_output(output, [*files_of(aggregate), data, study, key, options.mask])
    public = as_public(aggregate)
    check_study(public, agreed)

    tell(f"reading {os.fspath(data)}")
    table, X, mixing = read_for(public, data, agreed, drop_missing=drop_missing, options=options)
    check_enough_samples(table, min_samples, agreed)

    tell(f"scoring {table.values.shape[0]} samples at {public.n_components} components")
    scores = score_at(X, mixing, public, client=name, components=components)
    scores = replace(scores, n_samples=_declared(scores, agreed), serial=serial)
    if serial is None and output is not None:
        scores = replace(scores, serial=next_scores_serial(scores, output))
    sent = scores_to_bytes(scores, key=signing)
    path = None
    if write and output is not None:
        path = os.fspath(output)
        tell(f"writing {path}")
        write_atomic(path, [sent])
    key_notes = exposed_key_note(key) if isinstance(key, str | os.PathLike) else ()
    notes = (*key_notes, *public.withheld, *table.notes)
    return Scored(scores, fields_of(sent, SCORES, name), TELLS, _stays(table, scores), sent, path, notes)


TELLS = (
    "covariance and scale are second-order information: whoever has the file and the aggregate can compute the "
    "variances and covariances of this client's data within the span of the components",
    "products and slopes tell how far from Gaussian, and how dependent, its sources are",
)
"""What can be computed from a second message."""


def _declared(scores: Scores, study: Study | None) -> int:
    """Return the samples that the message tells, as the study allows."""
    n_samples = declared_samples(scores.n_samples, study)
    if n_samples is None:
        raise PolicyError(
            "the study does not let clients tell their number of samples (declare_samples: no), and a second message "
            "is weighed by it. The first answer stands."
        )
    return n_samples


def _stays(table: Table, scores: Scores) -> tuple[str, ...]:
    n_samples, n_features = table.values.shape
    rounded = [f"the exact number of samples, {n_samples}"] if scores.n_samples != n_samples else []
    return (
        f"the data: {n_samples} samples of {n_features} features, not one value of it",
        "the recovered sources, and every mean of the data",
        f"the name and place of the file {Path(table.source).name!r}",
        *rounded,
    )


def refine_result(
    result: PathLike,
    paths: PathLike | Iterable[PathLike],
    output: PathLike | None = None,
    *,
    min_clients: int = 2,
    trust_keys: TrustedKeys | PathLike | None = None,
    study: Study | PathLike | None = None,
    require_all: bool = False,
    failed: Iterable[Rejection] = (),
    progress: Progress | None = None,
) -> Combined:
    """Refine a result with second messages in files and folders, and write a new result folder.

    Parameters
    ----------
    result : path-like
        The result folder whose aggregate the clients scored their data with.
    paths : path-like or iterable of path-like
        Files, and folders of files. One that cannot be used is left out with the reason.
    output : path-like, optional
        The new result folder; ``None``: nothing is written.
    min_clients : int
        Refuse a result in which fewer clients' second messages count.
    trust_keys : TrustedKeys or path-like, optional
        Public keys; messages without a signature that holds under their client's key are left out.
    study : Study or path-like, optional
        The study; it must be that of the result.
    require_all : bool
        Whether to refuse the whole result if a message is refused, or a client with a trusted key sent none.
    failed : iterable of Rejection
        Clients that were asked and sent nothing that could be read; they are listed with those refused here.
    progress : callable, optional
        Called with a short text at each step.

    Returns
    -------
    Combined
        The refined result; ``change`` tells what second messages changed.
    """
    tell = progress or (lambda text: None)
    agreed, trusted = as_study(study), as_trusted_keys(trust_keys)
    paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if output is not None:
        check_output(output, [*paths, trust_keys, study, result], folder=True)
    folder = read_folder(result)
    first = folder.aggregate
    if agreed is not None and first.terms.study not in (None, agreed.id):
        raise InputError(f"the result belongs to study {first.terms.study!r}; {agreed.id!r} was given.")

    tell("reading second messages")
    scores, sources, refused = _read(paths, trusted, first.terms.study)
    refused = [*failed, *refused]
    scores, older = keep_newest_scores(scores, trusted)
    absent = check_absent(trusted, agreed, {one.client for one in scores}, refused, require_all=require_all)
    tell(f"refining with {len(scores)} second messages")
    refined = refine(first, scores, on_bad="reject")
    rejected = [replace(x, source=sources.get(x.client, "")) for x in refined.rejected[len(first.rejected) :]]
    refined = replace(refined, rejected=(*first.rejected, *rejected, *refused))
    check_complete([*rejected, *refused], require_all)
    assert refined.refinement is not None
    check_enough(len(refined.refinement.counted), min_clients, [*rejected, *refused])

    if output is not None:
        tell(f"writing {os.fspath(output)}")
        min_support = first.options.get("min_support", MIN_SUPPORT)
        write_folder(refined, output, provenance=folder.provenance, min_support=min_support)
    return Combined(
        refined,
        provenance=folder.provenance,
        change=Change(np.arange(first.n_components), refined.refinement.turned, ()),
        against=f"the result {os.fspath(result)}",
        notes=(*older, *absent),
        path=None if output is None else os.fspath(output),
    )


def _read(
    paths: Sequence[PathLike], trusted: TrustedKeys | None, study: str | None
) -> tuple[list[Scores], dict[str, str], list[Rejection]]:
    """Return the messages that can be read and are of the study, the file of each client, and what is refused."""
    scores, sources, refused = [], {}, []
    for item in read_second_messages(paths, trusted=trusted):
        if isinstance(item, Rejection):
            refused.append(item)
            continue
        file, one = item
        if study is not None and one.study != study:
            values = {"value": one.study or "", "agreed": study}
            refused.append(Rejection.because(one.client, "other-study", str(file), **values))
        else:
            scores.append(one)
            sources[one.client] = str(file)
    if refused and not scores:
        raise InputError(f"no second message can be used: {len(refused)} were refused. The first: {refused[0].reason}")
    return scores, sources, refused

"""The coordinator's side: from the clients' files to the result folder, failing closed where that is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedica.arrays import Array, check_choice, check_int
from fedica.errors import ContributionError, InputError
from fedica.exchange import (
    Provenance,
    Received,
    TrustedKeys,
    read_aggregate,
    read_folder,
    read_study,
    read_trusted_keys,
    write_folder,
)
from fedica.exchange.files import PathLike
from fedica.records import Aggregate, Rejection, Study
from fedica.server import aggregate as run_aggregate
from fedica.server.missing_features import Filled, fill_features
from fedica.server.renumber import Change, keep_order
from fedica.workflow.contribute import Progress
from fedica.workflow.gates import absences, check_enough, check_verdicts, some, take_in
from fedica.workflow.inspect import parent_exists

FAIL_ON = {"outlying": ("outlying",), "weak": ("outlying", "weak")}
"""What may be refused as a whole: a result with clients of these verdicts."""


@dataclass(frozen=True, eq=False)
class Combined:
    """What the coordinator gets.

    Parameters
    ----------
    aggregate : Aggregate
        The result; ``rejected`` names everything that was left out.
    provenance : tuple of Provenance
        Where the admitted contributions came from.
    change : Change, optional
        What changed against an earlier aggregate, or by withdrawing clients.
    against : str
        What ``change`` compares with, in words.
    joined, left : tuple of str
        Clients that are new since then, and that were there then and are no more; empty if nobody knows.
    notes : tuple of str
        What was noticed.
    path : str, optional
        The result folder, if it was written.
    """

    aggregate: Aggregate
    provenance: tuple[Provenance, ...]
    change: Change | None
    against: str
    joined: tuple[str, ...]
    left: tuple[str, ...]
    notes: tuple[str, ...]
    path: str | None


def combine(
    paths: PathLike | Iterable[PathLike],
    output: PathLike | None = None,
    *,
    n_components: int | None = None,
    method: str = "consensus",
    affinity: str = "auto",
    weights: str | None = None,
    random_state: int = 0,
    exclude: Sequence[str] = (),
    min_clients: int = 2,
    fail_on: str | None = None,
    trust_keys: TrustedKeys | PathLike | None = None,
    study: Study | PathLike | None = None,
    require_all: bool = False,
    like: PathLike | None = None,
    failed: Iterable[Rejection] = (),
    progress: Progress | None = None,
) -> Combined:
    """Aggregate the contributions in files and folders, and write the result folder.

    Parameters
    ----------
    paths : path-like or iterable of path-like
        Files, and folders of files. One that cannot be used is left out with the reason.
    output : path-like, optional
        The result folder; ``None``: nothing is written.
    n_components, method, affinity, weights, random_state
        As in `fedica.aggregate`; the study's number of components holds unless another is given.
    exclude : sequence of str
        Clients to withdraw; ``change`` then tells what the result would have been with them.
    min_clients : int
        Fewest clients that must be left. The default, two, keeps the result from being one client's own atoms.
    fail_on : {"outlying", "weak"}, optional
        Refuse the whole result if a client has this verdict or a worse one.
    trust_keys : TrustedKeys or path-like, optional
        Public keys; contributions without a signature that holds under their client's key are left out.
    study : Study or path-like, optional
        The study; contributions to another one are left out.
    require_all : bool
        Refuse the whole result if anything is left out, or if a client with a trusted key sent nothing.
    like : path-like, optional
        An earlier result folder or aggregate file, whose order and signs of components are kept.
    failed : iterable of Rejection
        Clients that were asked and of which nothing came that could be read; they are named with what is refused here.
    progress : callable, optional
        Told what is being done.

    Returns
    -------
    Combined
        The result, and all that is to be said about it.

    Raises
    ------
    FedicaError
        If the result is refused; then nothing is written.
    """
    tell = progress or (lambda text: None)
    check_int(min_clients, "min_clients", minimum=1)
    cut = () if fail_on is None else FAIL_ON[check_choice(fail_on, "fail_on", FAIL_ON)]
    agreed = study if study is None or isinstance(study, Study) else read_study(study)
    trusted = trust_keys if trust_keys is None or isinstance(trust_keys, TrustedKeys) else read_trusted_keys(trust_keys)
    earlier = None if like is None else _earlier(like)
    if output is not None:
        parent_exists(output)

    tell("reading contributions")
    received, refused = take_in(paths, trusted, agreed)
    rejected = (*failed, *refused)
    present = {item.contribution.client for item in received}
    notes = absences(trusted, agreed, present, [x.client for x in rejected], require_all=require_all)
    unknown = [name for name in exclude if name not in present]
    if unknown:
        raise InputError(
            f"there is no contribution of client {unknown[0]!r} to withdraw; {some(sorted(present))} came."
        )
    kept = _of_clients(received, present - set(exclude))
    check_enough(len({item.contribution.client for item in kept}), min_clients, rejected)
    if require_all and rejected:
        raise ContributionError(
            f"a contribution was refused, and all are required. {rejected[0].reason}", rejected[0].client
        )

    r = n_components if n_components is not None or agreed is None else agreed.n_components

    def run(items: Sequence[Received]) -> tuple[Aggregate, Filled]:
        filled = fill_features(
            [item.contribution for item in items], features=agreed.features if agreed else None, n_components=r
        )
        if not filled.contributions:
            raise ContributionError(filled.rejected[0].reason, filled.rejected[0].client)
        result = run_aggregate(
            filled.contributions,
            r,
            method=method,
            affinity=affinity,
            weights=weights,
            on_bad="reject",
            random_state=random_state,
        )
        return replace(result, rejected=(*filled.rejected, *result.rejected)), filled

    tell(f"aggregating {len(kept)} contributions")
    result, filled = run(kept)
    inner = tuple(_with_source(x, kept) for x in result.rejected)
    result = replace(
        result,
        rejected=(*rejected, *(Rejection.because(name, "withdrawn") for name in exclude), *inner),
        options={**result.options, **_said(exclude, filled)},
    )
    if require_all and inner:
        raise ContributionError(f"a contribution was refused, and all are required. {inner[0].reason}", inner[0].client)
    check_enough(len(result.clients), min_clients, result.rejected)

    change: Change | None = None
    against = ""
    before: tuple[str, ...] = ()
    if earlier is not None:
        result, change = keep_order(result, earlier[0], earlier[1])
        against, before = f"the earlier aggregate {os.fspath(like or '')}", earlier[2]
    elif exclude:
        tell("aggregating once more with the withdrawn clients")
        full = run(received)[0]
        result, change = keep_order(result, full.mixing, full.terms.features)
        against, before = "the aggregate with the withdrawn clients", full.clients
    check_verdicts(result, cut)

    provenance = tuple(item.provenance for item in _of_clients(kept, set(result.clients)))
    if output is not None:
        tell(f"writing {os.fspath(output)}")
        write_folder(result, output, provenance=provenance)
    return Combined(
        result,
        provenance,
        change,
        against,
        tuple(sorted(set(result.clients) - set(before))) if before else (),
        tuple(sorted(set(before) - set(result.clients))),
        (*notes, *_about_features(filled)),
        None if output is None else os.fspath(output),
    )


def _of_clients(items: Sequence[Received], clients: set[str]) -> list[Received]:
    return [item for item in items if item.contribution.client in clients]


def _earlier(path: PathLike) -> tuple[Array, tuple[str, ...] | None, tuple[str, ...]]:
    """Return mixing, features and (from a folder) clients of an earlier result."""
    if Path(path).is_dir():
        folder = read_folder(path)
        return folder.aggregate.mixing, folder.aggregate.terms.features, folder.aggregate.clients
    public = read_aggregate(path)
    return public.mixing, public.terms.features, ()


def _with_source(rejection: Rejection, items: Sequence[Received]) -> Rejection:
    source = next((x.provenance.source for x in items if x.contribution.client == rejection.client), "")
    return replace(rejection, source=source)


def _said(exclude: Sequence[str], filled: Filled) -> dict[str, object]:
    """Return what the result folder tells of how it came about, besides the options of the method."""
    said: dict[str, object] = {}
    if exclude:
        said["n_withdrawn"] = len(exclude)
    if filled.lacking:
        said["n_clients_filled"] = len(filled.lacking)
        said["n_features_filled"] = sum(map(len, filled.lacking.values()))
    if filled.surplus:
        said["n_clients_cut"] = len(filled.surplus)
    return said


def _about_features(filled: Filled) -> tuple[str, ...]:
    notes = [
        f"client {client!r} lacks {len(names)} of {len(filled.features or ())} features ({some(names)}): it counts for "
        "the others, and these entries were filled from the other clients."
        for client, names in filled.lacking.items()
    ]
    notes += [
        f"client {client!r} has {len(names)} features that are not wanted ({some(names)}): they were left out."
        for client, names in filled.surplus.items()
    ]
    return tuple(notes)

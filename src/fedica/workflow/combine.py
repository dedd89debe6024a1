"""The coordinator's side: from the clients' files to the result folder, failing closed where that is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedica.arrays import PathLike, check_choice, check_int
from fedica.errors import InputError
from fedica.exchange import (
    MIN_SUPPORT,
    Provenance,
    PublicAggregate,
    Received,
    TrustedKeys,
    as_study,
    as_trusted_keys,
    details_fit,
    published,
    published_first,
    read_aggregate,
    read_folder,
    write_folder,
)
from fedica.exchange.files import check_output
from fedica.records import Aggregate, Rejection, Study
from fedica.server import aggregate as run_aggregate
from fedica.server.admission import check_not_empty, screen
from fedica.server.methods import settled_method
from fedica.server.missing_features import Filled, fill_features, strengths_to_use
from fedica.text import counted, list_names
from fedica.workflow.contribute import Progress
from fedica.workflow.gates import (
    check_absent,
    check_complete,
    check_enough,
    check_verdicts,
    keep_newest,
    preparation_notes,
    read_inbox,
)
from fedica.workflow.renumber import Change, keep_order

_UNTESTED = ("replication was not tested: that takes six clients or more whose atoms are matched.",)
_WITHOUT_DETAILS = (
    "details.safetensors is not written, because the atoms of all clients are too many for it: there is no report of "
    "this result. Keep the contributions: clients.csv has the fingerprint of each.",
)
FAIL_ON = {"outlying": ("outlying",), "weak": ("outlying", "weak")}
"""For each value of `fail_on`: a result with clients of these verdicts is refused as a whole."""


@dataclass(frozen=True, eq=False)
class Combined:
    """What the coordinator gets.

    Parameters
    ----------
    aggregate : Aggregate
        The result; ``rejected`` names everything that was left out.
    provenance : tuple of Provenance
        Source of each admitted contribution.
    change : Change, optional
        What changed against an earlier aggregate, or by withdrawing clients.
    against : str
        What ``change`` compares with, in words.
    joined, left : tuple of str
        Clients that are new since then, and clients of then that are no longer there; empty if it is not known.
    notes : tuple of str
        What was noticed.
    path : str, optional
        The result folder, if it was written.
    """

    aggregate: Aggregate
    provenance: tuple[Provenance, ...] = ()
    change: Change | None = None
    against: str = ""
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    path: str | None = None


def combine(
    paths: PathLike | Iterable[PathLike],
    output: PathLike | None = None,
    *,
    n_components: int | None = None,
    method: str = "auto",
    affinity: str = "auto",
    weights: str | None = None,
    replication: bool = False,
    random_state: int = 0,
    exclude: Sequence[str] = (),
    min_clients: int = 2,
    fail_on: str | None = None,
    trust_keys: TrustedKeys | PathLike | None = None,
    study: Study | PathLike | None = None,
    require_all: bool = False,
    like: PathLike | None = None,
    min_support: int = MIN_SUPPORT,
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
    n_components, method, affinity, weights, replication, random_state
        As in `fedica.aggregate`; the study's number of components holds unless another is given, or the
        method pools spans: the study then says how many maps a client sends.
    exclude : sequence of str
        Clients to withdraw; ``change`` then tells what the result would have been with them.
    min_clients : int
        Refuse a result of fewer clients. The default, two, keeps the result from being one client's own atoms.
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
    min_support : int
        Components in which fewer clients count are withheld from what goes to the clients; ``aggregate`` and the
        coordinator's details keep them. 1 publishes everything, also what is one client's own atom.
    failed : iterable of Rejection
        Clients that were asked and sent nothing that could be read; they are listed with those rejected here.
    progress : callable, optional
        Called with a short text at each step.

    Returns
    -------
    Combined
        The result, where it comes from, and what changed.

    Raises
    ------
    FedicaError
        If the result is refused; then nothing is written.
    """
    tell = progress or (lambda text: None)
    check_int(min_clients, "min_clients", minimum=1)
    check_int(min_support, "min_support", minimum=1)
    verdicts = () if fail_on is None else FAIL_ON[check_choice(fail_on, "fail_on", FAIL_ON)]
    paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    agreed, trusted = as_study(study), as_trusted_keys(trust_keys)
    earlier, against = _read_earlier(like)
    if output is not None:
        check_output(output, [*paths, trust_keys, study, like], folder=True)

    tell("reading contributions")
    received, refused = read_inbox(paths, trusted)
    received, older = keep_newest(received, trusted)
    rejected = (*failed, *refused)
    notes = (*older, *preparation_notes(received, agreed))
    notes += tuple(check_absent(trusted, agreed, _clients(received), rejected, require_all=require_all))
    kept = _withdraw(received, exclude)
    check_enough(len(_clients(kept)), min_clients, rejected)
    check_complete(rejected, require_all)

    tell(f"aggregating {len(kept)} contributions")
    settings = {"method": method, "affinity": affinity, "weights": weights, "random_state": random_state}
    result, filled = _aggregate(kept, n_components, agreed, {**settings, "replication": replication})
    check_complete(result.rejected, require_all)
    withdrawn = [Rejection.because(name, "withdrawn") for name in exclude]
    result = replace(
        result,
        rejected=(*withdrawn, *result.rejected, *rejected),
        options={**result.options, **_intake_options(exclude, filled, min_support)},
    )
    check_enough(len(result.clients), min_clients, result.rejected)
    if earlier is None and exclude:
        tell("aggregating once more with the withdrawn clients")
        earlier = _aggregate(received, n_components, agreed, settings)[0]
        against = "the aggregate with the withdrawn clients"
    combined = _compare(result, earlier, against, min_support)
    check_verdicts(combined.aggregate, verdicts)

    provenance = _provenance(kept, result)
    notes += (*_feature_notes(filled), *_withheld_notes(combined.aggregate, min_support))
    notes += _missing_notes(combined.aggregate, replication=replication, written=output is not None)
    if output is not None:
        tell(f"writing {os.fspath(output)}")
        write_folder(combined.aggregate, output, provenance=provenance, min_support=min_support)
    return replace(combined, provenance=provenance, notes=notes, path=None if output is None else os.fspath(output))


def _missing_notes(result: Aggregate, *, replication: bool, written: bool) -> tuple[str, ...]:
    """Return what was asked for and is not in the result."""
    untested = _UNTESTED if replication and result.replicates is None else ()
    return (*untested, *(_WITHOUT_DETAILS if written and not details_fit(result) else ()))


def _read_earlier(path: PathLike | None) -> tuple[Aggregate | PublicAggregate | None, str]:
    """Return an earlier result and what to call it; from a result folder, with its clients."""
    if path is None:
        return None, ""
    name = f"the earlier aggregate {os.fspath(path)}"
    return read_folder(path).aggregate if Path(path).is_dir() else read_aggregate(path), name


def _clients(items: Sequence[Received]) -> set[str]:
    return {item.contribution.client for item in items}


def _withdraw(received: Sequence[Received], exclude: Sequence[str]) -> list[Received]:
    present = _clients(received)
    unknown = [name for name in exclude if name not in present]
    if unknown:
        raise InputError(
            f"there is no contribution of client {unknown[0]!r} to withdraw; got {list_names(sorted(present))}."
        )
    return [item for item in received if item.contribution.client not in exclude]


def _aggregate(
    items: Sequence[Received], n_components: int | None, study: Study | None, settings: dict[str, Any]
) -> tuple[Aggregate, Filled]:
    """Bring the contributions that fit to the same features and aggregate them; rejections name the file."""
    screened = screen([item.contribution for item in items], study=study, may_lack_features=True)
    check_not_empty(screened)
    declared = next((c.independence for c in screened.contributions if c.independence is not None), None)
    chosen, _ = settled_method(settings["method"], declared, strengths_to_use(screened))
    if n_components is None and study is not None and chosen.matches_atoms:
        n_components = study.n_components  # where spans are pooled, clients send more maps than there are components
    filled = fill_features(screened.contributions, features=screened.features, n_components=n_components)
    result = run_aggregate(filled.contributions, n_components, **settings)
    source = {id(item.contribution): item.provenance.source for item in items}
    rejected = [replace(rejection, source=source[id(refused)]) for refused, rejection in screened.refused]
    return replace(result, rejected=tuple(rejected)), filled


def _provenance(items: Sequence[Received], result: Aggregate) -> tuple[Provenance, ...]:
    """Return where the admitted contributions came from; a client may have sent others, which were left out."""
    admitted, left_out = set(result.clients), {x.source for x in result.rejected}
    origins = [item.provenance for item in items if item.contribution.client in admitted]
    return tuple(origin for origin in origins if origin.source not in left_out)


def _intake_options(exclude: Sequence[str], filled: Filled, min_support: int) -> dict[str, object]:
    """Return what the result folder tells besides the options of the method."""
    counts = {
        "n_withdrawn": len(exclude),
        "n_clients_filled": len(filled.lacking),
        "n_features_filled": sum(map(len, filled.lacking.values())),
        "n_clients_cut": len(filled.surplus),
        "min_support": 0 if min_support == MIN_SUPPORT else min_support,
    }
    return {name: count for name, count in counts.items() if count}


def _compare(
    result: Aggregate, earlier: Aggregate | PublicAggregate | None, against: str, min_support: int
) -> Combined:
    """Renumber the components like those of an earlier result, if there is one, and tell what changed.

    Components that are withheld come last, as in the result folder.
    """
    if earlier is None:
        return Combined(published_first(result, min_support))
    last = ~published(result, min_support)
    result, change = keep_order(result, earlier.mixing, earlier.terms.features, last=last)
    now, then = set(result.clients), set(earlier.clients) if isinstance(earlier, Aggregate) else set()
    joined = tuple(sorted(now - then)) if then else ()
    return Combined(result, change=change, against=against, joined=joined, left=tuple(sorted(then - now)))


def _withheld_notes(result: Aggregate, min_support: int) -> tuple[str, ...]:
    """Say what is not published, and how to publish it."""
    n_withheld, r = int((~published(result, min_support)).sum()), result.n_components
    if not n_withheld:
        return ()
    which = ("is", "in it") if n_withheld == 1 else ("are", "in each of them")
    return (
        f"{n_withheld} of {counted(r, 'component')} {which[0]} withheld from the clients: {which[1]} fewer than "
        f"{min_support} clients count, so it could be one client's own atom. --min-support 1 publishes everything.",
    )


def _feature_notes(filled: Filled) -> tuple[str, ...]:
    lacking = [
        f"client {client!r} lacks {len(names)} of {len(filled.features or ())} features ({list_names(names)}): it "
        "counts for the others, and these entries were filled from the other clients."
        for client, names in filled.lacking.items()
    ]
    surplus = [
        f"client {client!r} has {counted(len(names), 'feature')} too many ({list_names(names)}): they were left out."
        for client, names in filled.surplus.items()
    ]
    return (*lacking, *surplus)

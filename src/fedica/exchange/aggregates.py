"""The public part of an aggregate <-> file: what goes back to the clients, and nothing of any single one of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from fedica.arrays import Array, BoolArray, IntArray, PathLike, check_int
from fedica.errors import FormatError, InputError
from fedica.exchange.field_values import read_value, read_whole_number, write_value
from fedica.exchange.files import read_bounded, write_atomic
from fedica.exchange.format import Container, FileKind, chunks_within, common_metadata, parse, require_tensor
from fedica.records import CONTRIBUTION_FIELDS, Aggregate, Terms, check_name
from fedica.records.fields import READONLY, check_fields
from fedica.version import __version__

AGGREGATE = FileKind("fedica.aggregate", max_header=4 * 1024 * 1024, max_numbers=21_000_000)
WITHHELD = ("n_withheld", "min_support")
"""Metadata of a file from which components are withheld."""
TERMS = {x.name for x in fields(Terms)} & CONTRIBUTION_FIELDS.keys()
"""What clients agree on and files tell; ``n_features`` is known from the matrix."""
MIN_SUPPORT = 3
"""Clients that must count in a component before it is published: a centre of two can be one client's own atom."""


@dataclass(frozen=True, eq=False, repr=False)
class PublicAggregate:
    """What the clients get back.

    Parameters
    ----------
    mixing : ndarray of shape (d, r)
        The global mixing matrix, unit columns (a degenerate component may be near zero instead).
    support : ndarray of shape (r,)
        How many clients have an atom in each component.
    spread : ndarray of shape (r,)
        Median angle of the atoms to their component, in degrees; NaN where there are none.
    degenerate : ndarray of shape (r,)
        Whether the atoms of the component cancel, so that its direction means nothing.
    n_clients : int
        How many clients were aggregated.
    method : str
        How it was computed.
    terms : Terms
        What the clients agree on.
    fedica : str
        The version of fedica that wrote it.
    n_withheld : int
        How many components were found besides, and are not published.
    min_support : int
        How many clients count at least in each published component, if some are withheld.
    round : int
        How many messages of each client it was made from: 1, or more once second messages have refined it.
    scale : ndarray of shape (r,), optional
        Standard deviation of each source, once second messages have told it; NaN where they have not.
    """

    mixing: Array = field(metadata=READONLY)
    support: IntArray = field(metadata=READONLY)
    spread: Array = field(metadata=READONLY)
    degenerate: BoolArray = field(metadata=READONLY)
    n_clients: int
    method: str
    terms: Terms
    fedica: str
    n_withheld: int = 0
    min_support: int = 1
    round: int = 1
    scale: Array | None = field(default=None, metadata=READONLY)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def withheld(self) -> tuple[str, ...]:
        """What is withheld, in one sentence, or nothing."""
        if not self.n_withheld:
            return ()
        are = "component is" if self.n_withheld == 1 else "components are"
        return (f"{self.n_withheld} more {are} withheld: fewer than {self.min_support} clients count in it.",)

    @property
    def n_components(self) -> int:
        """r: how many components."""
        return int(self.mixing.shape[1])

    def __repr__(self) -> str:
        d, r = self.mixing.shape
        study = "" if self.terms.study is None else f" of study {self.terms.study!r}"
        return (
            f"PublicAggregate by {self.method!r}: {r} components of {d} features from {self.n_clients} clients{study}"
        )


def published(aggregate: Aggregate, min_support: int = MIN_SUPPORT) -> BoolArray:
    """Tell which components may go to the clients: those in which at least ``min_support`` clients count, (r,)."""
    check_int(min_support, "min_support", minimum=1)
    counting = aggregate.support if aggregate.weighted_support is None else aggregate.weighted_support
    return np.asarray(np.maximum(np.minimum(counting, aggregate.support), 1) >= min_support)


def published_first(aggregate: Aggregate, min_support: int = MIN_SUPPORT) -> Aggregate:
    """Put the components that may go to the clients first, so that these have the same numbers everywhere."""
    order = np.argsort(~published(aggregate, min_support), kind="stable")
    return aggregate.renumbered(order, np.ones(order.size))


def public_part(aggregate: Aggregate, *, min_support: int = MIN_SUPPORT) -> PublicAggregate:
    """Return what the clients get back: nothing in it is a single client's, or depends on a client's name.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.
    min_support : int
        Components in which fewer clients count are withheld. 1 publishes everything, also one client's own atoms.

    Raises
    ------
    InputError
        If nothing is left.
    """
    keep = published(aggregate, min_support)
    if not keep.any():
        raise InputError(
            f"nothing can be published: in no component do {min_support} of the {len(aggregate.clients)} clients "
            "count, so every column could be one client's own atom. To publish it all the same: --min-support 1."
        )
    return PublicAggregate(
        mixing=aggregate.mixing[:, keep],
        support=aggregate.support[keep],
        spread=aggregate.spread[keep],
        degenerate=np.isin(np.flatnonzero(keep), aggregate.degenerate),
        n_clients=len(aggregate.clients),
        method=aggregate.method,
        terms=aggregate.terms,
        fedica=__version__,
        n_withheld=int((~keep).sum()),
        min_support=1 if keep.all() else min_support,
        round=1 if aggregate.refinement is None else aggregate.refinement.round,
        scale=None if aggregate.scale is None else aggregate.scale[keep],
    )


def write_aggregate(aggregate: Aggregate | PublicAggregate, path: PathLike, *, min_support: int = MIN_SUPPORT) -> None:
    """Write the public part of an aggregate to one file, whole or not at all.

    Parameters
    ----------
    aggregate : Aggregate or PublicAggregate
        What the server computed. Of an `Aggregate`, only the public part is written.
    path : path-like
        The file; an older one is replaced.
    min_support : int
        Of an `Aggregate`: components in which fewer clients count are withheld; 1 publishes everything.
    """
    write_atomic(path, _chunks(aggregate, min_support))


def aggregate_to_bytes(aggregate: Aggregate | PublicAggregate, *, min_support: int = MIN_SUPPORT) -> bytes:
    """Return the bytes that `write_aggregate` writes."""
    return b"".join(_chunks(aggregate, min_support))


def read_aggregate(path: PathLike) -> PublicAggregate:
    """Read the public part of an aggregate; everything in it is checked.

    Parameters
    ----------
    path : path-like
        The file.

    Raises
    ------
    FormatError
        If it is not an aggregate as docs/format.md defines it.
    """
    data = read_bounded(path, limit=AGGREGATE.max_bytes, what="an aggregate")
    return aggregate_from_bytes(data, source=os.fspath(path))


def aggregate_from_bytes(data: bytes, *, source: str = "aggregate") -> PublicAggregate:
    """Return the public aggregate that the bytes hold; errors start with ``source``."""
    container = parse(data, AGGREGATE, source)
    try:
        return _public(container)
    except FormatError:
        raise
    except InputError as error:
        raise FormatError(f"{source}: {error}") from error


def _chunks(aggregate: Aggregate | PublicAggregate, min_support: int) -> list[bytes | memoryview]:
    public = aggregate if isinstance(aggregate, PublicAggregate) else public_part(aggregate, min_support=min_support)
    withheld = {name: str(getattr(public, name)) for name in WITHHELD if public.n_withheld}
    metadata = {
        **common_metadata(AGGREGATE),
        "fedica": public.fedica,
        "method": public.method,
        "n_clients": str(public.n_clients),
        **withheld,
        **({} if public.round == 1 else {"round": str(public.round)}),
        **terms_metadata(public.terms),
    }
    tensors = {name: getattr(public, name) for name in ("mixing", "support", "spread", "degenerate")}
    if public.scale is not None:
        tensors["scale"] = public.scale
    _public(Container("this aggregate", metadata, tensors))  # refuse to write what a reader would refuse
    return chunks_within(AGGREGATE, metadata, tensors)


def terms_metadata(terms: Terms) -> dict[str, str]:
    """Return what the clients agree on, as metadata: the fields of a contribution of the same names."""
    values = {name: getattr(terms, name) for name in TERMS}
    return {n: write_value(CONTRIBUTION_FIELDS[n].form, v, f"the {n}") for n, v in values.items() if v is not None}


def read_terms(metadata: Mapping[str, str], n_features: int) -> Terms:
    """Return what the clients agree on, from metadata."""
    terms: dict[str, Any] = {}
    for name in TERMS & metadata.keys():
        declared = CONTRIBUTION_FIELDS[name]
        terms[name] = declared.check(read_value(declared.form, metadata[name], name), name)
    n_names = len(terms.get("features", range(n_features)))
    if n_names != n_features:
        raise InputError(f"there are {n_names} names of features for {n_features} features.")
    return Terms(n_features, **terms)


def _public(container: Container) -> PublicAggregate:
    source, metadata = container.source, container.metadata
    mixing = require_tensor(container, "mixing", "F64", 2)
    d, r = mixing.shape
    support, spread = require_tensor(container, "support", "I64", 1), require_tensor(container, "spread", "F64", 1)
    degenerate = require_tensor(container, "degenerate", "BOOL", 1)
    n_clients = read_whole_number(metadata.get("n_clients", ""), f"{source}: n_clients")
    if 0 in mixing.shape or not support.size == spread.size == degenerate.size == r:
        raise FormatError(
            f"{source}: a mixing matrix of shape {mixing.shape} needs {r} values of support, spread and degenerate; "
            f"got {support.size}, {spread.size} and {degenerate.size}."
        )
    norms = np.sqrt(np.einsum("ij,ij->j", mixing, mixing))
    if not np.all((np.abs(norms - 1) <= 1e-6) | ((norms <= 1e-6) & degenerate)):
        worst = int(np.argmax(np.where(np.isfinite(norms), np.abs(norms - 1), np.inf)))
        raise FormatError(
            f"{source}: every column of the mixing matrix must have norm one, to 1e-06; column {worst} has norm "
            f"{norms[worst]:.9g}."
        )
    if not np.all((support >= 0) & (support <= n_clients)):
        raise FormatError(f"{source}: support must be between 0 and {n_clients} clients; got {support.tolist()[:20]}.")
    if not np.all(np.isnan(spread) | ((spread >= 0) & (spread <= 90))):
        raise FormatError(f"{source}: spread must be angles from 0 to 90 degrees; got {spread.tolist()[:20]}.")
    return PublicAggregate(
        mixing=mixing,
        support=support,
        spread=spread,
        degenerate=degenerate,
        n_clients=n_clients,
        method=check_name(metadata.get("method"), "the method"),
        terms=read_terms(metadata, d),
        fedica=metadata.get("fedica", ""),
        round=read_whole_number(metadata.get("round", "1"), f"{source}: round"),
        scale=_scale(container, r),
        **{name: read_whole_number(metadata[name], f"{source}: {name}") for name in WITHHELD if name in metadata},
    )


def _scale(container: Container, r: int) -> Array | None:
    """Return the deviations of the sources, if the file tells them."""
    if "scale" not in container.tensors:
        return None
    scale = require_tensor(container, "scale", "F64", 1)
    if scale.size != r or not np.all(np.isnan(scale) | ((scale > 0) & np.isfinite(scale))):
        raise FormatError(
            f"{container.source}: scale must be {r} positive numbers, or NaN where it is not known; got "
            f"{scale.tolist()[:20]}."
        )
    return scale

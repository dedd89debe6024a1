"""The result folder: everything about one aggregate, for the clients, the coordinator and the spreadsheet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedica.arrays import PathLike
from fedica.errors import FormatError
from fedica.exchange.aggregates import (
    AGGREGATE,
    MIN_SUPPORT,
    PublicAggregate,
    aggregate_from_bytes,
    aggregate_to_bytes,
    public_part,
    published,
    published_first,
)
from fedica.exchange.contributions import Provenance
from fedica.exchange.details import DETAILS, details_chunks, details_fit, details_from_bytes, first_rejections
from fedica.exchange.files import read_bounded, sha256
from fedica.exchange.json_files import plain_bytes, read_plain
from fedica.exchange.replace_folder import aside_of, replace_folder
from fedica.exchange.tables import clients_table, components_table, mixing_table, rejected_table
from fedica.records import Aggregate, Refinement
from fedica.version import __version__

SUMMARY = "fedica.summary"
FILES = (
    "aggregate.safetensors",
    "details.safetensors",
    "mixing.csv",
    "components.csv",
    "clients.csv",
    "rejected.csv",
    "summary.json",
)
"""What `write_folder` writes."""
OWN_NAMES = (*FILES, "report.html")
"""What a result folder may hold when a newer result replaces it: the report of an older one goes with it."""
PUBLIC = ("aggregate.safetensors",)
"""What goes to the clients. All other files tell of single clients: their owner alone may read them."""
MAX_SUMMARY_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, eq=False)
class ResultFolder:
    """What a result folder holds.

    Parameters
    ----------
    aggregate : Aggregate
        The whole aggregate, from details.safetensors.
    public : PublicAggregate, optional
        What goes back to the clients, from aggregate.safetensors; ``None`` if no component could be published.
    provenance : tuple of Provenance
        Where each admitted contribution came from, as far as is known.
    summary : mapping
        The content of summary.json.
    """

    aggregate: Aggregate
    public: PublicAggregate | None
    provenance: tuple[Provenance, ...]
    summary: Mapping[str, Any]


def write_folder(
    aggregate: Aggregate,
    folder: PathLike,
    *,
    provenance: Iterable[Provenance] = (),
    min_support: int = MIN_SUPPORT,
) -> None:
    """Write everything about an aggregate to one folder, whole or not at all.

    Components that may not be published are numbered after those that may, and are in neither aggregate.safetensors nor
    mixing.csv; where none may be published, these two files are not written. Nor is details.safetensors if the atoms of
    all clients are too many for it: the contributions themselves, whose fingerprints are in clients.csv, hold them.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.
    folder : path-like
        The folder. It may be absent, empty, or an older result, which is replaced; a folder with anything else in it
        is refused, because replacing it would lose that.
    provenance : iterable of Provenance
        Where the contributions came from.
    min_support : int
        Components in which fewer clients count are not published. 1 publishes everything, also what is one client's own
        atom.
    """
    origins = {origin.client: origin for origin in provenance}
    aggregate, may_go = published_first(aggregate, min_support), published(aggregate, min_support)
    contents: dict[str, list[bytes | memoryview]] = {
        "components.csv": [components_table(aggregate, np.sort(may_go)[::-1])],
        "clients.csv": [clients_table(aggregate, origins)],
        "rejected.csv": [rejected_table(aggregate)],
    }
    if details_fit(aggregate):
        contents["details.safetensors"] = details_chunks(aggregate)  # views: the atoms of all clients are not copied
    if may_go.any():
        public = public_part(aggregate, min_support=min_support)
        contents |= {"aggregate.safetensors": [aggregate_to_bytes(public)], "mixing.csv": [mixing_table(public)]}
    withheld = {"min_support": min_support, "n_withheld": int((~may_go).sum())}
    fingerprints = {name: sha256(*contents[name]) for name in FILES if name in contents}
    summary = summarise(aggregate, origins.values()) | withheld | {"files": fingerprints}
    contents["summary.json"] = [plain_bytes(SUMMARY, summary)]
    replace_folder(folder, contents, OWN_NAMES, PUBLIC)


def read_folder(folder: PathLike) -> ResultFolder:
    """Read a result folder; its files must be those that were written together.

    Parameters
    ----------
    folder : path-like
        The folder.

    Raises
    ------
    FormatError
        If a file is missing, damaged, or of another run.
    """
    path = Path(folder)
    if not path.is_dir():
        aside = aside_of(path)
        remedy = f" An interrupted run left the previous result as {aside}: rename it." if aside.is_dir() else ""
        raise FormatError(f"{path}: there is no result folder of this name.{remedy}")
    summary = read_plain(path / "summary.json", SUMMARY, limit=MAX_SUMMARY_BYTES)
    files = summary.get("files")
    if isinstance(files, dict) and "details.safetensors" not in files:
        raise FormatError(
            f"{path}: it was written without details.safetensors, which takes {DETAILS.max_numbers:,} numbers: fewer "
            "than the clients' atoms have. The result is in aggregate.safetensors and in the tables."
        )
    return ResultFolder(
        details_from_bytes(_file(path, DETAILS.max_bytes, "details.safetensors", summary), source=str(path)),
        _public(path, summary),
        _provenance(summary, path / "summary.json"),
        summary,
    )


def summarise(aggregate: Aggregate, provenance: Iterable[Provenance] = ()) -> dict[str, Any]:
    """Return the content of summary.json without its files' fingerprints: plain texts, numbers, lists and objects."""
    terms, certificate = aggregate.terms, aggregate.certificate
    return {
        "fedica": __version__,
        "study": terms.study,
        "method": aggregate.method,
        "options": dict(aggregate.options),
        "independence": terms.independence,
        "mixing": terms.mixing,
        "n_features": terms.n_features,
        "n_components": aggregate.n_components,
        "n_clients": len(aggregate.clients),
        "n_atoms": int(aggregate.labels.size),
        "n_rejected": len(aggregate.rejected),
        "support": aggregate.support.tolist(),
        "spread_degrees": [_finite(angle) for angle in aggregate.spread.tolist()],
        "verdicts": None if aggregate.trust is None else dict(sorted(Counter(aggregate.trust.verdict).items())),
        "kmeans_gamma": None if certificate is None else _finite(certificate.kmeans_gamma),
        "median_gap": None if certificate is None else _finite(float(certificate.median_gap.max())),
        "refinement": _refinement_fields(aggregate.refinement),
        "clients": [
            {"client": x.client, "verdict": x.verdict, "kind": x.why.kind, "numbers": x.why.numbers, "reason": x.reason}
            for x in aggregate.trust or ()
        ],
        "rejected": [asdict(rejection) for rejection in first_rejections(aggregate.rejected)],
        "contributions": [asdict(origin) for origin in sorted(provenance, key=lambda origin: origin.client)],
    }


def _refinement_fields(refinement: Refinement | None) -> dict[str, Any] | None:
    if refinement is None:
        return None
    return {
        "round": refinement.round,
        "taken": refinement.taken,
        "reason": refinement.reason,
        "turned_degrees": refinement.turned.tolist(),
        "n_counted": len(refinement.counted),
        "left_out": list(refinement.left_out),
    }


def _public(path: Path, summary: Mapping[str, Any]) -> PublicAggregate | None:
    """Return what goes to the clients; nothing if the folder was written without it."""
    if "n_withheld" in summary and summary["n_withheld"] == summary.get("n_components"):
        return None
    content = _file(path, AGGREGATE.max_bytes, "aggregate.safetensors", summary)
    return aggregate_from_bytes(content, source=str(path))


def _file(path: Path, limit: int, name: str, summary: Mapping[str, Any]) -> bytes:
    data = read_bounded(path / name, limit=limit, what="a result file")
    fingerprints = summary.get("files")
    if not isinstance(fingerprints, dict) or fingerprints.get(name) != sha256(data):
        raise FormatError(f"{path / name}: it is not the file that summary.json beside it was written with.")
    return data


def _provenance(summary: Mapping[str, Any], source: Path) -> tuple[Provenance, ...]:
    types: dict[str, type | tuple[type, ...]] = {
        "client": str,
        "n_samples": (int, type(None)),
        "source": str,
        "n_bytes": int,
        "sha256": str,
        "fedica": str,
        "key": (str, type(None)),
        "verified": bool,
    }
    rows = summary.get("contributions", [])
    for row in rows if isinstance(rows, list) else [None]:
        if (
            not isinstance(row, dict)
            or row.keys() != types.keys()
            or not all(isinstance(row[name], kind) for name, kind in types.items())
        ):
            raise FormatError(f"{source}: 'contributions' must be a list of objects with {', '.join(types)}.")
    return tuple(Provenance(**row) for row in rows)


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None

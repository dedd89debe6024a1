"""The whole aggregate <-> file: what the coordinator keeps, with every client's atoms; nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import PathLike
from fedica.errors import FormatError, InputError
from fedica.exchange.aggregates import read_terms, terms_metadata
from fedica.exchange.field_values import read_whole_number
from fedica.exchange.files import PRIVATE, read_bounded, write_atomic
from fedica.exchange.format import Container, FileKind, chunks_within, common_metadata, declared, parse, require_tensor
from fedica.exchange.header import check_names, parse_texts
from fedica.exchange.json_files import json_text, parse_json
from fedica.records import Aggregate, Certificate, Reason, Refinement, Rejection, Trust, check_name
from fedica.records.scores import check_fingerprint
from fedica.records.wordings import Numbers
from fedica.text import MAX_SENTENCE, show_text

DETAILS = FileKind("fedica.details", max_header=64 * 1024 * 1024, max_numbers=250_000_000)
MAX_ENTRY = 1 + 1e-6
"""The largest entry of atoms, centres and mixing matrix: they are unit vectors, or lie among some."""
MAX_REJECTED = 8 * 1024 * 1024
"""Most characters of all that is told of rejections; of further ones only their number."""
_MAX_OPTIONS = 64 * 1024
_KINDS_OF_0_1_0 = {"withdrawn by the coordinator.": "withdrawn"}
"""The sentence of 0.1.0 whose kind must be known: the report says how to repeat a result without these clients."""

# name: (dtype, its dimensions by what they count; "*" is any number)
TENSORS = {
    "mixing": ("F64", "dr"),
    "centres": ("F64", "dr"),
    "atoms": ("F64", "dR"),
    "labels": ("I64", "R"),
    "signs": ("F64", "R"),
    "client_of_atom": ("I64", "R"),
    "spectrum": ("F64", "*"),
    "support": ("I64", "r"),
    "spread": ("F64", "r"),
}
TRUST_TENSORS = {
    "angle": ("F64", "K"),
    "angles": ("F64", "Kr"),
    "has": ("BOOL", "Kr"),
    "n_unmatched": ("I64", "K"),
    "influence": ("F64", "K"),
}
MEDIAN_GAP = ("F64", "r")
OPTIONAL_TENSORS = {"weighted_support": ("I64", "r"), "replicates": ("BOOL", "r"), "explained_variance": ("F64", "Kr")}
"""Fields of an aggregate that may be ``None``: files of 0.1.0 have none of them."""
REFINEMENT_TENSORS = {"turned": ("F64", "r"), "scale": ("F64", "r")}


def write_details(aggregate: Aggregate, path: PathLike) -> None:
    """Write a whole aggregate to one file, whole or not at all. It holds every client's atoms: keep it.

    Parameters
    ----------
    aggregate : Aggregate
        What the server computed.
    path : path-like
        The file; an older one is replaced.
    """
    write_atomic(path, details_chunks(aggregate), mode=PRIVATE)


def read_details(path: PathLike) -> Aggregate:
    """Read a whole aggregate back, as it was written.

    Parameters
    ----------
    path : path-like
        The file.

    Raises
    ------
    FormatError
        If it is not as docs/format.md defines it.
    """
    data = read_bounded(path, limit=DETAILS.max_bytes, what="a details file")
    return details_from_bytes(data, source=os.fspath(path))


def details_to_bytes(aggregate: Aggregate) -> bytes:
    """Return the bytes that `write_details` writes."""
    return b"".join(details_chunks(aggregate))


def first_rejections(rejected: Sequence[Rejection]) -> tuple[Rejection, ...]:
    """Return the rejections that a file has room for; one more says how many there are besides.

    So no number of bad files, however long their names, makes the result of the good ones too large to write.
    """
    n_characters = 0
    for n_kept, rejection in enumerate(rejected):
        n_characters += sum(map(len, (rejection.client, rejection.reason, rejection.source, str(rejection.numbers))))
        if n_characters > MAX_REJECTED:
            more = Rejection.because("(others)", "more-rejected", n_rejected=len(rejected) - n_kept)
            return (*rejected[:n_kept], more)
    return tuple(rejected)


def details_from_bytes(data: bytes, *, source: str = "details") -> Aggregate:
    """Return the aggregate that the bytes hold; errors start with ``source``."""
    container = parse(data, DETAILS, source)
    try:
        return _aggregate(container)
    except FormatError:
        raise
    except InputError as error:
        raise FormatError(f"{source}: {error}") from error


def details_fit(aggregate: Aggregate) -> bool:
    """Whether one file takes this aggregate: the maps of very many people are too large for it."""
    return sum(array.size for array in _tensors(aggregate).values()) <= DETAILS.max_numbers


def details_chunks(aggregate: Aggregate) -> list[bytes | memoryview]:
    """Return the same in chunks, which view the numbers and do not copy them."""
    rejected = first_rejections(aggregate.rejected)
    metadata: dict[str, str | None] = {
        **common_metadata(DETAILS),
        **terms_metadata(aggregate.terms),
        "method": aggregate.method,
        "options": json_text(dict(aggregate.options), "the options of an aggregate"),
        "clients": _texts_of(aggregate.clients),
        "rejected_client": _texts_of([x.client for x in rejected]),
        "rejected_reason": _texts_of([x.reason for x in rejected]),
        "rejected_source": _texts_of([x.source for x in rejected]),
        **_kinds_metadata("rejected", rejected),
    }
    if (trust := aggregate.trust) is not None:
        metadata |= {
            "trust_verdict": _texts_of(trust.verdict),
            "trust_reason": _texts_of(trust.reason),
            **_kinds_metadata("trust", trust.why),
        }
    if (certificate := aggregate.certificate) is not None:
        metadata["kmeans_objective"] = _number_text(certificate.kmeans_objective)
        metadata["kmeans_lower_bound"] = _number_text(certificate.kmeans_lower_bound)
    if (refinement := aggregate.refinement) is not None:
        metadata |= {
            "refinement_round": str(refinement.round),
            "refinement_refines": refinement.refines,
            "refinement_taken": "yes" if refinement.taken else "no",
            "refinement_reason": refinement.reason,
            "refinement_counted": _texts_of(refinement.counted),
            "refinement_left_out": _texts_of(refinement.left_out),
        }
    tensors = {name: np.asarray(array) for name, array in _tensors(aggregate).items()}
    container = Container("this aggregate", declared(metadata), tensors)
    _aggregate(container)  # a file that could not be read back is not written
    return chunks_within(DETAILS, container.metadata, container.tensors)


def _tensors(aggregate: Aggregate) -> dict[str, NDArray[Any]]:
    """Return the arrays of a details file by their names; those that an aggregate does not have are left out."""
    tensors = {name: getattr(aggregate, name) for name in (*TENSORS, *OPTIONAL_TENSORS)}
    if (trust := aggregate.trust) is not None:
        tensors |= {f"trust_{name}": getattr(trust, name) for name in TRUST_TENSORS}
    if (certificate := aggregate.certificate) is not None:
        tensors["median_gap"] = certificate.median_gap
    if (refinement := aggregate.refinement) is not None:
        tensors |= {f"refinement_{name}": getattr(refinement, name) for name in REFINEMENT_TENSORS}
    return {name: array for name, array in tensors.items() if array is not None}


def _aggregate(container: Container) -> Aggregate:
    clients = tuple(_texts(container, "clients"))
    check_names(clients, "a client's name")
    sizes = {"K": len(clients)}
    arrays = {name: _tensor(container, name, *spec, sizes) for name, spec in TENSORS.items()}
    if len(set(clients)) < sizes["K"] or 0 in (sizes["K"], sizes["d"], sizes["r"], sizes["R"]):
        raise FormatError(f"{container.source}: clients must be distinct, and nothing may be empty; sizes are {sizes}.")
    _check_range(container, "labels", arrays["labels"], -1, sizes["r"] - 1)
    _check_range(container, "client_of_atom", arrays["client_of_atom"], 0, sizes["K"] - 1)
    _check_range(container, "support", arrays["support"], 0, sizes["K"])
    if not np.all(np.abs(arrays["signs"]) == 1):
        raise FormatError(f"{container.source}: 'signs' must be +1 or -1.")
    for name in ("mixing", "centres", "atoms"):
        if not max(arrays[name].max(), -arrays[name].min()) <= MAX_ENTRY:  # without a copy; not so either for NaN
            raise FormatError(f"{container.source}: {name!r} must be finite, its entries at most {MAX_ENTRY} in size.")
    options = parse_json(_text(container, "options", most=_MAX_OPTIONS), f"{container.source}: options")
    if not isinstance(options, dict):
        raise FormatError(f"{container.source}: 'options' must be a JSON object.")
    return Aggregate(
        **arrays,
        clients=clients,
        trust=_trust(container, clients, sizes),
        rejected=_rejected(container),
        method=check_name(_text(container, "method"), "the method"),
        options=options,
        terms=read_terms(container.metadata, sizes["d"]),
        certificate=_certificate(container, sizes),
        **_optional(container, sizes),
        refinement=_refinement(container, sizes),
    )


def _refinement(container: Container, sizes: dict[str, int]) -> Refinement | None:
    if "refinement_round" not in container.metadata:
        return None
    source = container.source
    arrays = {
        name: _tensor(container, f"refinement_{name}", *spec, sizes)
        for name, spec in REFINEMENT_TENSORS.items()
        if name == "turned" or f"refinement_{name}" in container.tensors
    }
    return Refinement(
        round=read_whole_number(_text(container, "refinement_round"), f"{source}: 'refinement_round'"),
        refines=check_fingerprint(_text(container, "refinement_refines"), f"{source}: 'refinement_refines'"),
        taken=_text(container, "refinement_taken") == "yes",
        reason=show_text(_text(container, "refinement_reason"), MAX_SENTENCE),
        turned=arrays["turned"],
        scale=arrays.get("scale"),
        counted=tuple(_texts(container, "refinement_counted")),
        left_out=tuple(_texts(container, "refinement_left_out")),
    )


def _optional(container: Container, sizes: dict[str, int]) -> dict[str, Any]:
    """Return those of the optional tensors that a file has."""
    specs = OPTIONAL_TENSORS.items()
    found = {name: _tensor(container, name, *spec, sizes) for name, spec in specs if name in container.tensors}
    if "weighted_support" in found:
        _check_range(container, "weighted_support", found["weighted_support"], 0, sizes["K"])
    return found


def _trust(container: Container, clients: tuple[str, ...], sizes: dict[str, int]) -> Trust | None:
    if "trust_verdict" not in container.metadata:
        return None
    verdict, reason = tuple(_texts(container, "trust_verdict")), _texts(container, "trust_reason")
    kinds, numbers = _kinds(container, "trust", reason)
    if not len(verdict) == len(reason) == sizes["K"]:
        raise FormatError(
            f"{container.source}: {sizes['K']} clients need as many verdicts and reasons; got {len(verdict)} and "
            f"{len(reason)}."
        )
    why = tuple(map(Reason, kinds, numbers, reason))
    for one in why:
        _check_sentence(one, container.source)
    arrays = {name: _tensor(container, f"trust_{name}", *spec, sizes) for name, spec in TRUST_TENSORS.items()}
    return Trust(clients, verdict, why, **arrays)


def _rejected(container: Container) -> tuple[Rejection, ...]:
    columns = [_texts(container, f"rejected_{name}") for name in ("client", "reason", "source")]
    if len({len(column) for column in columns}) > 1:
        raise FormatError(f"{container.source}: the lists of rejections must be equally long.")
    return tuple(map(Rejection, *columns, *_kinds(container, "rejected", columns[1])))


def _kinds(container: Container, of: str, reasons: list[str]) -> tuple[list[str], list[Numbers]]:
    """Return the kinds and numbers of reasons; fedica 0.1.0 wrote their sentences alone."""
    size = len(reasons)
    if f"{of}_kind" not in container.metadata:
        return [_KINDS_OF_0_1_0.get(reason, "") for reason in reasons], [{}] * size
    kinds, numbers = _texts(container, f"{of}_kind"), _texts(container, f"{of}_numbers")
    if not len(kinds) == len(numbers) == size:
        raise FormatError(
            f"{container.source}: {size} reasons need as many kinds and numbers; got {len(kinds)} and {len(numbers)}."
        )
    return kinds, [_numbers(text, f"{container.source}: '{of}_numbers'") for text in numbers]


def _numbers(text: str, what: str) -> Numbers:
    """Return the numbers of one reason, as they were before they were written."""
    found = parse_json(text, what) if len(text) <= _MAX_OPTIONS else None
    if not isinstance(found, dict):
        raise FormatError(f"{what} must hold JSON objects of at most {_MAX_OPTIONS} characters; got {text[:60]!r}.")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def _check_sentence(why: Reason, source: str) -> None:
    """Refuse numbers that do not make the sentence of their kind; a kind that is not known here has its own."""
    try:
        why.changed().sentence  # noqa: B018
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FormatError(f"{source}: a reason of kind {why.kind!r} cannot have the numbers {why.numbers}.") from error


def _certificate(container: Container, sizes: dict[str, int]) -> Certificate | None:
    if "median_gap" not in container.tensors:
        return None
    return Certificate(
        _number(container, "kmeans_objective"),
        _number(container, "kmeans_lower_bound"),
        _tensor(container, "median_gap", *MEDIAN_GAP, sizes),
    )


def _tensor(container: Container, name: str, dtype: str, dimensions: str, sizes: dict[str, int]) -> Any:
    """Return a tensor whose dimensions agree with those met before; ``sizes`` collects them."""
    array = require_tensor(container, name, dtype, len(dimensions))
    for letter, size in zip(dimensions, array.shape, strict=True):
        if letter != "*" and sizes.setdefault(letter, size) != size:
            raise FormatError(
                f"{container.source}: tensor {name!r} has shape {array.shape}; {letter} = {sizes[letter]} elsewhere."
            )
    return array


def _check_range(container: Container, name: str, values: Any, low: int, high: int) -> None:
    if values.size and not (low <= values.min() and values.max() <= high):
        raise FormatError(
            f"{container.source}: {name!r} must lie from {low} to {high}; got {values.min()} to {values.max()}."
        )


def _text(container: Container, name: str, most: int | None = None) -> str:
    text = container.metadata.get(name)
    if text is None:
        raise FormatError(f"{container.source}: the metadata field {name!r} is missing.")
    if most is not None and len(text) > most:
        raise FormatError(f"{container.source}: {name!r} has at most {most} characters; got {len(text)}.")
    return text


def _texts(container: Container, name: str) -> list[str]:
    return parse_texts(_text(container, name), f"{container.source}: {name!r}")


def _number(container: Container, name: str) -> float | None:
    text = container.metadata.get(name)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise FormatError(f"{container.source}: {name!r} must be a number; got {text!r:.60}.") from None


def _texts_of(texts: Sequence[str]) -> str:
    return json_text(list(texts), "an aggregate")


def _kinds_metadata(of: str, reasons: Sequence[Reason | Rejection]) -> dict[str, str | None]:
    """Return the kinds and the numbers of reasons; nothing where none is known, as in a file of 0.1.0.

    Numbers are a list of texts, each a JSON object: such lists are read within bounded memory.
    """
    if not any(x.kind for x in reasons):
        return {}
    numbers = [json_text(dict(x.numbers), "a reason") for x in reasons]
    return {f"{of}_kind": _texts_of([x.kind for x in reasons]), f"{of}_numbers": _texts_of(numbers)}


def _number_text(number: float | None) -> str | None:
    return None if number is None else repr(float(number))

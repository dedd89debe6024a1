"""The container of every binary file: safetensors, written in one canonical way and read within stated limits.

::

    8 bytes     length of the header, little-endian
    header      JSON, padded with spaces: {"__metadata__": {text: text}, tensor: {dtype, shape, data_offsets}, ...}
    data        the tensors' numbers, little-endian, row by row, without gaps

The safetensors package writes the metadata in an order that changes from call to call, so the bytes are made here; they
are those of an ordinary safetensors file, which that package reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedica.errors import FormatError
from fedica.exchange.header import MAX_KEY, MAX_METADATA, TensorSpec, encodable, parse_header
from fedica.version import __version__

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class FileKind:
    """What one kind of file is called, and how large it may be."""

    name: str  # the metadata field format
    max_header: int  # most bytes of its header
    max_numbers: int  # most numbers in all its tensors together; one of F32 counts half
    versions: tuple[str, ...] = ("1",)  # the versions of the format that are read; the last one is written

    @property
    def max_bytes(self) -> int:
        """Most bytes of a file of this kind."""
        return 8 + self.max_header + 8 * self.max_numbers


@dataclass(frozen=True, eq=False)
class Container:
    """One file's content: metadata from text to text, and named tensors. ``source`` says where it came from."""

    source: str
    metadata: Mapping[str, str]
    tensors: Mapping[str, NDArray[Any]]


def serialise(metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> list[bytes | memoryview]:
    """Return the canonical bytes, in chunks: the same content always gives the same bytes.

    Metadata come first, sorted by name; then the tensors, wider numbers first (which keeps all of them aligned), then
    by name; the JSON has no white space but the padding to a multiple of eight bytes.
    """
    arrays = {name: np.asarray(_little_endian(array), order="C") for name, array in tensors.items()}
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(_checked(metadata).items()))}
    start = 0
    for name in names:
        array = arrays[name]
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    chunks: list[bytes | memoryview] = [len(text).to_bytes(8, "little") + text]
    return chunks + [arrays[name].reshape(-1).view(np.uint8).data for name in names]


def chunks_within(
    kind: FileKind, metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]], *, float32: bool = False
) -> list[bytes | memoryview]:
    """Return the canonical bytes, in chunks, if a reader of this kind will take them.

    float32 : whether arrays in single precision stay so; else they are widened.
    """
    written = tensors if float32 else {name: _widened(array) for name, array in tensors.items()}
    chunks = serialise(metadata, written)
    n_header, n_numbers = len(chunks[0]) - 8, sum(_counted(array.size, array.dtype) for array in written.values())
    if n_header > kind.max_header or n_numbers > kind.max_numbers:
        raise FormatError(
            f"a {kind.name} file takes {kind.max_header} bytes of names and metadata and {kind.max_numbers} numbers; "
            f"got {n_header} bytes and {n_numbers} numbers. Send shorter names of features or fewer components."
        )
    return chunks


def parse(data: bytes, kind: FileKind, source: str) -> Container:
    """Return what the bytes hold, as views of them; every limit is checked before memory is taken."""
    size = len(data)
    if size < 8:
        raise FormatError(f"{source}: a safetensors file has at least 8 bytes; got {size}. Is it complete?")
    if size > kind.max_bytes:
        raise FormatError(f"{source}: a {kind.name} file has at most {kind.max_bytes} bytes; got {size}.")
    n_header = int.from_bytes(data[:8], "little")
    if n_header > min(kind.max_header, size - 8):
        raise FormatError(
            f"{source}: its header claims {n_header} bytes; the file has {size - 8} after the first 8, and a "
            f"{kind.name} file may use {kind.max_header}. It is cut short, or not a safetensors file."
        )
    if n_header % 8:
        raise FormatError(
            f"{source}: its header must be padded to a multiple of 8 bytes, so that the numbers are aligned; it has "
            f"{n_header}."
        )
    try:
        text = data[8 : 8 + n_header].decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{source}: its header must be UTF-8; byte {8 + error.start} is not.") from error
    metadata, specs = parse_header(text, source)
    _check_kind(metadata, kind, source)
    _check_layout(specs, size - 8 - n_header, kind, source)
    return Container(
        source, metadata, {name: _view(data, 8 + n_header, name, spec, source) for name, spec in specs.items()}
    )


def is_canonical(container: Container, data: bytes) -> bool:
    """Tell whether the bytes are the canonical serialisation of what was parsed from them.

    The header fixes where every byte of the data belongs, so equal headers are enough.
    """
    header = serialise(container.metadata, container.tensors)[0]
    return data[: len(header)] == header


def common_metadata(kind: FileKind) -> dict[str, str]:
    """Return the metadata that every file of this kind starts with."""
    return {"format": kind.name, "version": kind.versions[-1], "fedica": __version__}


def check_version(version: object, known: Sequence[str], name: str, source: str) -> None:
    """Refuse a version of the format that this fedica does not know."""
    if version not in known:
        raise FormatError(
            f"{source}: fedica {__version__} reads version {' or '.join(map(repr, known))} of {name}; got version "
            f"{str(version)[:60]!r}. Update fedica (pip install -U fedica), or ask for a file of its version."
        )


def declared(metadata: Mapping[str, str | None]) -> dict[str, str]:
    """Leave out the fields that nobody declared: a file has no empty fields."""
    return {key: value for key, value in metadata.items() if value is not None}


def require_tensor(container: Container, name: str, dtypes: str | Sequence[str], n_dimensions: int) -> NDArray[Any]:
    """Return a tensor that the file must have, of one of the dtypes and the number of dimensions that it must have."""
    known = (dtypes,) if isinstance(dtypes, str) else dtypes
    array = container.tensors.get(name)
    if array is None:
        there = ", ".join(map(repr, container.tensors)) or "none"
        raise FormatError(f"{container.source}: tensor {name!r} is missing; it has {there}.")
    if _NAMES[array.dtype] not in known or array.ndim != n_dimensions:
        raise FormatError(
            f"{container.source}: tensor {name!r} must be {' or '.join(known)} with {n_dimensions} dimensions; "
            f"got {_NAMES[array.dtype]} of shape {array.shape}."
        )
    return array


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    for dtype in DTYPES.values():
        if array.dtype == dtype or (array.dtype.kind == dtype.kind == "i"):
            return array.astype(dtype, copy=False)
    return array.astype("<f8", casting="safe", copy=False)


def _counted(n_numbers: int, dtype: np.dtype[Any]) -> int:
    """Return for how many numbers these count in the limits: those in single precision for half."""
    return (n_numbers + 1) // 2 if dtype == np.float32 else n_numbers


def _widened(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array with float32 numbers as float64."""
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _checked(metadata: Mapping[str, str]) -> Mapping[str, str]:
    if len(metadata) > MAX_METADATA:
        raise FormatError(f"a file holds at most {MAX_METADATA} metadata fields; got {len(metadata)}.")
    for key, value in metadata.items():
        if len(key) > MAX_KEY or not encodable(key + value):
            raise FormatError(
                f"metadata {key[:40]!r} must be Unicode text with a name of at most {MAX_KEY} characters; its name has "
                f"{len(key)}, or one of them is half a surrogate pair."
            )
    return metadata


def _check_kind(metadata: Mapping[str, str], kind: FileKind, source: str) -> None:
    name = metadata.get("format")
    if name != kind.name:
        what = "without the field 'format'" if name is None else f"of format {name[:60]!r}"
        raise FormatError(f"{source}: expected a {kind.name} file; this is a safetensors file {what}.")
    check_version(metadata.get("version"), kind.versions, kind.name, source)


def _check_layout(specs: Mapping[str, TensorSpec], n_data: int, kind: FileKind, source: str) -> None:
    n_numbers, end = 0, 0
    for name, spec in sorted(specs.items(), key=lambda item: (item[1].start, item[1].stop)):
        if spec.dtype not in DTYPES:
            raise FormatError(f"{source}: tensor {name!r} must be one of {', '.join(DTYPES)}; got {spec.dtype!r}.")
        count = math.prod(spec.shape)
        n_numbers += _counted(count, DTYPES[spec.dtype])
        if n_numbers > kind.max_numbers:
            raise FormatError(
                f"{source}: a {kind.name} file holds at most {kind.max_numbers} numbers; tensor {name!r} claims the "
                f"shape {spec.shape}."
            )
        n_bytes = count * DTYPES[spec.dtype].itemsize
        if spec.start != end or spec.stop - spec.start != n_bytes:
            raise FormatError(
                f"{source}: tensor {name!r} of shape {spec.shape} needs bytes {end} to {end + n_bytes} of the data; "
                f"its offsets are {spec.start} to {spec.stop}."
            )
        end = spec.stop
    if end != n_data:
        raise FormatError(
            f"{source}: its tensors need {end} bytes of data; {n_data} follow the header. Is it complete?"
        )


def _view(data: bytes, offset: int, name: str, spec: TensorSpec, source: str) -> NDArray[Any]:
    dtype = DTYPES[spec.dtype]
    n_bytes = spec.stop - spec.start
    if n_bytes == 0:
        return np.zeros(spec.shape, dtype)
    raw = np.frombuffer(data, np.uint8, n_bytes, offset + spec.start)
    if dtype.kind == "b" and raw.max() > 1:
        raise FormatError(f"{source}: BOOL tensor {name!r} must hold zeros and ones; got {raw.max()}.")
    return raw.view(dtype).reshape(spec.shape)

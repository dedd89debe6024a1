"""numpy's .npy and .npz files, read without Python's parser. A leaf: of ours it imports nothing.

numpy parses headers with ``ast.literal_eval``. Before CPython 3.11.8 all threads share the depth counter of ``ast``:
parsing in two threads at once can raise SystemError (gh-106905); a lock here would not stop the host's threads.
A damaged file raises ValueError, TypeError or OSError, and of an archive what `zipfile` raises. Nothing is unpickled.
"""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

MAX_HEADER = 10_000
"""Most bytes of a header: numpy's own limit."""
_MAGIC = b"\x93NUMPY"
_LENGTH_AND_ENCODING = {b"\1\0": (2, "latin-1"), b"\2\0": (4, "latin-1"), b"\3\0": (4, "utf-8")}
_ENTRY = re.compile(
    r"""\s*['"](?:
    descr['"]\s*:\s*['"](?P<descr>[<>|=]?[A-Za-z?]\w*(?:\[\w+\])?)['"]
    |fortran_order['"]\s*:\s*(?P<fortran_order>True|False)
    |shape['"]\s*:\s*\((?P<shape>(?:\s*\d+L?\s*,)*(?:\s*\d+L?)?\s*)\)
    )\s*(?:,\s*|(?=\}))""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class NpyHeader:
    """What the header of an array tells."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]  # which entries lie together: those of a row, or those of a column

    def check_size(self, n_bytes: int) -> None:
        """Refuse an array whose entries take more than the bytes that follow the header."""
        needed = prod(self.shape) * self.dtype.itemsize
        if needed > n_bytes:
            raise ValueError(f"{self.shape} of {self.dtype} take {needed} bytes, got {n_bytes}")


def read_npy_header(stream: IO[bytes]) -> NpyHeader:
    """Read the header of an array, of version 1, 2 or 3; the stream then stands at the first entry."""
    magic, version = _read_exactly(stream, len(_MAGIC)), _read_exactly(stream, 2)
    if magic != _MAGIC or version not in _LENGTH_AND_ENCODING:
        raise ValueError(f"expected {_MAGIC!r} and version 1, 2 or 3, got {magic + version!r}")
    width, encoding = _LENGTH_AND_ENCODING[version]
    length = int.from_bytes(_read_exactly(stream, width), "little")
    if length > MAX_HEADER:
        raise ValueError(f"a header has at most {MAX_HEADER} bytes, got {length}")
    return _parse_header(_read_exactly(stream, length).decode(encoding).strip())


def map_npy(path: Path) -> NDArray[Any]:
    """Return the array in a file; read-only, it stays on the disk until it is used."""
    with open(path, "rb") as stream:
        header, start = read_npy_header(stream), stream.tell()
        header.check_size(os.fstat(stream.fileno()).st_size - start)
        if 0 in header.shape:  # nothing to map
            return np.empty(header.shape, header.dtype)
        return np.memmap(stream, header.dtype, "r", start, header.shape, header.order)


def read_npz_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return one array of an archive, read-only."""
    info = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name)
    with archive.open(info) as stream:
        header = read_npy_header(stream)
        header.check_size(info.file_size - stream.tell())
        return np.ndarray(header.shape, header.dtype, stream.read(), order=header.order)


def _parse_header(text: str) -> NpyHeader:
    """Parse ``{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }``; Python 2 wrote ``(3L, 4L)``."""
    found: dict[str, str] = {}
    place = 1 if text.startswith("{") else len(text)
    while entry := _ENTRY.match(text, place):
        found[str(entry.lastgroup)] = entry[str(entry.lastgroup)]
        place = entry.end()
    if text[place:] != "}" or len(found) != 3:
        raise ValueError(f"no header of a plain array: {text[:80]!r}")
    dtype = np.dtype(found["descr"])
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which could run code and are never loaded")
    shape = tuple(map(int, re.findall(r"\d+", found["shape"])))
    return NpyHeader(dtype, shape, "F" if found["fortran_order"] == "True" else "C")


def _read_exactly(stream: IO[bytes], n_bytes: int) -> bytes:
    data = stream.read(n_bytes)
    if len(data) < n_bytes:
        raise ValueError(f"the file ends after {len(data)} of the next {n_bytes} bytes")
    return data

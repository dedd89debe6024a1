"""Arrays as small PNG pictures with a diverging colour scale, written with zlib alone."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from fedica.arrays import Array, BoolArray

# ColorBrewer's RdBu from blue to red, safe for colour-blind readers (Apache-2.0, Cynthia Brewer).
_STOPS = ["053061", "2166ac", "4393c3", "92c5de", "d1e5f0", "f7f7f7", "fddbc7", "f4a582", "d6604d", "b2182b", "67001f"]
_LINE = (139, 148, 158)  # a grey visible on white and on black
DIVERGING = tuple(f"#{stop}" for stop in _STOPS)
MAX_SIDE = 256
"""Larger pictures are subsampled: a card shows no more, and the page stays small."""


def palette(n_colours: int = 255) -> NDArray[np.uint8]:
    """Return an odd number of colours from blue over white to red: (n_colours, 3)."""
    stops = np.array([[int(stop[i : i + 2], 16) for i in (0, 2, 4)] for stop in _STOPS], dtype=float)
    at = np.linspace(0, len(stops) - 1, n_colours)
    return np.column_stack([np.interp(at, range(len(stops)), stops[:, c]) for c in range(3)]).round().astype(np.uint8)


def picture(values: Array, largest: float | None = None) -> str:
    """Return values (height, width) as the data URL of a PNG: white is zero, NaN is transparent.

    largest : the value of the darkest colour, by default the largest in the picture.
    """
    step = -(-max(values.shape) // MAX_SIDE)
    values = values[::step, ::step]
    colours = np.vstack([[[0, 0, 0]], palette()]).astype(np.uint8)
    return _address(_index(values, 127, largest), colours)


def thumbnail(values: Array, largest: float, most: int) -> str:
    """Return the same with fewer colours: at most ``most`` pixels a side, values beyond ``largest`` cut to it."""
    step = -(-max(values.shape) // most)
    colours = np.vstack([[[0, 0, 0]], palette(63)]).astype(np.uint8)
    return _address(_index(values[::step, ::step], 31, largest), colours)


def outlined_picture(values: Array, line: BoolArray, largest: float | None = None) -> str:
    """Return the same without subsampling, with a grey line through the pixels where ``line`` is true."""
    index = _index(values, 126, largest)
    index[line] = 254
    return _address(index, np.vstack([[[0, 0, 0]], palette(253), [_LINE]]).astype(np.uint8))


def _index(values: Array, half: int, largest: float | None = None) -> NDArray[np.uint8]:
    """Return the colour of each value, 1 to 2 ``half`` + 1 with zero in the middle; 0 is transparent."""
    known = np.isfinite(values)
    end = max(float(np.abs(values[known]).max(initial=0.0)) if largest is None else largest, 1e-300)
    index = np.zeros(values.shape, dtype=np.uint8)
    index[known] = 1 + np.round(half * (1 + np.clip(values[known] / end, -1, 1))).astype(np.uint8)
    return index


def _address(index: NDArray[np.uint8], colours: NDArray[np.uint8]) -> str:
    return "data:image/png;base64," + base64.b64encode(_png(index, colours)).decode("ascii")


def _png(index: NDArray[np.uint8], colours: NDArray[np.uint8]) -> bytes:
    height, width = index.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each line starts with its filter type: none
    lines[:, 1:] = index
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", colours.tobytes()),
            _chunk(b"tRNS", b"\x00"),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

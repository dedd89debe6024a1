"""Six mixed photographs, split among twelve clients of which five are bad: a federation with a visible result.

Every client has the same six channels (mixtures of the photographs) on its own tile of the picture plane. Raw pixels
are nearly Gaussian, so clients fit differences of neighbouring pixels: a linear filter that preserves the mixing matrix
and makes the sources sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedica.arrays import Array, RandomState, readonly
from fedica.errors import InputError, MissingExtraError
from fedica.simulate.mixing import random_mixing
from fedica.simulate.settings import client_name
from fedica.simulate.streams import seed_of, stream

PHOTOGRAPHS = ("camera", "astronaut", "brick", "grass", "gravel", "moon")
"""Names of the photographs in `skimage.data`; all are part of the scikit-image wheel, so nothing is downloaded."""

GRID = (3, 4)
"""Rows and columns of tiles in the picture plane, one tile per client."""

SMALL_SIDE = 24
"""Side, in pixels, of the piece held by a client with few pixels."""

LUMINANCE = (0.2125, 0.7154, 0.0721)
"""Weights of red, green and blue in a grey value, as in `skimage.color.rgb2gray`."""


@dataclass(frozen=True, eq=False)
class PhotographClient:
    """One client and its piece of the mixtures."""

    name: str
    fault: str  # a key of `FAULTS`
    box: tuple[int, int, int, int]  # top, left, height and width of its piece in the picture plane
    pixels: Array  # (channels, height, width), its recording, with its fault

    @property
    def honest(self) -> bool:
        """Whether its pixels are correct, even if they are few."""
        return self.fault in ("none", "few pixels")


@dataclass(frozen=True, eq=False)
class PhotographFederation:
    """The clients, and the truth."""

    names: tuple[str, ...]  # names of the photographs
    sources: Array  # (6, height, width), the photographs, each of mean zero and variance one
    mixing: Array  # (6, 6), the mixing matrix; unit columns, not orthogonal
    mixtures: Array  # (6, height, width), the mixed photographs, without the clients' faults
    clients: tuple[PhotographClient, ...]  # in row-major order of their tiles


def load_photographs() -> Array:
    """Return the six grey photographs of scikit-image as an array of shape (6, 512, 512).

    Raises
    ------
    MissingExtraError
        If scikit-image is not installed.
    """
    try:
        from skimage import data  # noqa: PLC0415 - optional, loaded on demand
    except ImportError as error:
        raise MissingExtraError(
            "the photographs need scikit-image, which is not installed. Run: pip install 'fedica[demo]'"
        ) from error
    pictures = (np.asarray(getattr(data, name)(), dtype=np.float64) for name in PHOTOGRAPHS)
    return np.stack([picture @ LUMINANCE if picture.ndim == 3 else picture for picture in pictures])


def photograph_federation(
    photographs: Array, *, condition: float = 3.0, random_state: RandomState = None
) -> PhotographFederation:
    """Mix the photographs by one random matrix, and give every client its tile, with its fault.

    Parameters
    ----------
    photographs : ndarray of shape (6, height, width)
        Those of `load_photographs`, or smaller ones; a tile has at least `SMALL_SIDE` x `SMALL_SIDE` pixels.
    condition : float
        Condition number of the mixing matrix; 1: orthogonal.
    random_state : int, RandomState, Generator or None
        Seed for the mixing matrix and the faults.

    Returns
    -------
    PhotographFederation
        Twelve clients in the order of `FAULT_OF_CLIENT`.
    """
    sources = _standardised(photographs)
    seed, r, n_clients = seed_of(random_state), len(PHOTOGRAPHS), len(FAULT_OF_CLIENT)
    mixing = random_mixing(None, r, condition=condition, rng=stream(seed, "mixing"))
    mixtures = np.tensordot(mixing, sources, axes=1)
    clients = tuple(
        _client(client_name(k, n_clients), FAULT_OF_CLIENT[k], tile, mixtures, stream(seed, "client", k))
        for k, tile in enumerate(_tiles(*sources.shape[1:]))
    )
    return PhotographFederation(
        names=PHOTOGRAPHS,
        sources=readonly(sources),
        mixing=readonly(mixing),
        mixtures=readonly(mixtures),
        clients=clients,
    )


def differences(pixels: Array) -> Array:
    """Return the horizontal and vertical differences of neighbouring pixels, one per row.

    pixels : (channels, height, width). Returns (height * (width - 1) + (height - 1) * width, channels).
    """
    channels = pixels.shape[0]
    across = np.diff(pixels, axis=2).reshape(channels, -1)
    down = np.diff(pixels, axis=1).reshape(channels, -1)
    return np.concatenate([across, down], axis=1).T


def unmix(mixing: Array, mixtures: Array) -> Array:
    """Recover the sources of every pixel. mixing : (channels, r); mixtures : (channels, height, width)."""
    return np.tensordot(np.linalg.pinv(mixing), mixtures, axes=1)


def _standardised(photographs: Array) -> Array:
    if photographs.ndim != 3 or photographs.shape[0] != len(PHOTOGRAPHS):
        n = len(PHOTOGRAPHS)
        raise InputError(f"photographs must have shape ({n}, height, width); got {photographs.shape}.")
    smallest = min(side // cut for side, cut in zip(photographs.shape[1:], GRID, strict=True))
    if smallest < SMALL_SIDE:
        raise InputError(
            f"every tile must be at least {SMALL_SIDE} pixels high and wide; pictures of {photographs.shape[1]} x "
            f"{photographs.shape[2]} give tiles of {smallest}. Give larger pictures."
        )
    deviation = photographs.std(axis=(1, 2), keepdims=True)
    if not np.all(deviation > 0):  # NaN fails here too
        raise InputError("photographs must be finite and none of them constant.")
    return np.asarray((photographs - photographs.mean(axis=(1, 2), keepdims=True)) / deviation, dtype=np.float64)


def _tiles(height: int, width: int) -> list[tuple[int, int, int, int]]:
    rows = np.linspace(0, height, GRID[0] + 1).astype(int)
    columns = np.linspace(0, width, GRID[1] + 1).astype(int)
    return [
        (int(top), int(left), int(bottom - top), int(right - left))
        for top, bottom in pairwise(rows)
        for left, right in pairwise(columns)
    ]


def _client(
    name: str, fault: str, box: tuple[int, int, int, int], mixtures: Array, rng: np.random.Generator
) -> PhotographClient:
    top, left, height, width = box
    if fault == "few pixels":
        top, left = top + (height - SMALL_SIDE) // 2, left + (width - SMALL_SIDE) // 2
        height = width = SMALL_SIDE
    piece = mixtures[:, top : top + height, left : left + width]
    return PhotographClient(name, fault, (top, left, height, width), readonly(FAULTS[fault](piece, rng)))


def _as_it_is(piece: Array, rng: np.random.Generator) -> Array:
    return piece


def _noisy(piece: Array, rng: np.random.Generator) -> Array:
    return piece + 0.5 * rng.standard_normal(piece.shape)


def _wrong_gains(piece: Array, rng: np.random.Generator) -> Array:
    return np.asarray(piece * np.exp(0.7 * rng.standard_normal((piece.shape[0], 1, 1))), dtype=np.float64)


def _swapped_channels(piece: Array, rng: np.random.Generator) -> Array:
    return np.roll(piece, 1, axis=0)  # every channel is in the place of the next


FAULTS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "none": _as_it_is,
    "few pixels": _as_it_is,
    "noise": _noisy,
    "wrong gains": _wrong_gains,
    "swapped channels": _swapped_channels,
}
"""Effect of each fault on a client's piece of the mixtures."""

FAULT_OF_CLIENT = (
    *("none", "none", "few pixels", "none"),
    *("noise", "none", "none", "few pixels"),
    *("none", "wrong gains", "none", "swapped channels"),
)
"""Fault of each client: seven have none, two have few pixels, three have faulty pixels."""

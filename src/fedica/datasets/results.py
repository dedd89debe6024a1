"""What the fetchers return: numbers or files, and their origin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Origin:
    """Origin of a data set.

    Parameters
    ----------
    package : str
        The package that carries it, with its version.
    licence : str
        The licence of that package.
    reference : str
        Who measured it, and where that was published.
    """

    package: str
    licence: str
    reference: str


@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """Channels that were measured together over time.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_channels)
        One row per sample; read-only.
    channels : tuple of str
        Names of the columns.
    sfreq : float
        Samples per second.
    unit : str
        Unit of the numbers.
    origin : Origin
        Where it comes from.
    """

    data: NDArray[Any]
    channels: tuple[str, ...]
    sfreq: float
    unit: str
    origin: Origin

    def __post_init__(self) -> None:
        self.data.setflags(write=False)

    def __repr__(self) -> str:
        n_samples, n_channels = self.data.shape
        seconds = n_samples / self.sfreq
        return f"Recording of {n_channels} channels, {n_samples} samples ({seconds:.0f} s), from {self.origin.package}"


@dataclass(frozen=True, eq=False)
class Files:
    """Files in the cache folder, for libraries that read files.

    Parameters
    ----------
    paths : tuple of Path
        The files.
    origin : Origin
        Where they come from.
    """

    paths: tuple[Path, ...]
    origin: Origin

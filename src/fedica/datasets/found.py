"""What a data set is once it is here: numbers or files, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedica.arrays import readonly


@dataclass(frozen=True)
class Origin:
    """Where a data set comes from.

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
    """Channels that were measured side by side over time.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_channels)
        One sample a row.
    channels : tuple of str
        Names of the columns.
    sfreq : float
        Samples in a second.
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
        object.__setattr__(self, "data", readonly(self.data))

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

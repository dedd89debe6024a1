"""A sheet: what the reader of a format found in a file. A table: the data that is left to fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray


class Passband(NamedTuple):
    """Which frequencies the samples of a recording hold, in Hz, as far as its file and fedica's own filters tell.

    Parameters
    ----------
    rate : float
        Sampling rate.
    highpass, lowpass : float
        Cut-offs of what was filtered out, before or by fedica; 0 if no filter is known of.
    """

    rate: float
    highpass: float
    lowpass: float


@dataclass(frozen=True, eq=False)
class Sheet:
    """The columns of numbers of one file.

    Parameters
    ----------
    values : ndarray of shape (n_samples, p)
        Numbers; NaN where the file has none.
    names : tuple of str, optional
        Names of these columns, if the file names its columns.
    left_out : mapping of str to str
        Columns that hold no numbers, and what they hold instead.
    notes : tuple of str
        What the reader did and noticed, one sentence each.
    units : tuple of str, optional
        Unit of each column, if the file stores it.
    unusable : mapping of str to str
        Columns that the file marks as not to be used (bad channels), and why: they are left out even when they are
        wanted, with a note of the reader.
    extra : mapping of str to str
        How the data was prepared, where the server must know it: fields of the contribution.
    measured : bool
        Whether the format has nothing but measurements, such as voxels, so that no column can be an identifier.
    labels : tuple of str, optional
        Labels of the rows, if the file has them: they never leave the client.
    labels_column : str
        Name of the column of these labels; empty if it has none.
    persons : frozenset of str, optional
        Of whom the rows are, if a column tells; it never leaves the client.
    passband : Passband, optional
        Of a recording: its sampling rate, and how it was filtered.
    """

    values: NDArray[Any]
    names: tuple[str, ...] | None
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()
    units: tuple[str, ...] | None = None
    unusable: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    measured: bool = False
    labels: tuple[str, ...] | None = None
    labels_column: str = ""
    persons: frozenset[str] | None = None
    passband: Passband | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Data that can be fitted.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        Finite numbers. A memory-mapped array where the file is one.
    features : tuple of str, optional
        Names of the columns, if the file has them.
    source : str
        Name used in messages: the file.
    left_out : mapping of str to str
        Columns that were left out, and why.
    n_dropped : int
        Rows that were dropped because a value was missing.
    notes : tuple of str
        What was noticed, one sentence each; everything that was left out is among them.
    units : tuple of str, optional
        Unit of each column, if the file stores it.
    extra : mapping of str to str
        How the data was prepared, where the server must know it: fields of the contribution.
    labels : tuple of str, optional
        Labels of the rows, if the file has them: they never leave the client.
    n_files : int
        How many files the data is from.
    persons : frozenset of str, optional
        Of whom the rows are, if the data tells: their number may be declared.
    passband : Passband, optional
        Of a recording: its sampling rate, and how it was filtered.
    """

    values: NDArray[Any]
    features: tuple[str, ...] | None
    source: str
    left_out: dict[str, str]
    n_dropped: int
    notes: tuple[str, ...]
    units: tuple[str, ...] | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None
    n_files: int = 1
    persons: frozenset[str] | None = None
    passband: Passband | None = None

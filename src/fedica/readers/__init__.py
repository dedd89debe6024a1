"""Files that people have -> arrays with feature names."""

from __future__ import annotations

from fedica.readers.matched import Matched, matched
from fedica.readers.mne_ica import from_mne, to_mne
from fedica.readers.names import read_names
from fedica.readers.options import ReadOptions
from fedica.readers.recording import as_table
from fedica.readers.registry import READERS, Reader, read_data, suffix_of
from fedica.readers.sheet import Sheet, Table

__all__ = [
    "READERS",
    "Matched",
    "ReadOptions",
    "Reader",
    "Sheet",
    "Table",
    "as_table",
    "from_mne",
    "matched",
    "read_data",
    "read_names",
    "suffix_of",
    "to_mne",
]

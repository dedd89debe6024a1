"""Files that people have -> arrays with feature names."""

from __future__ import annotations

from fedica.readers.bids import write_bids
from fedica.readers.fitted_objects import from_fastica, from_picard
from fedica.readers.frames import to_frame
from fedica.readers.matched import Matched, matched
from fedica.readers.mne_ica import from_mne, to_mne
from fedica.readers.names import read_names
from fedica.readers.nilearn_maps import from_canica, from_nifti, to_nifti
from fedica.readers.objects import as_table
from fedica.readers.options import ReadOptions
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
    "from_canica",
    "from_fastica",
    "from_mne",
    "from_nifti",
    "from_picard",
    "matched",
    "read_data",
    "read_names",
    "suffix_of",
    "to_frame",
    "to_mne",
    "to_nifti",
    "write_bids",
]

"""Data files and objects in memory -> tables of numbers with feature names."""

from fedica.formats import READERS, Reader, ReadOptions
from fedica.readers.bids_folders import bids_recordings
from fedica.readers.joined import read_files
from fedica.readers.names import read_names
from fedica.readers.objects import as_table
from fedica.readers.registry import read_data, suffix_of
from fedica.readers.sheet import Sheet, Table

__all__ = [
    "READERS",
    "ReadOptions",
    "Reader",
    "Sheet",
    "Table",
    "as_table",
    "bids_recordings",
    "read_data",
    "read_files",
    "read_names",
    "suffix_of",
]

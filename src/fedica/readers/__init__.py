"""Files that people have -> arrays with feature names."""

from __future__ import annotations

from fedica.readers.names import read_names
from fedica.readers.registry import READERS, Reader, read_data
from fedica.readers.sheet import Sheet, Table

__all__ = ["READERS", "Reader", "Sheet", "Table", "read_data", "read_names"]

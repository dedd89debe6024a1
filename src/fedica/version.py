"""The version, in a leaf of its own: files and results carry it."""

__version__ = "0.1.0"

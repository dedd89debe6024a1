"""The version, in a leaf of its own: files and results carry it."""

from __future__ import annotations

__version__ = "0.1.0"

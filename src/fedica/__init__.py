"""fedica: one-shot robust federated independent component analysis."""

from __future__ import annotations

__version__ = "0.1.0"
